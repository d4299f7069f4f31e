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
from ebmlab.app.compare import compare
from ebmlab.datamodules import Alignment
from ebmlab.errors import UserError
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


def test_sequences_with_unknown_letters_are_left_out_of_the_scores_and_counted(
    converted: tuple[Path, torch.Tensor], capfd: pytest.CaptureFixture[str]
) -> None:
    folder, energies = converted
    texts = [TEXTS[0], "X" + TEXTS[1][1:], TEXTS[2]]
    Path("some.fasta").write_text("".join(f">s{i}\n{text}\n" for i, text in enumerate(texts)))
    main(["score", "some.fasta", f"--ckpt_path={folder}", "--output=scores.csv"])
    assert "some.fasta: left out 1 of 3 sequences, with letters that are not in -ACDEF" in capfd.readouterr().err
    with Path("scores.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["sample"], row["name"]) for row in rows] == [("0", "s0"), ("2", "s2")]
    assert [float(row["energy"]) for row in rows] == pytest.approx(energies[[0, 2]].tolist(), rel=1e-5, abs=1e-4)


def test_unknown_letters_of_sequences_are_completed(converted: tuple[Path, torch.Tensor]) -> None:
    texts = ["XX" + TEXTS[0][2:], TEXTS[1][:-1] + "X"]
    Path("some.fasta").write_text("".join(f">s{i}\n{text}\n" for i, text in enumerate(texts)))
    options = [f"--ckpt_path={converted[0]}", "--num_steps=2", "--num_samples=2", "--output=c.fasta"]
    main(["complete", "some.fasta", *options])
    lines = Path("c.fasta").read_text().splitlines()
    assert lines[::2] == [">s0_1", ">s0_2", ">s1_1", ">s1_2"]
    for text, found in zip([texts[0]] * 2 + [texts[1]] * 2, lines[1::2], strict=True):
        assert all(a == b or (a == "X" and b in PROTEIN) for a, b in zip(text, found, strict=True))


def test_letters_are_conditions(converted: tuple[Path, torch.Tensor]) -> None:
    main(["predict", f"--ckpt_path={converted[0]}", "--num_samples=3", "--num_steps=1", "--condition=0=W,2=3"])
    texts = (converted[0] / "samples" / "samples.fasta").read_text().splitlines()[1::2]
    assert {text[0] + text[2] for text in texts} == {"WD"}


def test_sequences_are_compared_without_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    texts = family_texts()
    for name, part in {"a.fasta": texts[:30], "b.a3m": texts[30:], "w.fasta": ["W" * 12] * 20}.items():
        Path(name).write_text("".join(f">{i}\n{text}\n" for i, text in enumerate(part)))
    lines = {line.split()[0]: line.split()[-3:] for line in compare(["a.fasta", "b.a3m", "w.fasta"]).splitlines()[1:]}
    assert lines["samples"] == ["30", "30", "20"] and float(lines["p"][1]) > 0.01 > float(lines["p"][2])
    Path("ragged.fasta").write_text(">a\nACD\n>b\nAC\n")
    Path("some.txt").write_text("0 1\n1 1\n")
    for name, said in {"ragged.fasta": "sequences of 2 to 3 columns", "some.txt": "stands before the first"}.items():
        with pytest.raises(UserError, match=said):
            compare(["a.fasta", name])


def test_a_model_without_letters_says_so_and_names_no_halves(
    run: Callable[..., None], capfd: pytest.CaptureFixture[str]
) -> None:
    energy = drawn_potts(3, 3, seed=0).float()
    Path("model.dca").write_text(
        "".join(f"h {i} {a} {v}\n" for i, row in enumerate(energy.field.tolist()) for a, v in enumerate(row))
    )
    main(["convert", "model.dca", "theirs"])
    assert "alphabet" not in capfd.readouterr().out
    Path("a.fasta").write_text(">a\nACD\n")
    torch.save(torch.zeros(2, 3, dtype=torch.int64), "a.pt")
    for words, said in (
        (["score", "a.fasta"], "sequences need a model whose letters are known, give numbers of values"),
        (["complete", "a.pt", "--given=1"], "--given is 1, but must be a .npy file that is there"),
    ):
        with pytest.raises(SystemExit):
            main([*words, "--ckpt_path=theirs"])
        assert said in capfd.readouterr().err


def test_an_alignment_of_other_letters_says_what_was_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    texts = ["GAUC", "GAAC", "GUUC", "UUAA", "GAAG"]
    Path("rna.fasta").write_text("".join(f">{i}\n{text}\n" for i, text in enumerate(texts)))
    with pytest.raises(
        UserError, match=r"left out: 3 sequences with unknown letters; .* among 2 sequences, .* check alphabet"
    ):
        Alignment("rna.fasta").setup("fit")
    with pytest.raises(UserError, match="is a folder, but must be a file"):
        Alignment(".")
