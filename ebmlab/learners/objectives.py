"""The terms of ratio matching: functions of E(x) - E(x_-i), which are large if a neighbour x_-i is too likely."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

LIMIT = 20.0


class Objective:
    """f of the difference E(x) - E(x_-i), elementwise.

    Example:
        >>> import torch
        >>> from ebmlab.learners.objectives import Bounded, Objective
        >>> objective: Objective = Bounded()
        >>> objective(torch.tensor([0.0]))
        tensor([0.2500])
    """

    def __call__(self, difference: Tensor) -> Tensor:
        """f(difference), in the shape of the argument; finite, with a finite gradient, wherever the argument is."""
        raise NotImplementedError

    def log(self, difference: Tensor) -> Tensor:
        """Logarithm of f(difference), which does not underflow; up to the limit of `Exponential`."""
        raise NotImplementedError


class Bounded(Objective):
    """sigmoid(E(x) - E(x_-i))^2, between 0 and 1 (Liu et al. 2023, Eq. 2; Hyvarinen 2007).

    Example:
        >>> import torch
        >>> Bounded()(torch.tensor([-100.0, 0.0, 100.0]))
        tensor([0.0000, 0.2500, 1.0000])
    """

    def __call__(self, difference: Tensor) -> Tensor:
        return torch.sigmoid(difference).square()

    def log(self, difference: Tensor) -> Tensor:
        return 2 * logsigmoid(difference)


class Exponential(Objective):
    """exp(E(x) - E(x_-i))^2 (Liu et al. 2023, Eq. 3; Lyu 2009).

    Above a difference of 20, where a bad model would overflow, it is continued by its tangent. It stays convex, and its
    gradient still tells which neighbour is the worst.

    Example:
        >>> import torch
        >>> Exponential()(torch.tensor([0.0])), Exponential().log(torch.tensor([3.0]))
        (tensor([1.]), tensor([6.]))
    """

    def __call__(self, difference: Tensor) -> Tensor:
        return torch.exp(2 * difference.clamp(max=LIMIT)) * (1 + 2 * (difference - LIMIT).clamp(min=0))

    def log(self, difference: Tensor) -> Tensor:
        return 2 * difference
