"""Raw data as tensors, and results in the caller's kind of array."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ebmlab.data.columns import check_columns
from ebmlab.data.numbers import as_numbers
from ebmlab.data.preprocessing import LEVELS, Preprocessing
from ebmlab.errors import WHY, UserError, explained

Numbers = Tensor | np.ndarray[Any, Any]
Back = Callable[[Tensor], Any]
ROUNDED = 1e-4  # relative error that pixels may have by rounding


def as_tensor(raw: Any, what: str = "raw") -> tuple[Tensor, Back]:
    """A tensor of the numbers, and a function that turns results into a tensor or array, as the numbers were."""
    if isinstance(raw, Tensor):
        return as_numbers(raw, what), lambda result: result
    with explained(f"{what} is no array ({WHY})", ValueError):
        array = np.asarray(raw)  # a list's numbers have 8 bytes here, and torch's default type elsewhere
    return as_numbers(array, what), lambda result: result.cpu().numpy()


def checked(raw: Any, preprocessing: Preprocessing, *, seen: Tensor | None = None) -> tuple[Tensor, Back]:
    """Raw numbers `(N, *shape)`, and a function that turns results into a tensor or array, as the numbers were.

    Args:
        raw: a tensor, an array or a data frame.
        preprocessing: of the training data.
        seen: as for `check_scale`.

    Raises:
        UserError: there are no numbers, or they are not such as the training data.
    """
    check_names(raw, preprocessing.columns)
    numbers, back = as_tensor(raw)
    numbers = preprocessing.shaped(numbers)
    check_finite(numbers)
    check_scale(numbers, preprocessing, seen)
    if len(numbers) == 0:
        raise UserError("raw holds no events")
    return numbers, back


@contextmanager
def placed(where: str) -> Iterator[None]:
    """Errors about raw numbers name the file or option that these came from, in place of "raw".

    Args:
        where: the file, its row or the option.

    Example:
        >>> with placed("x.csv, row 2"):
        ...     check_finite(torch.tensor([[torch.nan]]))
        Traceback (most recent call last):
        ebmlab.errors.UserError: x.csv, row 2: holds NaN or infinity in 1 of 1 events, first in number 0, counted from 0
    """
    try:
        yield
    except UserError as error:
        if not (found := re.match(r"raw(: | (?=holds ))|(?=raw |row \d)", str(error))):
            raise  # of the mask or the sampler
        raise UserError(f"{where}: {str(error)[found.end() :]}", option=error.option) from error


def check_names(given: Any, wanted: Sequence[str], what: str = "raw") -> None:
    """Raises `UserError` if a data frame has other columns than the training data, or in another order.

    Names that are no texts, such as the numbers 0, 1, ..., count only if they are those of the training data.

    Args:
        given: a data frame or a series. What has no names is not looked at.
        wanted: the names in the training data; () if there are none.
        what: its name in error messages.
    """
    labels = next((getattr(given, key) for key in ("column_names", "columns", "index") if hasattr(given, key)), ())
    if callable(labels):  # of a list
        return
    names = [" ".join(str(label).split()) for label in labels]  # as in the head of a table
    if set(names) == set(wanted) or all(isinstance(label, str) for label in labels):
        check_columns(names, wanted, what)


def check_finite(raw: Tensor) -> None:
    """Raises `UserError` if one of the events `(N, ...)` holds NaN or infinity."""
    bad = (~raw.isfinite()).flatten(1).any(1)
    if bad.any():
        first = int(bad.nonzero()[0])
        raise UserError(
            f"raw holds NaN or infinity in {int(bad.sum())} of {len(raw)} events, first in number {first}, counted "
            "from 0"
        )


def check_scale(raw: Tensor, preprocessing: Preprocessing, seen: Tensor | None = None) -> None:
    """Raises `UserError` for pixels in units other than those of the training data.

    Args:
        raw: numbers, all finite. Booleans are bits in all units.
        preprocessing: of the training data.
        seen: numbers that show the units together with raw ones, such as those of whole events; may hold NaN.
    """
    if raw.numel() == 0 or raw.dtype == torch.bool:
        return
    if preprocessing.unit:
        check = _check_fractions if raw.is_floating_point() else _check_levels
        check(raw, preprocessing, raw if seen is None else seen)
    low, high, white = float(raw.min()), float(raw.max()), preprocessing.divisor(raw)
    if preprocessing.binarize and not -ROUNDED * white <= low <= high <= (1 + ROUNDED) * white:
        raise UserError(
            f"raw holds numbers from {low:.6g} to {high:.6g}, but what becomes bits must lie between 0 and {white:g}"
        )
    images = len(preprocessing.shape) == 3 or white == LEVELS  # in a row of fractions all may be small
    if preprocessing.binarize and images and (seen is None or len(seen) > 1):  # of one event, parts may be unknown
        _check_bright(raw if seen is None else seen, white)


def _check_bright(seen: Tensor, white: float) -> None:
    """Raises `UserError` for pixels so dark that each becomes 0, as training does; black ones are right."""
    top = float(seen.max())  # NaN where some are unknown
    if 0 < top <= white / 2:
        raise UserError(
            f"raw holds numbers up to {top:.6g}, but {white:g} is white, so that next to all bits would be 0: give raw "
            "data in the units of the training data, or bits as booleans"
        )


def _check_fractions(raw: Tensor, preprocessing: Preprocessing, seen: Tensor) -> None:
    high, scale, white = float(raw.max()), preprocessing.scale, preprocessing.float_scale
    rows = len(preprocessing.shape) == 1  # of a table of bits, in which a 2 is a mistake and no level
    if white == 1 and 1 < high <= scale and not rows and bool((raw == raw.round()).all()):
        raise UserError(
            f"raw holds floating-point numbers up to {high:.6g}, but those of the training data lie in [0, 1]: give "
            f"levels from 0 to {scale:g} as integers (uint8), or divide them by {scale:g}"
        )
    top = float(seen.nan_to_num(0).max())
    if white > 1 and _pixels(preprocessing) and (top == 1 or (top < 1 and bool((raw != raw.round()).any()))):
        raise UserError(
            f"raw holds floating-point numbers up to {top:.6g}, but those of the training data are levels from 0 to "
            f"{white:g}: multiply them by {white:g}"
        )
    preprocessing.check_units(raw, "raw")


def _check_levels(raw: Tensor, preprocessing: Preprocessing, seen: Tensor) -> None:
    low, high, scale = int(raw.min()), int(raw.max()), preprocessing.scale
    if low < 0 or high > scale:
        raise UserError(
            f"raw holds integers from {low} to {high}, but those of the training data are levels from 0 to {scale:g}: "
            "give raw data in the same units"
        )
    if scale > 1 and _pixels(preprocessing) and int(seen.max()) == 1:
        raise UserError(
            f"raw holds the integers 0 and 1, but integers of the training data are levels from 0 to {scale:g}: give "
            + ("bits as floating-point numbers" if preprocessing.float_scale == 1 else "bits as booleans")
        )


def _pixels(preprocessing: Preprocessing) -> bool:
    """Whether events are images. Their largest level is hardly ever 1, while in a row of a table it may be."""
    return preprocessing.scale == LEVELS or bool(preprocessing.binarize) or len(preprocessing.shape) == 3


def as_mask(mask: Any, preprocessing: Preprocessing, shape: tuple[int, ...]) -> Tensor:
    """A mask over one raw event, or over one state, as booleans in the shape of the states' coordinates.

    Args:
        mask: True where a coordinate is given.
        preprocessing: whose `shape` is that of a raw event.
        shape: of the coordinates of a state.
    """
    check_names(mask, preprocessing.columns, "mask")
    values, _ = as_tensor(mask, "mask")
    if not ((values == 0) | (values == 1)).all():
        raise UserError("mask must hold True (given) and False (free) alone")
    given, wanted = ([n for n in s if n != 1] for s in (values.shape, preprocessing.shape))
    if given != wanted and tuple(values.shape) != shape:
        raise UserError(
            f"mask has shape {tuple(values.shape)}, but must have that of one event, {tuple(preprocessing.shape)}"
        )
    classes = values.bool().reshape(*shape, -1)  # several where raw events are one-hot vectors
    if not (classes == classes[..., :1]).all():
        raise UserError("mask gives some classes of a coordinate and not the others")
    return classes[..., 0]
