"""Whole numbers of data, which must fit into int64."""

from __future__ import annotations

from typing import Any

import numpy as np

from ebmlab.errors import UserError

LARGEST = 2**63 - 1


def check_whole(numbers: np.ndarray[Any, Any], what: str) -> None:
    """Raises `UserError` if whole numbers lie beyond int64, in which they would turn negative.

    Args:
        numbers: of any type.
        what: their name.

    Example:
        >>> check_whole(np.array([2**63], dtype=np.uint64), "a.npy")
        Traceback (most recent call last):
        ebmlab.errors.UserError: a.npy holds 9223372036854775808, but whole numbers must be below 2**63
    """
    if numbers.dtype.kind == "u" and numbers.dtype.itemsize == 8 and numbers.size and int(numbers.max()) > LARGEST:
        raise UserError(f"{what} holds {int(numbers.max())}, but whole numbers must be below 2**63")
