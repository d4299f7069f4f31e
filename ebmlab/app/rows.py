"""Samples as files of numbers, and rows of a table as a .csv file, which `Arrays`, `score` and `compare` read."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ebmlab.data.preprocessing import Preprocessing
from ebmlab.io.files import save
from ebmlab.sequences import Alphabet


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


def fasta(values: Tensor, letters: str, names: Sequence[str] = ()) -> bytes:
    """Sequences in FASTA.

    Args:
        values: `(n, d)`, whole numbers.
        letters: of the values.
        names: of the sequences; sample_1, sample_2, ... by default.
    """
    names = names or [f"sample_{number}" for number in range(1, len(values) + 1)]
    texts = Alphabet(letters).decode(values.long())
    return "".join(f">{name}\n{text}\n" for name, text in zip(names, texts, strict=True)).encode()


def write_values(values: Tensor, path: Path, kind: str) -> None:
    """Writes numbers to a .pt, .npy or .csv file, as `kind` says."""
    if kind == ".pt":
        save(values, path)
        return
    content = io.BytesIO()  # NumPy does not say why it could not write to a file
    if kind == ".csv":
        np.savetxt(content, values.numpy(), "%.17g" if values.dtype == torch.float64 else "%.9g", ",")
    else:
        np.save(content, values.numpy())
    path.write_bytes(content.getbuffer())


def _cells(rows: Tensor, classes: tuple[int, ...], digits: int) -> Iterator[list[str]]:
    for row in rows.tolist():
        yield [str(int(value)) if k else f"{value:.{digits}g}" for value, k in zip(row, classes, strict=True)]
