"""Sequences at the sites of a model that was trained on an alignment."""

from __future__ import annotations

import itertools
import re

import torch
from torch import Tensor

from ebmlab.data.preprocessing import Preprocessing
from ebmlab.errors import UserError, how_many
from ebmlab.sequences.alignment_file import Rows
from ebmlab.sequences.alphabet import UNKNOWN, Alphabet


def at_sites(sequence: str, form: Preprocessing, *, unknown: int | None = None) -> tuple[Tensor, list[tuple[str, int]]]:
    """The values of a sequence, and where its letters stand.

    Args:
        sequence: as a row of the training alignment, with gaps and inserts; or one letter for each site of the model.
            Where sites have numbers, also one letter for each number from the first site's to the last one's.
        form: of the training data, whose `letters` are known.
        unknown: the value of letters that are not in the alphabet; None refuses them.

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
    text = "".join(sequence.split())
    size = form.shape[0]
    layouts = [(size, list(range(size)))]
    if form.columns and form.width:
        layouts.insert(0, (form.width, [int(column) - 1 for column in form.columns]))
    elif numbers := site_numbers(form):
        layouts.insert(0, (numbers[-1] - numbers[0] + 1, [number - numbers[0] for number in numbers]))
    for width, chosen in layouts:
        for inserts in (False, True):
            rows = Rows([], [], inserts, form.gap)
            letters = rows.columns(text)
            if len(letters) == width:
                site = {column: i for i, column in enumerate(chosen)}
                found = [(letter, site.get(column, -1)) for letter, column in rows.residues(text)]
                chosen_letters = "".join(letters[column] for column in chosen)
                return _values(chosen_letters, Alphabet(form.letters, form.gap), unknown), found
    row = ""
    if len(layouts) == 2:
        whole = "as a row of the alignment" if form.width else f"from {form.columns[0]} to {form.columns[-1]}"
        row = f"{layouts[0][0]}, {whole}, or "
    raise UserError(
        f"the sequence has {how_many(len(text), 'letter')}, but must have {row}{size}, one for each site of the model: "
        "align it, with - for gaps"
    )


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


def _values(letters: str, alphabet: Alphabet, unknown: int | None) -> Tensor:
    if "-" not in alphabet.letters and alphabet.gap_value is not None:
        letters = letters.replace("-", alphabet.gap)
    values = torch.from_numpy(alphabet.encode([letters])[0]).long()
    is_unknown = values == UNKNOWN
    if unknown is None and is_unknown.any():
        site = int(is_unknown.int().argmax())
        raise UserError(
            f"the sequence has the letter {letters[site]} at site {site + 1}, which is not in "
            f"{alphabet.letters}: leave the sequence out, or write a gap there"
        )
    return values if unknown is None else values.masked_fill(is_unknown, unknown)
