"""Sentences filled in by samplers of a masked language model, and their diversity."""

from __future__ import annotations

from ebmlab.energies import Energy, MaskedLanguageModel
from ebmlab.errors import UserError
from ebmlab.studies.measures import Measure


class Sentences(Measure):
    """The chains' last sentences, and the share of their n-grams that are distinct (Zhang et al. 2022, Table 3).

    Example:
        >>> from ebmlab.energies import Potts
        >>> Sentences().prepare(Potts([[0.0]]))
        Traceback (most recent call last):
        ebmlab.errors.UserError: Sentences needs a MaskedLanguageModel, not a Potts
    """

    label = "distinct 2-grams (%)"

    def prepare(self, energy: Energy) -> None:
        if not isinstance(energy, MaskedLanguageModel):
            raise UserError(f"Sentences needs a MaskedLanguageModel, not a {type(energy).__name__}")
        self._energy = energy

    def value(self) -> float:
        return distinct(self._energy.decode(self._x), 2)

    def summary(self) -> dict[str, float]:
        sentences = self._energy.decode(self._x)
        return {"distinct_2grams": distinct(sentences, 2), "distinct_3grams": distinct(sentences, 3)}

    def text(self) -> str:
        return "\n".join(self._energy.decode(self._x))


def distinct(sentences: list[str], n: int) -> float:
    """Distinct n-grams in percent of all n-grams of the sentences' words; NaN if there are none.

    Example:
        >>> distinct(["we go home", "we go out"], n=2)
        75.0
    """
    words = [s.split() for s in sentences]
    grams = [tuple(w[i : i + n]) for w in words for i in range(len(w) - n + 1)]
    return 100 * len(set(grams)) / len(grams) if grams else float("nan")
