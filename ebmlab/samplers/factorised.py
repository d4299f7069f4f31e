"""Proposals that move every coordinate at once and independently: what all discrete Langevin samplers share."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import softplus

from ebmlab.domains import Binary, Categorical, Finite, Ordinal, Spin
from ebmlab.noise import bernoulli, categorical


class Factorised:
    """q(y | x), a product over coordinates of softmax over y_i of drift_i (y_i - x_i) - stiffness_i (y_i - x_i)^2 / 2.

    The discrete Langevin proposal (Zhang et al. 2022, Eq. 2) has drift -grad E(x) / 2 and stiffness 1 / alpha; those of
    the any-scale balanced samplers (Sun et al. 2023) and of ACS (Pynadath et al. 2024, Eq. 6) differ in the two alone.
    """

    def sample(self) -> tuple[Tensor, Tensor]:
        """A draw y `(B, *event)` and log q(y | x) `(B,)`."""
        raise NotImplementedError

    def log_prob(self, y: Tensor) -> Tensor:
        """Log q(y | x), `(B,)`; minus infinity where y is out of the window."""
        raise NotImplementedError


def factorised(domain: Finite, x: Tensor, drift: Tensor, stiffness: Tensor, window: int | None = None) -> Factorised:
    """The proposal at x.

    Args:
        domain: where x lives.
        x: states, `(B, *event)`.
        drift: `(B, *event)`.
        stiffness: a scalar, or one number per coordinate `(*shape)` or `(B, *shape)`.
        window: only values within this distance of x_i (Zhang et al. 2022, App. C); Ordinal domains only.
    """
    if isinstance(domain, Binary | Spin):
        return _Flips(domain, x, drift, stiffness)
    if isinstance(domain, Categorical):
        return _Classes(x, drift, stiffness)
    assert isinstance(domain, Ordinal)
    return _Levels(domain, x, drift, stiffness, window)


class _Flips(Factorised):
    """Two values a coordinate: the logit of a flip says all."""

    def __init__(self, domain: Binary | Spin, x: Tensor, drift: Tensor, stiffness: Tensor) -> None:
        self.x = x
        self.other = 1 - x if isinstance(domain, Binary) else -x
        difference = self.other - x  # squared, it is 1 on Binary and 4 on Spin
        self.logits = drift * difference - stiffness * (0.5 if isinstance(domain, Binary) else 2.0)

    def sample(self) -> tuple[Tensor, Tensor]:
        flips = bernoulli(self.logits)
        return torch.lerp(self.x, self.other, flips), self._log_prob(flips)

    def log_prob(self, y: Tensor) -> Tensor:
        return self._log_prob((y != self.x).to(self.logits))

    def _log_prob(self, flips: Tensor) -> Tensor:
        return (flips * self.logits - softplus(self.logits)).flatten(1).sum(1)


class _Classes(Factorised):
    """One-hot vectors: |y_i - x_i|^2 is 2 for every other class (Zhang et al. 2022, App. B)."""

    def __init__(self, x: Tensor, drift: Tensor, stiffness: Tensor) -> None:
        stiffness = stiffness if stiffness.dim() == 0 else stiffness.unsqueeze(-1)
        self.x = x
        self.log_probs = (drift - stiffness * (1 - x)).log_softmax(-1)

    def sample(self) -> tuple[Tensor, Tensor]:
        index = categorical(self.log_probs).unsqueeze(-1)
        log_q = self.log_probs.gather(-1, index).flatten(1).sum(1)
        return torch.zeros_like(self.x).scatter_(-1, index, 1.0), log_q

    def log_prob(self, y: Tensor) -> Tensor:
        return self.log_probs.gather(-1, y.argmax(-1, keepdim=True)).flatten(1).sum(1)


class _Levels(Factorised):
    """Integers: all of them, or those in a window around x_i."""

    def __init__(self, domain: Ordinal, x: Tensor, drift: Tensor, stiffness: Tensor, window: int | None) -> None:
        stiffness = stiffness if stiffness.dim() == 0 else stiffness.unsqueeze(-1)
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

    def sample(self) -> tuple[Tensor, Tensor]:
        index = categorical(self.log_probs).unsqueeze(-1)
        log_q = self.log_probs.gather(-1, index).flatten(1).sum(1)
        return self.x + self.offsets.gather(-1, index).squeeze(-1), log_q

    def log_prob(self, y: Tensor) -> Tensor:
        index = (y if self.window is None else y - self.x + self.window).long().unsqueeze(-1)
        outside = (index < 0) | (index >= self.log_probs.shape[-1])
        log_probs = self.log_probs.gather(-1, index.clamp(0, self.log_probs.shape[-1] - 1))
        return log_probs.masked_fill(outside, -torch.inf).flatten(1).sum(1)
