"""Proposals that change all coordinates independently, which all discrete Langevin samplers use."""

from __future__ import annotations

import torch
from torch import Tensor

from ebmlab.domains import Binary, Categorical, Domain, Ordinal, Spin
from ebmlab.numerics.noise import bernoulli, categorical
from ebmlab.numerics.softplus import sum_softplus
from ebmlab.samplers.numbers import Number
from ebmlab.samplers.proposals.proposal import Draw, Proposal

TWO_VALUES = (Binary, Spin)


def factorised(
    domain: Domain, x: Tensor, drift: Tensor, *, stiffness: Number, window: int | None = None, weight: Number = 1.0
) -> Proposal:
    """The product over i of softmax over y_i of weight drift_i (y_i - x_i) - stiffness_i (y_i - x_i)^2 / 2.

    The discrete Langevin proposal (Zhang et al. 2022, Eq. 2) has drift grad E(x), weight -1 / 2 and stiffness
    1 / alpha. The proposals of ACS (Pynadath et al. 2024, Eq. 6) and of the any-scale balanced samplers (Sun et al.
    2023) differ only in these three.

    Args:
        domain: where x lives.
        x: states, `(B, *event)`.
        drift: `(B, *event)`.
        stiffness: a number, or one per coordinate `(*shape)` or `(B, *shape)`.
        window: propose only values within this distance of x_i (Zhang et al. 2022, App. C); Ordinal domains only.
        weight: a number.

    Example:
        >>> import torch
        >>> from ebmlab.domains import Spin
        >>> x = torch.ones(2, 4)
        >>> q = factorised(Spin(4), x, drift=torch.zeros_like(x), stiffness=torch.tensor(1.0))
        >>> q.sample().y.shape
        torch.Size([2, 4])
    """
    if isinstance(domain, TWO_VALUES):
        return Flips(domain, x, drift, stiffness, weight)
    if isinstance(domain, Categorical):
        return Classes(x, weight * drift, stiffness)
    assert isinstance(domain, Ordinal)
    return Levels(domain, x, weight * drift, stiffness, window)


def flipped(domain: Domain, x: Tensor, flips: Tensor) -> Tensor:
    """A copy of bits or spins x `(B, *event)`, with the coordinates flipped where `flips`, of the same shape, is 1."""
    if isinstance(domain, Binary) and torch.compiler.is_compiling():
        return (x - flips).abs()
    if isinstance(domain, Binary):
        return torch.ne(x, flips, out=torch.empty_like(x))
    return torch.addcmul(x, x, flips, value=-2)


class Flips(Proposal):
    """The proposal for coordinates with two values. A move says for each coordinate whether it flips, 0 or 1.

    The reverse move flips the same coordinates. Log q is the sum over i of flip_i l_i - softplus(l_i), where l_i is the
    logit of a flip. The second term does not depend on the move and is summed once, when the proposal is made.
    """

    def __init__(
        self, domain: Binary | Spin, x: Tensor, drift: Tensor, stiffness: Number, weight: Number = 1.0
    ) -> None:
        self.domain, self.x = domain, x
        bits = isinstance(domain, Binary)
        half = torch.sub(x, 0.5).mul_(drift) if bits else x * drift  # drift_i (x_i - y_i) / 2
        self.logits = _line(stiffness * (-0.5 if bits else -2.0), half, -2 * weight)
        self.normaliser = sum_softplus(self.logits.flatten(1))

    def sample(self) -> Draw:
        flips = bernoulli(self.logits)
        y = flipped(self.domain, self.x, flips)
        return Draw(y, lambda: self.log_prob(flips), reverse=flips, hops=lambda: flips.flatten(1).sum(1))

    def log_prob(self, move: Tensor) -> Tensor:
        return (move * self.logits).flatten(1).sum(1) - self.normaliser

    def log_ratio(self, draw: Draw, there: Flips) -> Tensor:
        rise = torch.sub(there.logits, self.logits).mul_(draw.reverse)
        return rise.flatten(1).sum(1) - there.normaliser + self.normaliser

    def move_to(self, y: Tensor) -> Tensor:
        return (y != self.x).to(self.logits)


def _line(constant: Number, x: Tensor, slope: Number) -> Tensor:
    """Returns constant + slope x, which may be written into x; one pass over memory where both are numbers."""
    if isinstance(constant, Tensor) or isinstance(slope, Tensor):
        return slope * x + constant
    if slope == 1:
        return x.add_(constant)
    return torch.add(torch.tensor(constant, dtype=x.dtype, device=x.device), x, alpha=slope)


class Classes(Proposal):
    """The proposal for one-hot vectors: |y_i - x_i|^2 is 2 for every other class (Zhang et al. 2022, App. B)."""

    def __init__(self, x: Tensor, drift: Tensor, stiffness: Number) -> None:
        self.x, stiffness = x, _for_each_value(stiffness)
        self.log_probs = (drift - stiffness * (1 - x)).log_softmax(-1)

    def sample(self) -> Draw:
        index = categorical(self.log_probs).unsqueeze(-1)
        log_q = self.log_probs.gather(-1, index).flatten(1).sum(1)
        return Draw(torch.zeros_like(self.x).scatter_(-1, index, 1.0), log_q, reverse=self.x)

    def log_prob(self, move: Tensor) -> Tensor:
        return self.log_probs.gather(-1, move.argmax(-1, keepdim=True)).flatten(1).sum(1)


class Levels(Proposal):
    """The proposal for integers: all values of the domain, or those in a window around x_i."""

    def __init__(self, domain: Ordinal, x: Tensor, drift: Tensor, stiffness: Number, window: int | None) -> None:
        stiffness = _for_each_value(stiffness)
        levels = torch.arange(domain.num_values, dtype=x.dtype, device=x.device)
        if window is None:
            self.offsets = levels - x.unsqueeze(-1)
        else:
            self.offsets = torch.arange(-window, window + 1, dtype=x.dtype, device=x.device).expand(*x.shape, -1)
        self.x = x
        self.window = window
        logits = drift.unsqueeze(-1) * self.offsets - stiffness / 2 * self.offsets.square()
        if window is not None:
            y = x.unsqueeze(-1) + self.offsets
            logits = logits.masked_fill((y < 0) | (y >= domain.num_values), -torch.inf)
        self.log_probs = logits.log_softmax(-1)

    def sample(self) -> Draw:
        index = categorical(self.log_probs).unsqueeze(-1)
        log_q = self.log_probs.gather(-1, index).flatten(1).sum(1)
        return Draw(self.x + self.offsets.gather(-1, index).squeeze(-1), log_q, reverse=self.x)

    def log_prob(self, move: Tensor) -> Tensor:
        index = (move if self.window is None else move - self.x + self.window).long().unsqueeze(-1)
        outside = (index < 0) | (index >= self.log_probs.shape[-1])
        log_probs = self.log_probs.gather(-1, index.clamp(0, self.log_probs.shape[-1] - 1))
        return log_probs.masked_fill(outside, -torch.inf).flatten(1).sum(1)


def _for_each_value(stiffness: Number) -> Number:
    return stiffness.unsqueeze(-1) if isinstance(stiffness, Tensor) and stiffness.dim() else stiffness
