"""Sequences in files for a model whose letters are known: `convert`, `score`, `predict` and `mutate`."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from helpers_family import drawn_potts, family_texts

import ebmlab
from ebmlab.app.cli import main
from ebmlab.datamodules import Alignment
from ebmlab.exchange import read, write
from ebmlab.sequences import Alphabet
from ebmlab.trained import mutation_scores

PROTEIN = "-ACDEFGHIKLMNPQRSTVWY"
TEXTS = family_texts()[:5]


@pytest.fixture(params=["dca", "plmc"])
def converted(request: pytest.FixtureRequest, run: Callable[..., None]) -> tuple[Path, torch.Tensor]:
    """A run made of a file of another package, and the energies of `TEXTS` under its model."""
    energy = drawn_potts(12, 21, seed=0).float()
    write(read(energy), f"model.{request.param}", kind=request.param)
    main(["convert", f"model.{request.param}", "theirs"])
    values = torch.from_numpy(Alphabet(PROTEIN).encode(TEXTS)).long()
    return Path("theirs"), energy(energy.domain.from_index(values)).detach()


def test_a_model_of_another_package_scores_sequences_and_mutants(converted: tuple[Path, torch.Tensor]) -> None:
    folder, energies = converted
    Path("some.fasta").write_text("".join(f">{i}\n{text}\n" for i, text in enumerate(TEXTS)))
    main(["score", "some.fasta", f"--ckpt_path={folder}", "--output=scores.csv"])
    with Path("scores.csv").open() as file:
        found = [float(row["energy"]) for row in csv.DictReader(file)]
    assert found == pytest.approx(energies.tolist(), rel=1e-5, abs=1e-4)
    model = ebmlab.load(folder)
    assert model.preprocessing.letters == PROTEIN
    scan = mutation_scores(model, TEXTS[0])
    letter = "A" if TEXTS[0][0] != "A" else "C"
    both = torch.from_numpy(Alphabet(PROTEIN).encode([TEXTS[0], letter + TEXTS[0][1:]])).long()
    here, there = model.energy(both).tolist()
    assert scan.score(f"{TEXTS[0][0]}1{letter}") == pytest.approx(here - there, abs=1e-4)


def test_an_alignment_with_another_alphabet_is_refused(converted: tuple[Path, torch.Tensor]) -> None:
    Path("some.fasta").write_text("".join(f">{i}\n{text}\n" for i, text in enumerate(family_texts())))
    saved = ebmlab.load(converted[0]).preprocessing
    Alignment("some.fasta", max_column_gaps=1.0, max_sequence_gaps=1.0).adopt(saved)
    with pytest.raises(ebmlab.errors.UserError, match=f"letters is {PROTEIN[1:]}-, not {PROTEIN}"):
        Alignment("some.fasta", PROTEIN[1:] + "-", max_column_gaps=1.0, max_sequence_gaps=1.0).adopt(saved)


def test_samples_are_written_as_sequences(converted: tuple[Path, torch.Tensor]) -> None:
    words = ["predict", f"--ckpt_path={converted[0]}", "--num_samples=4", "--num_steps=2"]
    main(words)
    values = torch.load(converted[0] / "samples" / "samples.pt", weights_only=True)
    lines = (converted[0] / "samples" / "samples.fasta").read_text().splitlines()
    assert lines[::2] == [f">sample_{i}" for i in range(1, 5)]
    assert lines[1::2] == Alphabet(PROTEIN).decode(values.long())
    main([*words, "--output=alone.fasta"])
    assert Path("alone.fasta").read_text().splitlines() == lines


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (">a\nACDE\n", "bad.fasta, a: the sequence has 4 letters, but must have 12, one for each site of the model"),
        (f">a\n{'B' * 12}\n", "bad.fasta, a: the sequence has the letter B at site 1, which is not in -ACDEF"),
        ("", "bad.fasta is empty"),
    ],
)
def test_sequences_that_do_not_fit_are_refused_in_one_line(
    text: str, said: str, converted: tuple[Path, torch.Tensor], capfd: pytest.CaptureFixture[str]
) -> None:
    Path("bad.fasta").write_text(text)
    with pytest.raises(SystemExit) as error:
        main(["score", "bad.fasta", f"--ckpt_path={converted[0]}", "--output=scores.csv"])
    lines = [line for line in capfd.readouterr().err.splitlines() if line.startswith("error:")]
    assert error.value.code == 2 and len(lines) == 1 and said in lines[0] and not Path("scores.csv").exists()
