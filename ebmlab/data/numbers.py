"""Numbers of any kind of array as tensors: the one place where arrays of others come in."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ebmlab.errors import UserError, explained

WORDS = {"U": "texts", "S": "texts", "O": "objects", "M": "dates", "m": "times"}  # kinds of arrays without numbers
UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)  # torch does not calculate with them
OWN_FLOATS = ("bfloat16", "float8_e4m3fn", "float8_e5m2")  # types of the package ml_dtypes, as JAX gives them


def as_numbers(given: Any, what: str) -> Tensor:
    """The numbers of a tensor, an array or nested lists, in a type that torch calculates with.

    Booleans, uint8 and signed integers keep their type, and other unsigned integers become int64. Floats of less than
    four bytes become float32, those of more than eight float64. An array may be flipped, read-only or of the other byte
    order.

    Args:
        given: a tensor, a NumPy array or what becomes one, a number, or nested lists of numbers.
        what: its name in error messages.

    Raises:
        UserError: it holds no real numbers, a whole number beyond int64, or is sparse, quantized or masked.
    """
    if not isinstance(given, Tensor):
        given = _tensor(given, what)
    if given.is_complex() or given.is_quantized:
        raise UserError(f"{what} holds values of the type {given.dtype}; they must be real numbers")
    if given.layout != torch.strided:
        raise UserError(f"{what} is a tensor of the layout {given.layout}: give {what}.to_dense()")
    x: Tensor = given.detach()
    if x.is_floating_point():
        return x.float() if x.itemsize < 4 else x
    if x.dtype in UNSIGNED:
        signed = x.long()
        if x.dtype == torch.uint64 and bool((signed < 0).any()):
            raise UserError(
                f"{what} holds {int(signed[signed < 0].max()) + 2**64}, but whole numbers must be below 2**63"
            )
        return signed
    return x


def _tensor(given: Any, what: str) -> Tensor:
    """Makes a tensor of numbers in another form, such as an array or nested lists."""
    if isinstance(given, bool | int | float | list | tuple) and not _of_numpy(given):
        try:
            return torch.as_tensor(given)  # Python's numbers have no type of their own: they take torch's default
        except (TypeError, ValueError, RuntimeError, OverflowError):
            pass  # NumPy says more clearly what is wrong
    if np.ma.is_masked(given):
        raise UserError(f"{what} is an array with masked entries: fill them in, or leave their rows out")
    with explained(
        f"{what} is no array of numbers: its rows have different lengths", (TypeError, ValueError, RuntimeError)
    ):
        array = np.asarray(given)
    if array.dtype.name in OWN_FLOATS:
        array = array.astype(np.float32)
    if array.dtype.kind not in "biuf":
        found = WORDS.get(array.dtype.kind, f"values of the type {array.dtype}")
        raise UserError(f"{what} holds {found}; they must be real numbers")
    if array.dtype.itemsize > 8:
        array = array.astype(np.float64)
    array = array.astype(array.dtype.newbyteorder("="), order="C", copy=not array.flags.writeable)
    return torch.from_numpy(array)


def _of_numpy(given: Any) -> bool:
    """Whether a number, or the first in nested lists, has a type of NumPy, or is an array."""
    while isinstance(given, list | tuple) and len(given):
        given = given[0]
    return isinstance(given, np.generic | np.ndarray)
