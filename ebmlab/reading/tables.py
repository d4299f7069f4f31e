"""Tables of numbers in .csv files."""

from __future__ import annotations

import warnings
from array import array
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ebmlab.errors import UserError
from ebmlab.numerics.launch import launched_rank
from ebmlab.reading.cells import Record, encoding_of, form_of, number, records, sniff

Labels = str | int | None
MISSING = ("", "?", "-", "na", "n/a", "null", "none")


@dataclass(frozen=True)
class Head:
    """What the first lines of a table tell.

    Attributes:
        cells: of the first line.
        named: whether they are the names of the columns; else they are a sample.
        label: the number of the column that holds the labels, or None.
        delimiter: between cells; None stands for white space.
        lines: how many lines the names take.
    """

    cells: list[str]
    named: bool
    label: int | None
    delimiter: str | None
    lines: int

    @property
    def columns(self) -> list[int]:
        """The numbers of the columns that hold samples."""
        return [i for i in range(len(self.cells)) if i != self.label]

    @property
    def names(self) -> list[str]:
        """The names of the columns that hold samples; empty if there are none."""
        return [self.cells[i] for i in self.columns] if self.named else []

    @property
    def mixed(self) -> bool:
        """Whether some of the names are numbers, so that the first line may rather be a sample."""
        return any(number(name, self.delimiter) is not None for name in self.names)


def read_table(path: Path, labels: Labels, holes: bool = False) -> tuple[npt.NDArray[Any], npt.NDArray[Any] | None]:
    r"""Reads the samples `(N, D)`, float64, and the labels `(N,)`, strings or None.

    Args:
        path: the file.
        labels: the name or the number of the column that holds the labels, or None.
        holes: read empty cells and the like as NaN.

    Raises:
        UserError: the table is empty, or a cell is no number.
    """
    head = read_head(path, labels)
    try:
        x, names = _plainly(path, head)
    except ValueError:  # decimal commas, True and False, a delimiter at the end of lines, or what is no number
        x, names = _cell_by_cell(path, head, holes)
    if not head.named and _like_names(x) and not launched_rank():
        line = ", ".join(head.cells)
        warnings.warn(
            f"{path}: the first line, {line[:60]}, is read as a sample; if it names the columns, put a letter in front "
            "of one of the names",
            stacklevel=2,
        )
    return x, names


def read_head(path: Path, labels: Labels = None) -> Head:
    """Reads what the first lines of a table tell; arguments and errors as in `read_table`."""
    delimiter, rows = sniff(path)
    if not rows:
        raise UserError(f"{path} holds no numbers")
    cells = [" ".join(cell.split()) for cell in rows[0].cells]
    label, named = _meaning(path, cells, labels, delimiter)
    if named and len(rows) < 2:
        raise UserError(f"{path} holds no numbers")
    if named and not cells[0]:
        raise UserError(
            f"{path}: the first column has no name, like the row numbers of pandas: write the file with index=False"
        )
    if labels is not None and label is None:
        columns = ", ".join(cells)[:200] if named else f"0 to {len(cells) - 1}"
        raise UserError(f"{path} has no column {labels}; it has {columns}")
    head = Head(cells, named, label, delimiter, rows[0].end if named else 0)
    holes = [i for i in head.columns if cells[i].lower() in MISSING]
    if head.mixed and holes:
        raise UserError(_no_number(f"{path}, line 1", cells[holes[0]], holes[0]))
    if len(rows) > 1:
        _check_width(path, rows[1], head)
    return head


def line_of(path: Path, sample: int, labels: Labels = None) -> int:
    """The number of the line, from 1 on, of a sample, counted from 0; other arguments and errors as in `read_table`."""
    head = read_head(path, labels)
    return next(islice(records(path, head.delimiter), int(head.named) + sample, None)).line


def _meaning(path: Path, cells: list[str], labels: Labels, delimiter: str | None) -> tuple[int | None, bool]:
    """The number of the label's column, and whether the cells of the first line are names.

    They are names if one of them, beside that of the labels, is no number. They also are if they are the numbers that
    pandas gives to columns without names.
    """
    numbers = [str(i) for i in range(-len(cells), len(cells))]
    by_name = str(labels) in cells and number(str(labels), delimiter) is None
    label = int(str(labels)) % len(cells) if str(labels) in numbers else None
    rest = {i: cell for i, cell in enumerate(cells) if i != label}
    counted = len(cells) > 2 and all(cell == str(i) for i, cell in rest.items())
    named = by_name or counted or any(number(cell, delimiter) is None for cell in rest.values())
    if named and str(labels) in cells:
        if cells.count(str(labels)) > 1:
            raise UserError(f"{path}: several columns are called {labels}: set labels to the number of one of them")
        label = cells.index(str(labels))
    return label, named


def _like_names(x: npt.NDArray[Any]) -> bool:
    """Whether the first row may be names that are numbers, such as years: in equal steps, and unlike all other rows."""
    if len(x) < 4 or x.shape[1] < 2:
        return False
    first, rest, steps = x[0], x[1:], np.diff(x[0])
    with np.errstate(invalid="ignore"):
        even = steps[0] > 0 and bool(np.allclose(steps, steps[0], rtol=1e-6))
        return even and bool(((first < rest.min(0)) | (first > rest.max(0))).all())


def _plainly(path: Path, head: Head) -> tuple[npt.NDArray[Any], npt.NDArray[Any] | None]:
    """Samples and labels of a table of plain numbers; `ValueError` for any other, or one of uneven rows."""
    options: dict[str, Any] = {"delimiter": head.delimiter, "skiprows": head.lines, "comments": None}
    options |= {"quotechar": '"', "encoding": encoding_of(path)}
    x = np.loadtxt(path, usecols=None if head.label is None else head.columns, ndmin=2, **options)
    if x.shape[1] != len(head.columns):
        raise ValueError("rows of another width than the first line")
    if head.label is None:
        return x, None
    return x, np.char.strip(np.loadtxt(path, usecols=head.label, dtype=str, ndmin=1, **options))


def _cell_by_cell(path: Path, head: Head, holes: bool) -> tuple[npt.NDArray[Any], npt.NDArray[Any] | None]:
    """As `_plainly`, in Python: slower, for all that `cells.number` reads. Says where the first wrong cell is."""
    x = array("d")  # not a list: its numbers take four times as much
    names: list[str] = []
    signs: set[str] = set()  # before decimals
    forms: dict[int, dict[str, str]] = {}  # of the numbers of a column, and where the first of each is
    count = 0
    for row in islice(records(path, head.delimiter), int(head.named), None):
        count += 1
        cells = _check_width(path, row, head)
        if holes:
            cells = ["nan" if cell.lower() in MISSING and i != head.label else cell for i, cell in enumerate(cells)]
        values = [number(cells[i], head.delimiter) for i in head.columns]
        for i, value in zip(head.columns, values, strict=True):
            if value is None:
                column = head.cells[i] if head.named and not head.mixed else i
                raise UserError(_no_number(f"{path}, line {row.line}", cells[i], column))
            x.append(value)
            if head.delimiter == ",":  # no number has a decimal comma
                continue
            signs |= {"," if "," in cells[i] else "."} if set(",.") & set(cells[i]) else set()
            forms.setdefault(i, {}).setdefault(form_of(cells[i]), f"line {row.line}: '{cells[i]}'")
        if len(signs) > 1:
            raise UserError(f"{path}, line {row.line}: some numbers have a decimal comma, others a point: take one")
        names += [] if head.label is None else [cells[head.label]]
    for found in forms.values():
        if found.keys() - {"missing"} == {"thousands", "hundreds"}:
            raise UserError(f"{path}, {found['thousands']} may have a comma of thousands: write it without the comma")
    samples = np.asarray(x).reshape(count, len(head.columns))
    return samples, None if head.label is None else np.array(names)


def _check_width(path: Path, row: Record, head: Head) -> list[str]:
    """The cells of a row, as many as in the first line; empty ones beyond them are left out."""
    width, cells = len(head.cells), row.cells
    while len(cells) > width and not cells[-1]:
        cells = cells[:-1]
    if len(cells) == width:
        return cells
    mend = ": remove row names (row.names=FALSE in R)" if head.named and len(cells) == width + 1 else ""
    raise UserError(
        f"{path}, line {row.line}: the number of cells is {len(cells)}, but {width} in the first line{mend}"
    )


def _no_number(where: str, cell: str, column: str | int) -> str:
    if not cell:
        return f"{where}: the cell of column {column} is empty: fill it, or leave the line out"
    wrong = f"{where}: '{' '.join(cell.split())[:40]}' in column {column} is no number"
    mend = "fill it, or leave the line out" if cell.lower() in MISSING else f"if it is a label, set labels to {column}"
    return f"{wrong}: {mend}"
