"""Numbers that a CPU gives to a step as floats, a GPU and a compiled program as tensors without axes."""

from __future__ import annotations

import math

import torch
from torch import Tensor

Number = float | Tensor


def plus(x: Tensor, factor: Number, y: Tensor) -> Tensor:
    """X + factor y; one pass over memory where the factor is a float."""
    return x + factor * y if isinstance(factor, Tensor) else torch.add(x, y, alpha=factor)


def root(number: Number) -> Number:
    """The square root."""
    return number.sqrt() if isinstance(number, Tensor) else math.sqrt(number)
