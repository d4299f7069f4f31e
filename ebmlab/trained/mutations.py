"""What a model of a family says of mutants of a sequence (Hopf et al. 2017)."""

from __future__ import annotations

import re
from dataclasses import KW_ONLY, dataclass

import torch
from torch import Tensor

from ebmlab.domains import Categorical
from ebmlab.errors import UserError
from ebmlab.sequences.alphabet import Alphabet
from ebmlab.trained.at_sites import at_sites, site_numbers
from ebmlab.trained.model import TrainedModel

_MUTATION = re.compile(r"([A-Za-z])(-?\d+)([A-Za-z*])")
_BETWEEN = re.compile(r"[:;,/+]")


@dataclass(frozen=True)
class MutationScan:
    """Scores of all single mutants of a sequence: log p(mutant) - log p(sequence), in nats.

    Attributes:
        scores: `(d, q)`, float64; 0 at the sequence's own values.
        values: of the sequence, `(d,)`, int64.
        numbers: `(d,)`, int64, of the residues, counted along the sequence; residues at no site count, too. Or those
            that the model gives its sites.
        residues: whether a site has a residue, `(d,)`; the others have the gap.
        alphabet: the letters of the values.
        model: the model that was asked.

    Example:
        >>> from ebmlab.energies import Potts
        >>> from ebmlab.learners import ContrastiveDivergence
        >>> from ebmlab.samplers import Gibbs
        >>> from ebmlab.data.preprocessing import Preprocessing
        >>> form = Preprocessing((3,), num_classes=5, letters="-ACGU", columns=("1", "2", "4"), width=4)
        >>> model = TrainedModel(ContrastiveDivergence(Potts(3, 5), Gibbs()), form)
        >>> scan = mutation_scores(model, "GA-U")
        >>> scan.mutants()[:3], scan.numbers.tolist()
        ([('G1A', 0.0), ('G1C', 0.0), ('G1U', 0.0)], [1, 2, 3])
    """

    scores: Tensor
    values: Tensor
    _: KW_ONLY
    numbers: Tensor
    residues: Tensor
    alphabet: Alphabet
    model: TrainedModel

    def mutants(self) -> list[tuple[str, float]]:
        """The names of all single mutants, such as A42G, and their scores, site by site, without deletions."""
        found, letters = [], self.alphabet.letters
        for i in self.residues.nonzero().flatten().tolist():
            here = int(self.values[i])
            for a, letter in enumerate(letters):
                if a not in (here, self.alphabet.gap_value):
                    found.append((f"{letters[here]}{int(self.numbers[i])}{letter}", float(self.scores[i, a])))
        return found

    def score(self, name: str) -> float | None:
        """The score of a mutant such as A42G, or A42G:K50L; None if the model lacks a site or a letter of it.

        A nonsense mutant such as A42* has a letter that a model of proteins lacks. T and U are one letter of a model of
        nucleic acids.

        Raises:
            UserError: it is no name of a mutant, names a residue twice, or another one than the sequence has.

        Example:
            >>> from ebmlab.data.preprocessing import Preprocessing
            >>> form = Preprocessing((2,), num_classes=5, letters="-ACGU", columns=("1", "2"), width=2)
            >>> from ebmlab.energies import Potts
            >>> from ebmlab.learners import ContrastiveDivergence
            >>> from ebmlab.samplers import Gibbs
            >>> scan = mutation_scores(TrainedModel(ContrastiveDivergence(Potts(2, 5), Gibbs()), form), "GA")
            >>> scan.score("G1A:A2C"), scan.score("G7A")
            (0.0, None)
        """
        if (changes := self._changes(name)) is None:
            return None
        changed = self.values.clone()
        for site, value in changes:
            changed[site] = value
        if int((changed != self.values).sum()) == 1:
            site = int((changed != self.values).nonzero())
            return float(self.scores[site, changed[site]])
        energies = self.model.energy(torch.stack([self.values, changed])).double()
        return float(energies[0] - energies[1])

    def spelled(self, name: str) -> str | None:
        """The name of a mutant as `mutants` spells it, in the model's letters; None and errors as in `score`."""
        if (changes := self._changes(name)) is None:
            return None
        letters = self.alphabet.letters
        return ":".join(f"{letters[int(self.values[i])]}{int(self.numbers[i])}{letters[a]}" for i, a in changes)

    def _changes(self, name: str) -> list[tuple[int, int]] | None:
        """The sites that a mutant changes, and their values in it; None and errors as in `score`."""
        changes: list[tuple[int, int]] = []
        for part in _BETWEEN.split(name.strip()):
            if (found := _MUTATION.fullmatch(part.strip())) is None:
                raise UserError(f"{name[:40]} is no mutant such as A42G or A42G:K50L")
            before, number, after = found[1], int(found[2]), self.alphabet.value(found[3])
            sites = ((self.numbers == number) & self.residues).nonzero().flatten().tolist()
            if not sites or after is None:
                return None
            here = int(self.values[sites[0]])
            if self.alphabet.value(before) != here:
                raise UserError(
                    f"{name[:40]}: the sequence has {self.alphabet.letters[here]} at {number}, not {before}: say which "
                    "number its first residue has",
                    option="first",
                )
            if sites[0] in dict(changes):
                raise UserError(f"{name[:40]} changes the residue {number} twice: name each once")
            changes.append((sites[0], after))
        return changes


@torch.no_grad()
def mutation_scores(model: TrainedModel, sequence: str, *, first: int | None = None) -> MutationScan:
    """Scores of all single mutants of a sequence.

    Args:
        model: of `ebmlab.load`, trained on an alignment.
        sequence: as a row of this alignment, with gaps and inserts; or one letter for each site of the model.
        first: the number of its first residue. By default sites keep the numbers that a model of another package gives
            them, such as 42, 43, 45; others are counted from 1.

    Raises:
        UserError: the model is not one of an alignment, or the sequence does not fit it.

    Example:
        >>> from ebmlab.energies import Potts
        >>> from ebmlab.learners import ContrastiveDivergence
        >>> from ebmlab.samplers import Gibbs
        >>> energy = Potts(num_coordinates=2, num_values=5)
        >>> with torch.no_grad():
        ...     energy.field[0, 3] = 2.0
        >>> from ebmlab.data.preprocessing import Preprocessing
        >>> form = Preprocessing((2,), num_classes=5, letters="-ACGU", columns=("1", "3"), width=3)
        >>> model = TrainedModel(ContrastiveDivergence(energy, Gibbs()), form)
        >>> mutation_scores(model, "AcGU").scores.tolist()
        [[0.0, 0.0, 0.0, 2.0, 0.0], [0.0, 0.0, 0.0, 0.0, 0.0]]
    """
    form, energy = model.preprocessing, model.learner.energy
    if not form.letters or not isinstance(energy.domain, Categorical):
        raise UserError("the model was not trained on an alignment: train it on datamodules.Alignment")
    alphabet = Alphabet(form.letters, form.gap)
    index, residues = at_sites(sequence, form)
    occupied = {site for _, site in residues}
    if not (there := torch.tensor([site in occupied for site in range(len(index))])).any():
        raise UserError("the sequence has gaps at all sites of the model: give one with residues there")
    state = model.states(index.unsqueeze(0))
    scores = 0.0 - energy.value_differences(state)[0].double().cpu()
    counted = torch.full((len(index),), -1)
    numbers = site_numbers(form) if first is None else []
    for number, (_, site) in enumerate(residues, 1 if first is None else first):
        if site >= 0:
            counted[site] = numbers[site] if numbers else number
    return MutationScan(scores, index, numbers=counted, residues=there, alphabet=alphabet, model=model)
