"""Rows of a table as a .csv file, which `Arrays`, `score` and `compare` read."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from torch import Tensor

from ebmlab.data.preprocessing import Preprocessing


def rows_csv(rows: Tensor, form: Preprocessing) -> bytes:
    """Rows `(n, columns)` under the names of the training data's columns, if they have any.

    Classes are whole numbers, and real numbers have the digits of their type.
    """
    digits = 17 if rows.dtype.itemsize == 8 else 9
    classes = form.classes or (int(not rows.is_floating_point()),) * rows.shape[1]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if form.columns:
        writer.writerow(form.columns)
    writer.writerows(_cells(rows, classes, digits))
    return text.getvalue().encode()


def _cells(rows: Tensor, classes: tuple[int, ...], digits: int) -> Iterator[list[str]]:
    for row in rows.tolist():
        yield [str(int(value)) if k else f"{value:.{digits}g}" for value, k in zip(row, classes, strict=True)]
