"""Scores of filled sentences, against counts by hand."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from helpers_data import make_bert

from ebmlab.energies import MaskedLanguageModel
from ebmlab.errors import UserError
from ebmlab.studies import Sentences
from ebmlab.studies.text import bleu, grams, new, self_bleu, unique


def test_bleu_by_hand() -> None:
    """5 of 6 words, 4 of 5 pairs, 3 of 4 triples and 2 of 3 quadruples are in one reference or the other."""
    expected = 100 * (5 / 6 * 4 / 5 * 3 / 4 * 2 / 3) ** 0.25
    assert bleu(["the cat sat on the mat"], [["the cat sat on the floor"]]) == pytest.approx(expected, abs=1e-4)
    short = 100 * math.exp(1 - 6 / 5)  # all found, but the reference is longer
    assert bleu(["the cat sat on the"], [["the cat sat on the mat"]]) == pytest.approx(short, abs=1e-4)


def test_self_bleu_counts_all_sentences_together_and_leaves_out_the_sentence_itself() -> None:
    sentences = ["the cat sat on the mat", "the cat sat on the mat", "who knows what he said"]
    shares = (12 / 17, 10 / 14, 8 / 11, 6 / 8)  # of words, pairs, triples and quadruples
    brevity = math.exp(1 - 18 / 17)  # the reference nearest in length to the last sentence has 6 words
    assert self_bleu(sentences) == pytest.approx(100 * brevity * math.prod(shares) ** 0.25, abs=1e-4)
    assert self_bleu(["we go home", "we go home"]) == 0  # no quadruples


def test_shares_of_n_grams_by_hand() -> None:
    sentences = ["a b c d", "a b d d", "a"]
    assert unique(sentences, 2) == pytest.approx(100 * 4 / 6)  # bc, cd, bd, dd once; ab twice
    assert unique(sentences, 3) == 100 and math.isnan(unique(sentences, 5))
    assert new(sentences, ["b c d", "x"], 2) == pytest.approx(100 * 3 / 6)  # ab, bd, dd; bc and cd are known
    assert new(sentences, [""], 2) == pytest.approx(100 * 5 / 6) and math.isnan(new(sentences, ["b c"], 5))
    assert grams("a", 2) == []


def test_the_likeliest_sentences_count(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    energy = MaskedLanguageModel("the [MASK] sat the [MASK]", str(make_bert(tmp_path / "bert")))
    x = energy.domain.random(12)
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("the cat sat the dog\n\n  \nthe dog sat\n")
    real = ["the cat sat the dog", "the dog sat"]
    for best in (5, None):
        measure = Sentences(best, corpus)
        measure.prepare(energy)
        mine = measure.fresh()
        mine.update(x)
        order = energy(x).argsort()[:best]
        row = mine.summary()
        sentences = energy.decode(x[order])
        assert mine.text().split("\n") == sentences
        assert row["pseudo_log_likelihood"] == pytest.approx(-float(energy(x[order]).mean()))
        assert row["self_bleu"] == mine.value() == self_bleu(sentences)
        assert row["unique_2grams"] == unique(sentences, 2) and row["unique_3grams"] == unique(sentences, 3)
        assert row["corpus_bleu"] == bleu(sentences, [real] * len(sentences))
        assert row["new_2grams"] == new(sentences, real, 2) and row["new_3grams"] == new(sentences, real, 3)
        assert row["new_2grams"] < row["new_3grams"]
    with pytest.raises(UserError, match="5 sentences are scored, but the study has 4 chains"):
        Sentences(5).fresh().update(x[:4])
    with pytest.raises(UserError, match="2 sentences are scored, but the study has 1 chain"):
        Sentences().fresh().update(x[:1])


def test_user_errors(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="best is 1, but diversity needs at least 2 sentences"):
        Sentences(1)
    with pytest.raises(UserError, match=r"the corpus '.*none\.txt' is not a text file that can be read"):
        Sentences(corpus=tmp_path / "none.txt")
    (tmp_path / "bytes").write_bytes(bytes([200, 201, 255]))
    with pytest.raises(UserError, match="not a text file"):
        Sentences(corpus=tmp_path / "bytes")
    with pytest.raises(UserError, match="not a text file"):
        Sentences(corpus=tmp_path)
    (tmp_path / "empty.txt").write_text("\n \n")
    with pytest.raises(UserError, match=r"empty\.txt' has no sentences"):
        Sentences(corpus=tmp_path / "empty.txt")
