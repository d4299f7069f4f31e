"""Numbers that a CPU gives to a step as floats, a GPU and a compiled program as tensors without axes."""

from __future__ import annotations

import math

import torch
from torch import Tensor

Number = float | Tensor


def plus(x: Tensor, factor: Number, y: Tensor) -> Tensor:
    """X + factor y; one pass over memory where the factor is a float.

    Example:
        >>> plus(torch.ones(2), 0.5, torch.ones(2)), plus(torch.ones(2), torch.tensor(0.5), torch.ones(2))
        (tensor([1.5000, 1.5000]), tensor([1.5000, 1.5000]))
    """
    return x + factor * y if isinstance(factor, Tensor) else torch.add(x, y, alpha=factor)


def root(number: Number) -> Number:
    """The square root.

    Example:
        >>> root(4.0), root(torch.tensor(4.0))
        (2.0, tensor(2.))
    """
    return number.sqrt() if isinstance(number, Tensor) else math.sqrt(number)
