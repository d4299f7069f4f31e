"""Proposals that change all coordinates independently, which all discrete Langevin samplers use."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ebmlab.domains import Binary, Categorical, Domain, Ordinal, Spin
from ebmlab.native import bernoulli, sum_softplus
from ebmlab.numerics.noise import categorical
from ebmlab.samplers.numbers import Number
from ebmlab.samplers.proposals.proposal import Draw, Proposal

TWO_VALUES = (Binary, Spin)
Change = Callable[[Tensor], Tensor]  # of the logits of a flip
Moves = Callable[[Tensor, Tensor], Tensor]  # the log-probability of a move, from those of y_i and of x_i


class Factorised(Proposal):
    """A proposal that changes all coordinates independently."""

    def remade(self, flip: Change, move: Moves, least: Number) -> Factorised:
        """The proposal that moves each coordinate by a kernel which is reversible with respect to this law of it.

        Args:
            flip: the logits of flips, from those of this law; for two values.
            move: the log-probability of a move to y_i, from the logs of this law at y_i and at x_i; for more values.
            least: the probability to stay is at least this share of the law's at x_i, whatever rounding does.
        """
        raise NotImplementedError


def factorised(
    domain: Domain, x: Tensor, drift: Tensor, *, stiffness: Number, window: int | None = None, weight: Number = 1.0
) -> Factorised:
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
        return Flips(domain, x, _flip_logits(domain, x, drift, stiffness, weight))
    stiffness = _for_each_value(stiffness)
    if isinstance(domain, Categorical):  # |y_i - x_i|^2 is 2 for every other class (Zhang et al. 2022, App. B)
        return Classes(x, (weight * drift - stiffness * (1 - x)).log_softmax(-1))
    assert isinstance(domain, Ordinal)
    offsets = _offsets(domain, x, window)
    logits = (weight * drift).unsqueeze(-1) * offsets - stiffness / 2 * offsets.square()
    if window is not None:
        y = x.unsqueeze(-1) + offsets
        logits = logits.masked_fill((y < 0) | (y >= domain.num_values), -torch.inf)
    return Levels(x, offsets, logits.log_softmax(-1), window)


def flipped(domain: Domain, x: Tensor, flips: Tensor) -> Tensor:
    """A copy of bits or spins x `(B, *event)`, with the coordinates flipped where `flips`, of the same shape, is 1."""
    if isinstance(domain, Binary) and torch.compiler.is_compiling():
        return (x - flips).abs()
    if isinstance(domain, Binary):
        return torch.ne(x, flips, out=torch.empty_like(x))
    return torch.addcmul(x, x, flips, value=-2)


class Flips(Factorised):
    """The proposal for coordinates with two values. A move says for each coordinate whether it flips, 0 or 1.

    The reverse move flips the same coordinates. Log q is the sum over i of flip_i l_i - softplus(l_i), where l_i is the
    logit of a flip. The second term does not depend on the move and is summed once, when the proposal is made.
    """

    def __init__(self, domain: Binary | Spin, x: Tensor, logits: Tensor) -> None:
        self.domain, self.x, self.logits = domain, x, logits
        self.normaliser = sum_softplus(self.logits.flatten(1))

    def remade(self, flip: Change, move: Moves, least: Number) -> Flips:
        return Flips(self.domain, self.x, flip(self.logits))

    def sample(self) -> Draw:
        flips = bernoulli(self.logits)
        y = flipped(self.domain, self.x, flips)
        return Draw(y, lambda: self.log_prob(flips), reverse=flips)

    def log_prob(self, move: Tensor) -> Tensor:
        return (move * self.logits).flatten(1).sum(1) - self.normaliser

    def log_ratio(self, draw: Draw, there: Flips) -> Tensor:
        rise = torch.sub(there.logits, self.logits).mul_(draw.reverse)
        return rise.flatten(1).sum(1) - there.normaliser + self.normaliser

    def move_to(self, y: Tensor) -> Tensor:
        return (y != self.x).to(self.logits)


def _flip_logits(domain: Binary | Spin, x: Tensor, drift: Tensor, stiffness: Number, weight: Number) -> Tensor:
    bits = isinstance(domain, Binary)
    half = torch.sub(x, 0.5).mul_(drift) if bits else x * drift  # drift_i (x_i - y_i) / 2
    return _line(stiffness * (-0.5 if bits else -2.0), half, -2 * weight)


def _line(constant: Number, x: Tensor, slope: Number) -> Tensor:
    """Returns constant + slope x, which may be written into x; one pass over memory where both are numbers."""
    if isinstance(constant, Tensor) or isinstance(slope, Tensor):
        return slope * x + constant
    if slope == 1:
        return x.add_(constant)
    return torch.rsub(x, constant, alpha=-slope)


class Classes(Factorised):
    """The proposal for one-hot vectors, from log-probabilities `(B, *event)`."""

    def __init__(self, x: Tensor, log_probs: Tensor) -> None:
        self.x, self.log_probs = x, log_probs

    def sample(self) -> Draw:
        index = categorical(self.log_probs).unsqueeze(-1)
        log_q = self.log_probs.gather(-1, index).flatten(1).sum(1)
        return Draw(torch.zeros_like(self.x).scatter_(-1, index, 1.0), log_q, reverse=self.x)

    def log_prob(self, move: Tensor) -> Tensor:
        return self.log_probs.gather(-1, move.argmax(-1, keepdim=True)).flatten(1).sum(1)

    def remade(self, flip: Change, move: Moves, least: Number) -> Classes:
        return Classes(self.x, _remade(self.log_probs, self.x.argmax(-1, keepdim=True), move, least))


class Levels(Factorised):
    """The proposal for integers: all values of the domain, or those in a window around x_i."""

    def __init__(self, x: Tensor, offsets: Tensor, log_probs: Tensor, window: int | None) -> None:
        self.x, self.offsets, self.log_probs, self.window = x, offsets, log_probs, window

    def sample(self) -> Draw:
        index = categorical(self.log_probs).unsqueeze(-1)
        log_q = self.log_probs.gather(-1, index).flatten(1).sum(1)
        return Draw(self.x + self.offsets.gather(-1, index).squeeze(-1), log_q, reverse=self.x)

    def log_prob(self, move: Tensor) -> Tensor:
        index = self._index(move)
        outside = (index < 0) | (index >= self.log_probs.shape[-1])
        log_probs = self.log_probs.gather(-1, index.clamp(0, self.log_probs.shape[-1] - 1))
        return log_probs.masked_fill(outside, -torch.inf).flatten(1).sum(1)

    def remade(self, flip: Change, move: Moves, least: Number) -> Levels:
        return Levels(self.x, self.offsets, _remade(self.log_probs, self._index(self.x), move, least), self.window)

    def _index(self, y: Tensor) -> Tensor:
        """Where y is in the table, `(B, *event, 1)`."""
        return (y if self.window is None else y - self.x + self.window).long().unsqueeze(-1)


def _offsets(domain: Ordinal, x: Tensor, window: int | None) -> Tensor:
    if window is None:
        return torch.arange(domain.num_values, dtype=x.dtype, device=x.device) - x.unsqueeze(-1)
    return torch.arange(-window, window + 1, dtype=x.dtype, device=x.device).expand(*x.shape, -1)


def _remade(log_probs: Tensor, here: Tensor, move: Moves, least: Number) -> Tensor:
    stay = log_probs.gather(-1, here)
    moves = move(log_probs, stay).scatter(-1, here, -torch.inf)
    left = torch.maximum(1 - moves.exp().sum(-1, keepdim=True), least * stay.exp())
    return moves.scatter(-1, here, left.log())


def _for_each_value(stiffness: Number) -> Number:
    return stiffness.unsqueeze(-1) if isinstance(stiffness, Tensor) and stiffness.dim() else stiffness
