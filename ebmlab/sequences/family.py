"""The sequences of a family as values of sites, and what was left out of the file's alignment."""

from __future__ import annotations

from collections import Counter
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ebmlab.errors import UserError, how_many, shown
from ebmlab.sequences.alignment_file import Inserts, Rows, find, letters_of, read_rows
from ebmlab.sequences.alphabet import UNKNOWN, Alphabet
from ebmlab.settings import require_choice, require_inside

Unknown = Literal["drop", "gap", "refuse"]


@dataclass(frozen=True)
class Dropped:
    """What an alignment held and what was left out, in the order in which it was decided.

    Attributes:
        sequences: in the file.
        columns: in the file, without those of inserts.
        inserts: letters of inserts, in all sequences together.
        gappy_columns: columns with too many gaps.
        unknown: sequences with unknown letters.
        unknown_as_gaps: unknown letters that were read as gaps.
        gappy_sequences: sequences with too many gaps in the columns that are kept.

    Example:
        >>> print(Dropped(sequences=100, columns=50, gappy_columns=7))
        100 sequences of 50 columns; left out: 7 columns with too many gaps
    """

    sequences: int
    columns: int
    _: KW_ONLY
    inserts: int = 0
    gappy_columns: int = 0
    unknown: int = 0
    unknown_as_gaps: int = 0
    gappy_sequences: int = 0

    def __str__(self) -> str:
        parts = [
            (self.inserts, "letter", "of inserts"),
            (self.gappy_columns, "column", "with too many gaps"),
            (self.unknown, "sequence", "with unknown letters"),
            (self.gappy_sequences, "sequence", "with too many gaps"),
        ]
        words = ", ".join(f"{how_many(count, what)} {which}" for count, what, which in parts if count) or "nothing"
        gaps = f"; {how_many(self.unknown_as_gaps, 'unknown letter')} read as gaps" * bool(self.unknown_as_gaps)
        return f"{how_many(self.sequences, 'sequence')} of {how_many(self.columns, 'column')}; left out: {words}{gaps}"


@dataclass(frozen=True)
class Family:
    r"""The sequences of an alignment as values.

    Attributes:
        values: `(N, d)`, uint8.
        names: of the N sequences.
        columns: `(d,)`, int64, the columns of the file that became sites, from 0.
        alphabet: the letters of the values.
        rows: all rows of the file.
        kept: `(N,)`, int64, the rows of the sequences, from 0.
        dropped: what was left out.

    Example:
        >>> _ = Path("a.a3m").write_text(">one\nACkD\n>two\nACE\n")
        >>> read_family("a.a3m").residues(0)
        [('A', 0), ('C', 1), ('K', -1), ('D', 2)]
    """

    values: Tensor
    names: list[str]
    _: KW_ONLY
    columns: Tensor
    alphabet: Alphabet
    rows: Rows
    kept: Tensor
    dropped: Dropped

    def residues(self, row: int) -> list[tuple[str, int]]:
        """Each letter of a row of the file and the site that it stands at, from 0; -1 if at none."""
        site = {column: i for i, column in enumerate(self.columns.tolist())}
        return [(letter, site.get(column, -1)) for letter, column in self.rows.residues(self.rows.texts[row])]


def read_family(
    path: str | Path,
    alphabet: str = "protein",
    *,
    gap: str = "-",
    inserts: Inserts = "auto",
    unknown: Unknown = "drop",
    max_column_gaps: float = 0.3,
    max_sequence_gaps: float = 0.2,
) -> Family:
    r"""Reads an alignment and leaves out, in this order: inserts, gappy columns, unknown letters, gappy sequences.

    Arguments as in `datamodules.Alignment`.

    Raises:
        UserError: the file holds no alignment, or nothing of it is left.

    Example:
        >>> _ = Path("a.fasta").write_text(">one\nGA-U\n>two\nGAXU\n>three\nGACU\n>four\nGACU\n")
        >>> family = read_family("a.fasta", alphabet="rna", max_sequence_gaps=0.5)
        >>> family.values.tolist(), str(family.dropped)
        ([[3, 1, 0, 4], [3, 1, 2, 4], [3, 1, 2, 4]], '4 sequences of 4 columns; left out: 1 sequence with unknown ...')
    """
    letters = Alphabet.of(alphabet, gap)
    require_inside("read_family", "[0, 1]", max_column_gaps=max_column_gaps, max_sequence_gaps=max_sequence_gaps)
    require_choice("read_family", get_args(Unknown), unknown=unknown)
    file = find(path)
    rows = replace(read_rows(file, inserts), gap=gap)
    texts = [rows.columns(text) for text in rows.texts]
    _check_lengths(file, rows, texts)
    values = letters.encode(texts)
    if gap != "-" and "-" not in letters.letters and letters.gap_value is not None:
        values[letters_of(texts) == ord("-")] = letters.gap_value
    columns = np.flatnonzero(_is(values, letters.gap_value).mean(0) <= max_column_gaps)
    if not len(columns):
        raise UserError(f"{file}: each column has more than {max_column_gaps:.0%} gaps: set max_column_gaps higher")
    values = values[:, columns]
    strange = values == UNKNOWN
    _refuse_strange(file, rows, texts, strange, columns, letters, unknown)
    is_strange = strange.any(1) if unknown == "drop" else np.zeros(len(values), np.bool_)
    if unknown == "gap" and letters.gap_value is not None:
        values[strange] = letters.gap_value
    is_gappy = ~is_strange & (_is(values, letters.gap_value).mean(1) > max_sequence_gaps)
    kept = np.flatnonzero(~is_strange & ~is_gappy)
    dropped = Dropped(
        sequences=len(texts),
        columns=len(texts[0]),
        inserts=sum(map(rows.inserted, rows.texts)),
        gappy_columns=len(texts[0]) - len(columns),
        unknown=int(is_strange.sum()),
        unknown_as_gaps=int(strange.sum()) if unknown == "gap" else 0,
        gappy_sequences=int(is_gappy.sum()),
    )
    if not len(kept):
        raise UserError(f"{file}: no sequence is left ({dropped}): check alphabet, unknown and max_sequence_gaps")
    return Family(
        torch.from_numpy(np.ascontiguousarray(values[kept])),
        [rows.names[i] for i in kept.tolist()],
        columns=torch.from_numpy(columns),
        alphabet=letters,
        rows=rows,
        kept=torch.from_numpy(kept),
        dropped=dropped,
    )


def _is(values: NDArray[np.uint8], value: int | None) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = np.zeros(values.shape, np.bool_) if value is None else values == value
    return found


def _check_lengths(file: Path, rows: Rows, texts: list[str]) -> None:
    usual = Counter(map(len, texts)).most_common(1)[0][0]
    for number, (name, text) in enumerate(zip(rows.names, texts, strict=True), 1):
        if len(text) != usual:
            kind = "columns (upper case letters and -)" if rows.inserts else "columns"
            raise UserError(
                f"{file}: sequence {number}, {shown(name)[:60]}, has {len(text)} {kind}, but most have {usual}: align "
                "the sequences, or set inserts to drop if lower case letters are inserts"
            )
    if not usual:
        raise UserError(f"{file}: there are only inserts in it: set inserts to keep if lower case letters are residues")


def _refuse_strange(
    file: Path,
    rows: Rows,
    texts: list[str],
    strange: NDArray[np.bool_],
    columns: NDArray[np.int64],
    letters: Alphabet,
    unknown: Unknown,
) -> None:
    """Raises `UserError` for unknown letters that may not be dropped, and for an alphabet of another kind."""
    if not strange.any() or (unknown != "refuse" and not strange.any(1).all()):
        return
    if unknown == "gap" and letters.gap_value is not None:
        return
    row, site = (int(i) for i in np.argwhere(strange)[0])
    letter = texts[row][int(columns[site])]
    count = int(strange.any(1).sum())
    raise UserError(
        f"{file}: sequence {row + 1}, {shown(rows.names[row])[:60]}, has the letter {letter} in column "
        f"{columns[site] + 1}, which is not in the alphabet {letters.letters}, and so have {count} of {len(texts)} "
        "sequences: set alphabet, or unknown to drop or gap"
    )
