"""Settings that are positive numbers: finite, and so are their squares and inverses; and counts."""

from __future__ import annotations

import operator
from collections.abc import Sequence

import torch
from torch import Tensor

from ebmlab.errors import UserError

SMALLEST, LARGEST = 1e-18, 1e18  # their squares are normal float32 numbers, and those of their inverses, too


def require_positive(owner: str, **settings: float | Sequence[float] | Tensor) -> None:
    """Raises `UserError` unless all settings of an object are positive numbers from 1e-18 to 1e18.

    Args:
        owner: the object's class, for errors.
        **settings: numbers, or lists or tensors of numbers.

    Example:
        >>> require_positive("Langevin", step_size=0.1, temperature=1.0)
        >>> require_positive("Langevin", step_size=1e-45)
        Traceback (most recent call last):
        ebmlab.errors.UserError: Langevin: step_size is 1e-45, but must be positive, from 1e-18 to 1e+18
    """
    for name, value in settings.items():
        entries = torch.as_tensor(value, dtype=torch.float64)
        if not ((entries >= SMALLEST) & (entries <= LARGEST)).all():
            what, each = (f"is {value}", "") if entries.dim() == 0 else ("holds other numbers", "each entry ")
            raise UserError(f"{owner}: {name} {what}, but {each}must be positive, from {SMALLEST:g} to {LARGEST:g}")


def require_factor(owner: str, **settings: float) -> None:
    """Raises `UserError` unless all settings of an object are 0 or positive numbers from 1e-18 to 1e18.

    Example:
        >>> require_factor("ContrastiveDivergence", l1=0.0)
    """
    for name, value in settings.items():
        if value != 0 and not SMALLEST <= value <= LARGEST:
            raise UserError(f"{owner}: {name} is {value}, but must be 0 or a positive number up to {LARGEST:g}")


def require_count(owner: str, **settings: object) -> None:
    """Raises `UserError` unless all settings of an object are whole numbers, at least 1; those of NumPy are, too.

    Example:
        >>> require_count("GWG", num_flips=2)
        >>> require_count("GWG", num_flips=1.5)
        Traceback (most recent call last):
        ebmlab.errors.UserError: GWG: num_flips is 1.5, but must be a whole number
    """
    for name, value in settings.items():
        try:
            enough = operator.index(value) >= 1  # type: ignore[arg-type]  # whatever has no index is refused
        except TypeError:
            raise UserError(f"{owner}: {name} is {value}, but must be a whole number") from None
        if not enough:
            raise UserError(f"{owner}: {name} is {value}, but must be at least 1")
