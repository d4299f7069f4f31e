"""Which residue of a structure stands at which site of an alignment."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

import torch
from torch import Tensor

from ebmlab.errors import UserError
from ebmlab.sequences.family import Family
from ebmlab.sequences.pairwise import align, score
from ebmlab.sequences.pdb import Residue

WORD, CANDIDATES = 3, 3
LEAST_IDENTITY, LEAST_PLACED = 0.3, 0.5
SHUFFLES, ABOVE_SHUFFLED = 3, 1.4


@dataclass(frozen=True)
class Placement:
    """Residues of a structure at the sites of an alignment.

    Attributes:
        residue: `(d,)`, int64, the number of the residue in the structure's list, from 0; -1 at sites without one.
        position: `(d,)`, int64, where the site's letter stands in the sequence without gaps by which residues were
            placed; -1 at sites without a residue. Residues that the structure or the sites lack count, too.
        name: of that sequence.
        identity: the share of placed residues whose letter is that of the sequence.

    Example:
        >>> Placement(torch.tensor([0, -1]), torch.tensor([4, -1]), name="a", identity=1.0).placed
        tensor([ True, False])
    """

    residue: Tensor
    position: Tensor
    _: KW_ONLY
    name: str
    identity: float

    @property
    def placed(self) -> Tensor:
        """`(d,)`, whether a site has a residue."""
        return self.residue >= 0


def place(residues: Sequence[Residue], family: Family) -> Placement:
    r"""Places residues by their sequence: neither their numbers nor their insertion codes are used.

    The chain's sequence is aligned with that row of the alignment with which it agrees best. Candidates are the rows
    that share most words of three letters with it. A row is taken as the file has it, with inserts and with columns
    that were left out.

    Both sequences must agree in more letters than those of unlike structures do (Rost, 1999), and by a better alignment
    than the chain's letters have in another order. Of four letters 70 to 90 % agree by chance, with gaps at will.

    Raises:
        UserError: the structure is that of another family.

    Example:
        >>> from pathlib import Path
        >>> import numpy as np
        >>> from ebmlab.sequences import read_family
        >>> _ = Path("a.fasta").write_text(">one\nMKVLA-WG\n>two\nMRILAYWG\n")
        >>> chain = [Residue(x, str(i), heavy=np.zeros((1, 3)), beta=np.zeros(3)) for i, x in enumerate("KVLWG")]
        >>> place(chain, read_family("a.fasta")).residue.tolist()
        [-1, 0, 1, 2, -1, 3, 4]
    """
    alike = str.maketrans("T", "U") if family.alphabet.takes_t_as_u else {}
    sequence = "".join(residue.letter for residue in residues).translate(alike)
    rows = [family.rows.letters(text).translate(alike) for text in family.rows.texts]
    words = _words(sequence)
    shared = [len(words & _words(row)) for row in rows]
    candidates = sorted(range(len(rows)), key=lambda row: -shared[row])[:CANDIDATES]
    pairs = {row: align(sequence, rows[row]) for row in candidates}
    equal = {row: sum(sequence[i] == rows[row][j] for i, j in found) for row, found in pairs.items()}
    best = max(candidates, key=lambda row: equal[row])
    sites = [site for _, site in family.residues(best)]
    residue, position = (torch.full((len(family.columns),), -1) for _ in range(2))
    for i, j in pairs[best]:
        if sites[j] >= 0:
            residue[sites[j]], position[sites[j]] = i, j
    identity = equal[best] / max(1, len(pairs[best]))
    placed = int((residue >= 0).sum())
    by_chance = identity < _least_identity(len(pairs[best])) or not _beats_shuffled(sequence, rows[best], pairs[best])
    if by_chance or placed < LEAST_PLACED * len(residue):
        raise UserError(
            f"the structure's chain of {len(residues)} residues covers {placed} of {len(residue)} sites, by "
            f"{identity:.0%} identity with its closest sequence, {family.rows.names[best][:60]}: give a structure of "
            "the family, and its chain"
        )
    return Placement(residue, position, name=family.rows.names[best], identity=identity)


def _least_identity(pairs: int) -> float:
    """The share of equal letters that so many aligned pairs need: all of up to 11, 0.59 of 28, 0.3 from 100 on."""
    curve = 4.8 * math.pow(max(1, pairs), -0.32 * (1 + math.exp(-pairs / 1000)))
    return min(1.0, max(LEAST_IDENTITY, curve))


def _beats_shuffled(sequence: str, row: str, pairs: list[tuple[int, int]]) -> bool:
    order, letters, others = random.Random(0), list(sequence), []
    for _ in range(SHUFFLES):
        order.shuffle(letters)
        shuffled = "".join(letters)
        others.append(score(shuffled, row, align(shuffled, row)))
    return score(sequence, row, pairs) > ABOVE_SHUFFLED * max(others)


def _words(text: str) -> set[str]:
    return {text[i : i + WORD] for i in range(len(text) - WORD + 1)}
