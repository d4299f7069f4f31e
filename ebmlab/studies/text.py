"""Sentences filled in by samplers of a masked language model: likelihood, diversity, likeness to real ones."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from torch import Tensor

from ebmlab.energies import Energy, MaskedLanguageModel
from ebmlab.errors import UserError, explained, how_many
from ebmlab.studies.measures import Measure


class Sentences(Measure):
    """The chains' likeliest sentences, and how they score (Zhang et al. 2022, Table 3).

    The table gets the mean pseudo-log-likelihood of these sentences (minus the energy, a sum of conditionals), in nats.
    The other columns are in percent. Self-BLEU is low if the sentences differ; beside it stands the share of their
    2-grams and 3-grams that occur only once. A corpus adds their BLEU against it, high if they read like it, and the
    share of their n-grams that it lacks.

    Args:
        best: sentences that count, those of the lowest energy; all when None. The paper takes 5 of 25.
        corpus: a text file of real sentences, one a line, in the words of the model's tokenizer.

    Raises:
        UserError: `best` is not at least 2 or more than there are chains, or the corpus has no sentences.

    Example:
        >>> from ebmlab.energies import ScalarPotts
        >>> Sentences().prepare(ScalarPotts([[0.0]]))
        Traceback (most recent call last):
        ebmlab.errors.UserError: Sentences needs a MaskedLanguageModel, not a ScalarPotts
    """

    label = "self-BLEU (%)"

    def __init__(self, best: int | None = None, corpus: str | Path | None = None) -> None:
        if best is not None and best < 2:
            raise UserError(f"Sentences: best is {best}, but diversity needs at least 2 sentences")
        self.best = best
        self.corpus = None if corpus is None else _lines(Path(corpus))

    def prepare(self, energy: Energy) -> None:
        if not isinstance(energy, MaskedLanguageModel):
            raise UserError(f"Sentences needs a MaskedLanguageModel, not a {type(energy).__name__}")
        self._energy = energy

    def update(self, x: Tensor) -> None:
        if len(x) < (least := self.best or 2):
            raise UserError(f"Sentences: {least} sentences are scored, but the study has {how_many(len(x), 'chain')}")
        super().update(x)

    def value(self) -> float:
        return self_bleu(self._likeliest()[0])

    def summary(self) -> dict[str, float]:
        sentences, score = self._likeliest()
        row = {"pseudo_log_likelihood": score, "self_bleu": self_bleu(sentences)}
        row |= {f"unique_{n}grams": unique(sentences, n) for n in (2, 3)}
        if self.corpus is not None:
            row["corpus_bleu"] = bleu(sentences, [self.corpus] * len(sentences))
            row |= {f"new_{n}grams": new(sentences, self.corpus, n) for n in (2, 3)}
        return row

    def text(self) -> str:
        return "\n".join(self._likeliest()[0])

    def _likeliest(self) -> tuple[list[str], float]:
        """The sentences that count, the likeliest first, and their mean pseudo-log-likelihood."""
        energy, order = self._energy(self._x).sort()
        kept = slice(self.best)
        return self._energy.decode(self._x[order[kept]]), -float(energy[kept].mean())


def bleu(sentences: list[str], references: list[list[str]]) -> float:
    """BLEU of the sentences, each against references of its own, in percent (Papineni et al. 2002).

    The counts of matching 1-grams to 4-grams are those of all sentences together, without smoothing: sentences that
    share no 4-gram with their references have 0.
    """
    from torchmetrics.functional.text import bleu_score  # here, because it loads matplotlib and torchvision

    return 100 * float(bleu_score(sentences, references))


def self_bleu(sentences: list[str]) -> float:
    """BLEU of the sentences, each against all others, in percent (Zhu et al. 2018); high if they are alike."""
    return bleu(sentences, [sentences[:i] + sentences[i + 1 :] for i in range(len(sentences))])


def unique(sentences: list[str], n: int) -> float:
    """N-grams that occur once in all sentences, in percent of all (Wang and Cho 2019); NaN if there are none."""
    counts = Counter(gram for s in sentences for gram in grams(s, n))
    return 100 * sum(c == 1 for c in counts.values()) / counts.total() if counts else float("nan")


def new(sentences: list[str], corpus: list[str], n: int) -> float:
    """Different n-grams that the corpus lacks, in percent of all n-grams (Wang and Cho 2019); NaN if there are none."""
    known = {gram for s in corpus for gram in grams(s, n)}
    ours = [gram for s in sentences for gram in grams(s, n)]
    return 100 * len(set(ours) - known) / len(ours) if ours else float("nan")


def grams(sentence: str, n: int) -> list[tuple[str, ...]]:
    """Runs of n words."""
    words = sentence.split()
    return [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]


def _lines(path: Path) -> list[str]:
    """The sentences of a text file."""
    with explained(f"Sentences: the corpus '{path}' is not a text file that can be read", (OSError, UnicodeError)):
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    if not lines:
        raise UserError(f"Sentences: the corpus '{path}' has no sentences")
    return lines
