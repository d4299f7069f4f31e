"""The cells of a table in a text file: its encoding, its delimiter, its numbers."""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from ebmlab.errors import UserError

SIGNS = (",", ";", "\t", None)  # between cells; None stands for white space
LOOKED_AT = 1000  # records that tell the delimiter
ENCODINGS = {  # by the bytes with which a file begins
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


@dataclass(frozen=True)
class Record:
    """A row of a table.

    Attributes:
        line: the number of its first line, from 1 on.
        end: the number of its last line; a name in quotation marks may go over several.
        cells: without the white space around them.
    """

    line: int
    end: int
    cells: list[str]


def encoding_of(path: Path) -> str:
    """The encoding of a text: UTF-8, or UTF-16 as in Excel's "Unicode text", with or without a mark at its start."""
    with path.open("rb") as file:
        start = file.read(4)
    for mark, name in ENCODINGS.items():
        if start.startswith(mark):
            return name
    return "utf-16-le" if start[1:2] == b"\0" else "utf-16-be" if start[:1] == b"\0" else "utf-8"


def records(path: Path, delimiter: str | None) -> Iterator[Record]:
    """The rows of a table, without empty lines.

    Raises:
        UserError: the file is no text in UTF-8 or UTF-16, or a quotation mark is not closed.
    """
    with path.open(encoding=encoding_of(path), newline="") as file:
        lines = file if delimiter is not None else (" ".join(line.split()) + "\n" for line in file)
        reader, line = csv.reader(lines, delimiter=delimiter or " ", skipinitialspace=True), 1
        try:
            for row in reader:
                cells = [cell.strip() for cell in row]
                if len(cells) > 1 or (cells and cells[0]):
                    yield Record(line, reader.line_num, cells)
                line = reader.line_num + 1
        except UnicodeError as error:
            raise UserError(f"{path} is no text in UTF-8 or UTF-16: save the table in UTF-8") from error
        except csv.Error as error:
            raise UserError(f"{path}, line {line}: a quotation mark is opened and not closed") from error


def number(cell: str, delimiter: str | None) -> float | None:
    """The number in a cell, None if there is none. True and False are 1 and 0.

    Where commas do not stand between cells, one may stand before the decimals.
    """
    text = cell.lower()
    if text in ("true", "false"):
        return float(text == "true")
    if delimiter != "," and "." not in text:
        text = text.replace(",", ".", 1)
    try:
        return None if "_" in text else float(text)  # Python reads 1_000
    except ValueError:
        return None


def form_of(cell: str) -> str:
    """Tells a comma of thousands, 5,411 beside 432, from one of decimals: how a number is written.

    Returns:
        thousands if three digits follow a comma and up to three stand before it, hundreds for whole numbers below 1000,
        missing for NaN, else other.
    """
    if re.fullmatch(r"[+-]?[1-9]\d{0,2},\d{3}", cell):
        return "thousands"
    if re.fullmatch(r"[+-]?\d{1,3}", cell):
        return "hundreds"
    return "missing" if cell.lower() == "nan" else "other"


def sniff(path: Path) -> tuple[str | None, list[Record]]:
    """The delimiter of a table, and its first records.

    Each delimiter is tried. It fits if all records have as many cells. Of those that fit, the one that makes most cells
    numbers wins, then the one with most columns.
    """
    found = {sign: trimmed(list(islice(records(path, sign), LOOKED_AT))) for sign in SIGNS}
    fitting = [sign for sign in SIGNS if _fits(found[sign], sign)]
    if fitting:
        sign = max(fitting, key=lambda sign: _quality(found[sign], sign))
    elif all(len(record.cells) == 1 for rows in found.values() for record in rows[1:]):
        sign = ","  # one column, of which some are no numbers
    else:
        sign = next((sign for sign in SIGNS if found[sign] and len(found[sign][0].cells) > 1), ",")
    return sign, found[sign]


def trimmed(rows: list[Record]) -> list[Record]:
    """Records without the empty cells at the end of all of them, which a last delimiter in each line makes.

    A column that the first line names stays, even if all its cells are empty.
    """
    body = rows[1:]
    named = max((k for row in rows[:1] for k, cell in enumerate(row.cells, 1) if cell), default=1)
    while body and all(len(row.cells) > named and not row.cells[-1] for row in body):
        body = [Record(row.line, row.end, row.cells[:-1]) for row in body]
    width = max((len(row.cells) for row in body), default=0)
    for row in rows[:1] if body else []:
        cells = row.cells
        while len(cells) > width and not cells[-1]:
            cells = cells[:-1]
        return [Record(row.line, row.end, cells), *body]
    return rows


def _fits(rows: list[Record], sign: str | None) -> bool:
    widths = {len(row.cells) for row in rows}
    if widths != {1}:
        return len(widths) == 1
    numbers = all(number(row.cells[0], sign) is not None for row in rows[1:])
    return numbers and (sign == "," or "," not in rows[0].cells[0])


def _quality(rows: list[Record], sign: str | None) -> tuple[float, int]:
    cells = [cell for row in rows[1:] or rows for cell in row.cells]
    return sum(number(cell, sign) is not None for cell in cells) / len(cells), len(rows[0].cells)
