"""Files of numbers: .npy, .npz, .csv and .pt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ebmlab.errors import UserError, one_line

SUFFIXES = (".npy", ".npz", ".csv", ".pt")
Labels = str | int | None


def read_numbers(path: Path, labels: Labels, field: str) -> tuple[Tensor, np.ndarray | None]:
    r"""Reads samples and labels; nothing in the file is executed.

    Args:
        path: the file.
        labels: a column of a .csv file, an array of an .npz or .pt file, an .npy file beside `path`, or None.
        field: the name of the samples in an .npz or .pt file with several arrays.

    Returns:
        Samples `(N, ...)`, float64 as float32 and booleans as uint8, and labels `(N,)` as they stand in the file.

    Raises:
        UserError: the file cannot be read, or holds something else.

    Example:
        >>> path = Path("table.csv")
        >>> _ = path.write_text("height,width,kind\n1,2,a\n3,4,b\n")
        >>> x, names = read_numbers(path, "kind", "x")
        >>> x.tolist(), names.tolist()
        ([[1.0, 2.0], [3.0, 4.0]], ['a', 'b'])
    """
    readers = {".csv": _table, ".npy": _array}
    try:
        x, y = readers[path.suffix](path, labels) if path.suffix in readers else _arrays(path, labels, field)
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"{path} cannot be read ({one_line(error)})") from error
    if x.dtype.kind not in "biuf":
        raise UserError(f"{path} holds numbers of the type {x.dtype}; they must be real")
    if x.ndim < 2 or x.size == 0:
        raise UserError(f"{path}: the array of the samples has shape {x.shape}; it must be (N, ...) with N at least 1")
    if y is not None and y.shape != (len(x),):
        raise UserError(
            f"{path}: there are {len(x)} samples, but the labels have shape {y.shape}; there must be one each"
        )
    return torch.from_numpy(np.ascontiguousarray(x.astype(_type(x.dtype)))), y


def _type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """A type that torch calculates with."""
    if dtype.kind == "f":
        return np.dtype(np.float32)
    return np.dtype(np.uint8 if dtype.itemsize == 1 and dtype.kind in "bu" else np.int64)


def _array(path: Path, labels: Labels) -> tuple[Any, Any]:
    if labels is None:
        return np.load(path), None
    beside = path.parent / str(labels)
    if not beside.is_file():
        raise UserError(f"{path}: labels is {labels}, but there is no file {beside}")
    return np.load(path), np.load(beside)


def _arrays(path: Path, labels: Labels, field: str) -> tuple[Any, Any]:
    if path.suffix == ".npz":
        with np.load(path) as content:
            arrays: dict[Any, Any] = dict(content)
    else:
        content = torch.load(path, map_location="cpu", weights_only=True)
        if isinstance(content, list | tuple):
            content = dict(zip((field, "y" if labels is None else labels), content, strict=False))
        content = content if isinstance(content, dict) else {field: content}
        arrays = {key: value.numpy() for key, value in content.items() if isinstance(value, Tensor)}
    if len(arrays) == 1 and labels is None:
        field = next(iter(arrays))
    for key in (field, *([] if labels is None else [labels])):
        if key not in arrays:
            raise UserError(f"{path} has no array {key}; it has {', '.join(map(str, arrays)) or 'none'}")
    return arrays[field], None if labels is None else arrays[labels]


def _table(path: Path, labels: Labels) -> tuple[Any, Any]:
    with path.open() as file:
        first = file.readline().strip()
    delimiter = next((sign for sign in ",;\t" if sign in first), None)
    cells = [cell.strip().strip('"') for cell in first.split(delimiter)]
    named = not all(map(_is_number, cells))
    column = None if labels is None else _column(path, cells if named else [], len(cells), labels)
    options: dict[str, Any] = {"delimiter": delimiter, "skiprows": int(named), "comments": None}
    x = np.loadtxt(path, usecols=[i for i in range(len(cells)) if i != column], ndmin=2, **options)
    return x, None if column is None else np.loadtxt(path, usecols=column, dtype=str, ndmin=1, **options)


def _column(path: Path, names: list[str], count: int, labels: str | int) -> int:
    if str(labels) in names:
        return names.index(str(labels))
    numbers = [str(i) for i in range(-count, count)]
    if str(labels) in numbers:
        return int(labels) % count
    columns = ", ".join(names)[:200] or f"0 to {count - 1}"
    raise UserError(f"{path} has no column {labels}; it has {columns}")


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
