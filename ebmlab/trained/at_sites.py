"""Sequences at the sites of a model that was trained on an alignment."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

import torch
from torch import Tensor

from ebmlab.data.preprocessing import Preprocessing
from ebmlab.errors import UserError, how_many
from ebmlab.sequences.alignment_file import Rows
from ebmlab.sequences.alphabet import UNKNOWN, Alphabet


def at_sites(sequence: str, form: Preprocessing) -> tuple[Tensor, list[tuple[str, int]]]:
    """The values of a sequence, and where its letters stand.

    Args:
        sequence: see `Sites`.
        form: of the training data, whose `letters` are known.

    Returns:
        Values `(d,)`, int64; and each letter that is no gap with its site from 0, or -1 if it stands at none.

    Raises:
        UserError: it has another number of letters, or one that is not in the alphabet.

    Example:
        >>> form = Preprocessing((2,), num_classes=5, letters="-ACGU", columns=("1", "3"), width=3)
        >>> values, residues = at_sites("AcGU", form)
        >>> values.tolist(), residues
        ([1, 4], [('A', 0), ('C', -1), ('G', -1), ('U', 1)])
    """
    sites = Sites(form)
    letters, rows, columns = sites.placed(sequence)
    values, site = sites.values([letters])[0], {column: i for i, column in enumerate(columns)}
    if (values < 0).any():
        i = int((values < 0).int().argmax())
        raise UserError(
            f"the sequence has the letter {letters[i]} at site {i + 1}, which is not in {form.letters}: leave the "
            "sequence out, or write a gap there"
        )
    return values, [(letter, site.get(column, -1)) for letter, column in rows.residues("".join(sequence.split()))]


class Sites:
    """The sites of a model that was trained on an alignment, at which sequences have letters.

    A sequence is a row of the training alignment, with gaps and inserts; or it has one letter for each site of the
    model. Where sites have numbers, it may also have one letter for each number from the first site's to the
    last one's.

    Args:
        form: of the training data, whose `letters` are known.
    """

    def __init__(self, form: Preprocessing) -> None:
        self._form, self._alphabet = form, Alphabet(form.letters, form.gap)
        size = form.shape[0]
        self._layouts = [(size, list(range(size)))]
        if form.columns and form.width:
            self._layouts.insert(0, (form.width, [int(column) - 1 for column in form.columns]))
        elif numbers := site_numbers(form):
            self._layouts.insert(0, (numbers[-1] - numbers[0] + 1, [number - numbers[0] for number in numbers]))

    def placed(self, sequence: str) -> tuple[str, Rows, list[int]]:
        """The letter of a sequence at each site, how its row is read, and the column of each site in it.

        Raises:
            UserError: it has another number of letters.
        """
        text = "".join(sequence.split())
        for width, columns in self._layouts:
            for inserts in (False, True):
                rows = Rows([], [], inserts, self._form.gap)
                letters = rows.columns(text)
                if len(letters) == width:
                    return "".join([letters[column] for column in columns]), rows, columns
        size, row = len(self._layouts[-1][1]), ""
        if len(self._layouts) == 2:
            names = self._form.columns
            whole = "as a row of the alignment" if self._form.width else f"from {names[0]} to {names[-1]}"
            row = f"{self._layouts[0][0]}, {whole}, or "
        raise UserError(
            f"the sequence has {how_many(len(text), 'letter')}, but must have {row}{size}, one for each site of the "
            "model: align it, with - for gaps"
        )

    def values(self, letters: Sequence[str]) -> Tensor:
        """The values of letters at all sites, int64 `(N, d)`; -1 for those that are not in the alphabet."""
        if "-" not in self._alphabet.letters and self._alphabet.gap_value is not None:
            letters = [text.replace("-", self._alphabet.gap) for text in letters]
        values = torch.from_numpy(self._alphabet.encode(letters)).long()
        return values.masked_fill_(values == UNKNOWN, -1)


def site_numbers(form: Preprocessing) -> list[int]:
    """The numbers of residues that a model of another package gives its sites, ascending; empty if it has none.

    Columns of an alignment are no such numbers.

    Example:
        >>> site_numbers(Preprocessing((3,), num_classes=5, letters="-ACGU", columns=("42", "43", "45")))
        [42, 43, 45]
    """
    if form.width or not all(re.fullmatch(r"-?\d+", name) for name in form.columns):
        return []
    numbers = [int(name) for name in form.columns]
    return numbers if all(a < b for a, b in itertools.pairwise(numbers)) else []
