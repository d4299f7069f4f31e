"""The terms of ratio matching: functions of E(x) - E(x_-i) that are large if the neighbour x_-i is too likely."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from ebmlab.io.rebuilding import Recorded

LIMIT = 20.0


class Objective(Recorded):
    """A function f of the difference E(x) - E(x_-i), elementwise."""

    def __call__(self, difference: Tensor) -> Tensor:
        """f(difference), in the shape of the argument. If the argument is finite, so are f and its gradient."""
        raise NotImplementedError

    def log(self, difference: Tensor) -> Tensor:
        """Logarithm of f(difference), without underflow; `Exponential` omits its limit here."""
        raise NotImplementedError


class Bounded(Objective):
    """sigmoid(E(x) - E(x_-i))^2, between 0 and 1 (Liu et al. 2023, Eq. 2; Hyvarinen 2007)."""

    def __call__(self, difference: Tensor) -> Tensor:
        return torch.sigmoid(difference).square()

    def log(self, difference: Tensor) -> Tensor:
        return 2 * logsigmoid(difference)


class Exponential(Objective):
    """exp(E(x) - E(x_-i))^2 (Liu et al. 2023, Eq. 3; Lyu 2009).

    Above a difference of 20 it continues as its tangent, because the exponential could overflow there. It stays convex
    and increasing.
    """

    def __call__(self, difference: Tensor) -> Tensor:
        return torch.exp(2 * difference.clamp(max=LIMIT)) * (1 + 2 * (difference - LIMIT).clamp(min=0))

    def log(self, difference: Tensor) -> Tensor:
        return 2 * difference
