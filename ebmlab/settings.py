"""What settings must be: positive numbers, which are finite as are their squares and inverses; counts; choices."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from ebmlab.errors import UserError, told

SMALLEST, LARGEST = 1e-18, 1e18  # their squares are normal float32 numbers, and those of their inverses, too


def require_positive(owner: str, **settings: object) -> None:
    """Raises `UserError` unless all settings of an object are positive numbers from 1e-18 to 1e18.

    Args:
        owner: the object's class, for errors.
        **settings: one number each.

    Example:
        >>> require_positive("Langevin", step_size=0.1, temperature=1.0)
        >>> require_positive("Langevin", step_size=1e-45)
        Traceback (most recent call last):
        ebmlab.errors.UserError: Langevin: step_size is 1e-45, but must be positive, from 1e-18 to 1e+18
    """
    for name, value in settings.items():
        if not SMALLEST <= _number(owner, name, value) <= LARGEST:
            raise UserError(f"{owner}: {name} is {value}, but must be positive, from {SMALLEST:g} to {LARGEST:g}")


def require_all_positive(owner: str, **settings: Sequence[float] | Tensor) -> None:
    """Raises `UserError` unless the lists or tensors hold positive numbers from 1e-18 to 1e18 alone.

    Example:
        >>> require_all_positive("DMALA", precondition=[1.0, 2.0])
    """
    for name, value in settings.items():
        entries = torch.as_tensor(value, dtype=torch.float64)
        if not ((entries >= SMALLEST) & (entries <= LARGEST)).all():
            raise UserError(
                f"{owner}: {name} holds other numbers, but each entry must be positive, "
                f"from {SMALLEST:g} to {LARGEST:g}"
            )


def require_factor(owner: str, **settings: object) -> None:
    """Raises `UserError` unless all settings of an object are 0 or positive numbers from 1e-18 to 1e18.

    Example:
        >>> require_factor("ContrastiveDivergence", l1=0.0)
    """
    for name, value in settings.items():
        if (number := _number(owner, name, value)) != 0 and not SMALLEST <= number <= LARGEST:
            raise UserError(f"{owner}: {name} is {value}, but must be 0 or a positive number up to {LARGEST:g}")


def require_inside(owner: str, interval: str, **settings: object) -> None:
    """Raises `UserError` unless all settings of an object lie in an interval, such as "(0, 1]" without 0 and with 1.

    Example:
        >>> require_inside("ReplayBuffer", "[0, 1]", reinitialize=0.05)
        >>> require_inside("DualAveraging", "(0, 1)", rate=1.0)
        Traceback (most recent call last):
        ebmlab.errors.UserError: DualAveraging: rate is 1.0, but must be above 0 and below 1
    """
    low, high = interval[1:-1].split(", ")
    with_low, with_high = interval[0] == "[", interval[-1] == "]"
    for name, value in settings.items():
        number = _number(owner, name, value)
        above = number >= float(low) if with_low else number > float(low)
        below = number <= float(high) if with_high else number < float(high)
        if not (above and below):
            begin, end = "at least" if with_low else "above", "at most" if with_high else "below"
            raise UserError(f"{owner}: {name} is {value}, but must be {begin} {low} and {end} {high}")


def require_choice(owner: str, choices: Iterable[str], **settings: object) -> None:
    """Raises `UserError` unless all settings of an object are among the choices.

    Example:
        >>> require_choice("Gibbs", ("systematic", "random"), scan="random")
        >>> require_choice("Gibbs", ("systematic", "random"), scan="both")
        Traceback (most recent call last):
        ebmlab.errors.UserError: Gibbs: scan is "both", but must be "systematic" or "random"
    """
    *others, last = [f'"{choice}"' for choice in choices]
    for name, value in settings.items():
        if f'"{value}"' not in (*others, last):
            raise UserError(f'{owner}: {name} is "{value}", but must be {", ".join(others)} or {last}')


def require_count(owner: str, *, least: int = 1, **settings: object) -> None:
    """Raises `UserError` unless all settings of an object are whole numbers, at least `least`; NumPy's are, too.

    Example:
        >>> require_count("GWG", num_flips=2)
        >>> require_count("GWG", num_flips=1.5)
        Traceback (most recent call last):
        ebmlab.errors.UserError: GWG: num_flips is 1.5, but must be a whole number
    """
    for name, value in settings.items():
        try:
            count = operator.index(_single(value))  # type: ignore[arg-type]  # whatever has no index is refused
        except TypeError:
            raise UserError(f"{owner}: {name} is {told(value)}, but must be a whole number") from None
        if count < least:
            raise UserError(f"{owner}: {name} is {value}, but must be at least {least}")


def require_one_each(owner: str, weights: Tensor | None, count: int) -> None:
    """Raises `UserError` unless weights are `(count,)`, one for each sample; None is right, too.

    Example:
        >>> require_one_each("data_law", torch.ones(3), 4)
        Traceback (most recent call last):
        ebmlab.errors.UserError: data_law: weights have the shape (3,), but must be (4,), one for each sample
    """
    if weights is not None and weights.shape != (count,):
        shape = tuple(weights.shape)
        raise UserError(f"{owner}: weights have the shape {shape}, but must be ({count},), one for each sample")


def require_weights(owner: str, weights: Tensor | None, count: int) -> None:
    """Raises `UserError` unless weights are `(count,)`, finite, at least 0 and not all 0; None is right, too.

    Example:
        >>> require_weights("data_law", torch.tensor([0.5, 0.0]), 2)
    """
    require_one_each(owner, weights, count)
    if weights is not None and not (weights.isfinite().all() and (weights >= 0).all() and weights.any()):
        raise UserError(f"{owner}: weights must be finite, at least 0 and not all 0")


def _number(owner: str, name: str, value: object) -> float:
    """The setting as a float; `UserError` unless it is one number, which a tensor without axes is, too."""
    try:
        return float(_single(value))  # type: ignore[arg-type]  # whatever is no number is refused
    except (TypeError, ValueError, RuntimeError):
        raise UserError(f"{owner}: {name} is {told(value)}, but must be a number") from None


def _single(value: object) -> object:
    """The value, if it is no text or boolean, which Python would take for a number."""
    if isinstance(value, str | bytes | bool | np.bool_):
        raise TypeError
    return value
