"""Files of numbers: .npy, .npz, .csv and .pt, and those of samplers: sample sets in .json, chains in .h5."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ebmlab.data.numbers import as_numbers
from ebmlab.data.preprocessing import FAR
from ebmlab.errors import UserError, how_many, one_line
from ebmlab.exchange import read_samples
from ebmlab.io.files import check_regular, load
from ebmlab.reading.tables import Labels, line_of, read_table

FOREIGN = (".json", ".h5", ".hdf5")
MODEL = {"state_dict", "pytorch-lightning_version"}  # keys of checkpoints
SUFFIXES = (".npy", ".npz", ".csv", ".pt", *FOREIGN)


def read_numbers(
    path: Path, labels: Labels, field: str, columns: Sequence[str] = (), holes: bool = False
) -> tuple[Tensor, np.ndarray | None]:
    r"""Reads samples and labels; nothing in the file is executed.

    Args:
        path: the file.
        labels: a column of a .csv file, an array of an .npz or .pt file, an .npy file beside `path`, or None.
        field: the name of the samples in an .npz, .pt or .h5 file with several arrays.
        columns: the order of the variables of a sample set that names them.
        holes: read empty cells of a .csv file as NaN.

    Returns:
        Samples `(N, ...)`, and labels `(N,)` as they stand in the file. Samples of float64 become float32, unless that
        would round off differences between them. Integers of more than one byte become int64. Booleans stay booleans,
        because 1 among levels from 0 to 255 is nearly black, and True is white.

    Raises:
        UserError: the file cannot be read, or holds something else.
    """
    kind = path.suffix.lower()
    found: Any
    check_regular(path)
    try:
        if kind in FOREIGN:
            found, y = _foreign(path, labels, field, columns)
        else:
            found, y = read_table(path, labels, holes) if kind == ".csv" else _arrays(path, labels, field)
    except UserError:
        raise
    except Exception as error:
        text = one_line(error)
        if "pickl" in text.lower():
            text = "it is damaged or holds more than arrays of numbers"
        raise UserError(f"{path} cannot be read ({text})") from error
    x, y = as_numbers(found, str(path)).numpy(), None if y is None else _labels(y)
    if x.ndim < 2 or x.size == 0:
        raise UserError(f"{path}: the array of the samples has shape {x.shape}; it must be (N, ...) with N at least 1")
    if y is not None and y.shape != (len(x),):
        raise UserError(
            f"{path} holds {how_many(len(x), 'sample')}, but labels of shape {y.shape}; there must be one each"
        )
    return as_numbers(x.astype(_type(x), copy=False), str(path)), y


def require_finite(x: Tensor, path: Path, labels: Labels = None) -> None:
    """Raises `UserError` if one of a file's samples `(N, ...)` holds NaN or infinity, and says where the first is.

    Args:
        x: what `read_numbers` has read.
        path: the file.
        labels: as for `read_numbers`.
    """
    bad = ~torch.isfinite(x).flatten(1).all(1)
    if bad.any():
        first = int(bad.nonzero()[0])
        text = path.suffix.lower() == ".csv"
        where = f"in line {line_of(path, first, labels)}" if text else f"number {first}, counted from 0"
        raise UserError(
            f"{path}: {int(bad.sum())} of {len(x)} samples hold NaN or infinity, the first is {where}: remove them"
        )


def _foreign(path: Path, labels: Labels, field: str, columns: Sequence[str]) -> tuple[Any, None]:
    if labels is not None:
        raise UserError(f"{path} holds samples alone, but labels is {labels}")
    return read_samples(path, columns, field=field).numpy(), None


def read_numpy(path: Path) -> npt.NDArray[Any] | dict[str, npt.NDArray[Any]]:
    """The array of an .npy file, or the arrays of an .npz file by their names, whatever the file is called."""
    content = np.load(path)
    if isinstance(content, np.ndarray):
        return content
    with content:
        return dict(content)


def _labels(y: Any) -> npt.NDArray[Any]:
    return as_numbers(y, "labels").numpy() if isinstance(y, Tensor) else np.asarray(y)


def _type(x: npt.NDArray[Any]) -> type[np.generic]:
    """A type that torch calculates with, and that holds the digits by which samples differ."""
    if x.dtype.kind == "f":
        return np.float64 if x.dtype.itemsize > 4 and _rounds(x) else np.float32
    if x.dtype.kind == "b":
        return np.bool_
    return np.uint8 if x.dtype == np.uint8 else np.int64


def _rounds(x: npt.NDArray[Any]) -> bool:
    """Whether float32 would round off digits by which samples differ. A single sample does not tell: it keeps them."""
    constant = 1 if len(x) > 1 else 0  # the spread that counts for columns without one
    with warnings.catch_warnings(), np.errstate(over="ignore", invalid="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)  # columns of NaN alone, infinity, numbers beyond float32
        low, high = np.nanmin(x, 0), np.nanmax(x, 0)
        spread = np.where(low < high, np.nanstd(x, 0), constant)
        error = np.nanmax(np.abs(x.astype(np.float32) - x), 0)
        far = (error > 0) & (np.maximum(high, -low) > FAR * spread)
    return bool((far | (error > spread / FAR) | np.isinf(error)).any())


def _arrays(path: Path, labels: Labels, field: str) -> tuple[Any, Any]:
    """Samples and labels of a file with one array, beside which the labels are, or with several."""
    if path.suffix.lower() == ".pt":
        arrays = _tensors(path, labels, field)
    else:
        content = read_numpy(path)
        if not isinstance(content, dict):
            return content, None if labels is None else np.load(_beside(path, labels))
        arrays = content
    if len(arrays) == 1 and labels is None:
        field = next(iter(arrays))
    for key in (field, *([] if labels is None else [labels])):
        if key not in arrays:
            raise UserError(f"{path} has no array {key}; it has {', '.join(map(str, arrays)) or 'none'}")
    return arrays[field], None if labels is None else arrays[labels]


def _beside(path: Path, labels: Labels) -> Path:
    beside = path.parent / str(labels)
    if not beside.is_file():
        raise UserError(f"{path}: labels is {labels}, but there is no file {beside}")
    return beside


def _tensors(path: Path, labels: Labels, field: str) -> dict[Any, Any]:
    """The tensors of a .pt file by their names."""
    content = load(path, map_location="cpu")
    if isinstance(content, dict) and not MODEL.isdisjoint(content):
        raise UserError(f"{path} is a checkpoint of a model, not data: give it to ckpt_path")
    if isinstance(content, list | tuple):
        if len(content) != 1 and not (len(content) == 2 and getattr(content[1], "ndim", 0) == 1):
            raise UserError(
                f"{path} holds a list of {len(content)} objects, not samples or (samples, labels): make one tensor of "
                "the samples, by torch.stack"
            )
        content = dict(zip((field, "y" if labels is None else labels), content, strict=False))
    content = content if isinstance(content, dict) else {field: content}
    return {key: value for key, value in content.items() if isinstance(value, Tensor)}
