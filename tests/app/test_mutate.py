"""`ebmlab mutate`: scores of mutants against energies that are written out."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from helpers_family import family_texts, write_family
from PIL import Image
from scipy.stats import spearmanr

import ebmlab
from ebmlab.app import mutate
from ebmlab.app.cli import main
from ebmlab.datamodules import Alignment
from ebmlab.drawing.mutation_map import draw_mutations
from ebmlab.energies import Potts
from ebmlab.errors import UserError
from ebmlab.exchange import Foreign, read, write
from ebmlab.learners import ContrastiveDivergence
from ebmlab.samplers import Gibbs
from ebmlab.trained import TrainedModel, mutation_scores

LETTERS = "-ACDEFGHIKLMNPQRSTVWY"
WILD = family_texts()[0]
ROW = "kk" + WILD[:5] + "g" + WILD[5:]  # inserts before and within
FIRST = 42


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was trained for a step, with random couplings."""
    folder = tmp_path_factory.mktemp("family")
    data = Alignment(str(write_family(folder / "family.fasta")), batch_size=20)
    learner = ContrastiveDivergence(Potts(12, 21), Gibbs())
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in learner.energy.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    quiet = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary", "enable_checkpointing"), False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = pl.Trainer(max_steps=1, accelerator="cpu", log_every_n_steps=1, limit_val_batches=0, **quiet)
        trainer.fit(learner, data)
    path = folder / "run" / "checkpoints" / "last.ckpt"
    trainer.save_checkpoint(path)
    return path


@pytest.fixture
def model(checkpoint: Path) -> TrainedModel:
    return ebmlab.load(checkpoint)


def energy_of(model: TrainedModel, text: str) -> float:
    return float(model.energy(torch.tensor([[LETTERS.index(letter) for letter in text]]))[0])


def test_scores_are_differences_of_energies_and_names_count_residues(model: TrainedModel) -> None:
    scan = mutation_scores(model, ROW, first=FIRST)
    here = energy_of(model, WILD)
    mutants = dict(scan.mutants())
    assert len(mutants) == 12 * 19
    for site, number in [(0, 44), (4, 48), (5, 50), (11, 56)]:
        assert int(scan.numbers[site]) == number
        for letter in set(LETTERS[1:]) - {WILD[site]}:
            text = WILD[:site] + letter + WILD[site + 1 :]
            assert mutants[f"{WILD[site]}{number}{letter}"] == pytest.approx(here - energy_of(model, text), abs=1e-4)
    double = f"{WILD[0]}44A:{WILD[11]}56C"
    assert scan.score(double) == pytest.approx(here - energy_of(model, "A" + WILD[1:11] + "C"), abs=1e-4)
    assert scan.score("K42A") is None and scan.score(f"{WILD[0]}44{WILD[0]}") == 0.0
    assert scan.scores[0, LETTERS.index(WILD[0])] == 0
    with pytest.raises(UserError, match=f"the sequence has {WILD[0]} at 44, not "):
        scan.score(f"{'A' if WILD[0] != 'A' else 'C'}44G")
    with pytest.raises(UserError, match=r"p.Ala44 is no mutant such as A42G"):
        scan.score("p.Ala44")
    with pytest.raises(UserError, match=f"{WILD[0]}44A:{WILD[0]}44C changes the residue 44 twice"):
        scan.score(f"{WILD[0]}44A:{WILD[0]}44C")


def test_a_gap_has_no_mutants(model: TrainedModel) -> None:
    scan = mutation_scores(model, WILD[:3] + "-" + WILD[4:])
    assert len(scan.mutants()) == 11 * 19 and not scan.residues[3]
    assert [int(n) for n in scan.numbers] == [1, 2, 3, -1, *range(4, 12)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (WILD[:-1], "has 11 letters, but must have 12, as a row of the alignment"),
        ("X" + WILD[1:], "has the letter X at site 1"),
    ],
)
def test_a_sequence_that_does_not_fit_is_refused(text: str, said: str, model: TrainedModel) -> None:
    with pytest.raises(UserError, match=said):
        mutation_scores(model, text)


def test_the_command_writes_table_and_picture_and_compares(
    model: TrainedModel, checkpoint: Path, run: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("wild.a3m").write_text(f">other\n{family_texts()[1]}\n>wild/42-56 text\n{ROW}\n")
    scan = mutation_scores(model, ROW, first=FIRST)
    mutants = scan.mutants()
    measured = [(name, round(score + 3 * (i % 2), 3)) for i, (name, score) in enumerate(mutants[::3])]
    rows = [f"{name},{value}" for name, value in measured]
    Path("dms.csv").write_text(
        "\n".join(["name,fitness", *rows, "K42A,1.0", f"{WILD[0]}44*,0.0", f"{WILD[0]}44A,", ""])
    )
    options = [f"--ckpt_path={checkpoint}", "--sequence=wild/42-56", "--output=out/m.csv"]
    main(["mutate", "wild.a3m", *options, "--measured=dms.csv", "--mutant=name", "--column=fitness"])
    with Path("out/m.csv").open() as file:
        table = list(csv.DictReader(file))
    assert [row["mutant"] for row in table] == [name for name, _ in mutants]
    assert [float(row["score"]) for row in table] == pytest.approx([score for _, score in mutants], rel=1e-4, abs=1e-5)
    assert [row["measured"] for row in table][::3] == [str(value) for _, value in measured]
    scores = dict(mutants)
    rank = spearmanr([scores[name] for name, _ in measured], [value for _, value in measured]).statistic
    out = capsys.readouterr().out
    said = f"Spearman {rank:.3f} with fitness of {len(measured)} mutants"
    assert f"{said} (2 with a site or a letter that the model lacks, 1 without a number)" in out
    with Image.open("out/m.png") as picture:
        assert min(picture.size) > 200


def test_the_picture_has_no_column_where_the_sequence_has_a_gap(
    checkpoint: Path, run: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr(mutate, "draw_mutations", lambda *args: drawn.append(args) or draw_mutations(*args))
    Path("wild.fasta").write_text(f">wild\n{WILD[:3]}-{WILD[4:]}\n")
    main(["mutate", "wild.fasta", "--first=-1", f"--ckpt_path={checkpoint}", "--output=m.csv"])
    scores, values, numbers, alphabet, _ = drawn[0]
    assert numbers.tolist() == list(range(-1, 10)) and len(scores) == 11
    assert [alphabet.letters[value] for value in values] == list(WILD[:3] + WILD[4:])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["gone.fasta"], "gone.fasta: no such file"),
        (["empty.fasta"], "empty.fasta is empty"),
        (["short.fasta"], "short.fasta, wild: the sequence has 11 letters"),
        (["wild.fasta", "--sequence=you"], "wild.fasta has no sequence you; the first is wild"),
        (["wild.fasta", "--output=m.txt"], "--output is m.txt, but must end in .csv"),
        (["wild.fasta", "--output=wild.csv", "--measured=wild.csv"], "wild.csv is read, and would be overwritten"),
        (["wild.fasta", "--measured=no.csv"], "--measured no.csv: no such file"),
        (["wild.fasta", "--measured=wild.csv"], "--measured wild.csv has no column mutant; there are a, b: name it by"),
        (["wild.fasta", "--measured=wild.csv", "--mutant=a", "--column=b"], "wild.csv, line 2: =cmd() is no mutant"),
        (["wild.fasta", "--measured=few.csv"], "--measured few.csv has 0 mutants at sites of the model, too few"),
        (
            ["wild.fasta", "--measured=empty.fasta"],
            "--measured empty.fasta is empty: give a table",
        ),
        (["wild.fasta", "--measured=shifted.csv"], "say which number its first residue has (--first)"),
        (["gaps.fasta"], "gaps.fasta, wild: the sequence has gaps at all sites of the model"),
    ],
)
def test_bad_input_is_one_line(
    words: list[str], said: str, checkpoint: Path, run: Callable[..., None], capfd: pytest.CaptureFixture[str]
) -> None:
    Path("empty.fasta").touch()
    Path("short.fasta").write_text(f">wild\n{WILD[1:]}\n")
    Path("wild.fasta").write_text(f">wild\n{WILD}\n")
    Path("wild.csv").write_text("a,b\n=cmd(),1\n")
    Path("gaps.fasta").write_text(f">wild\n{'-' * len(WILD)}\n")
    Path("shifted.csv").write_text(f"mutant,score\n{'A' if WILD[0] != 'A' else 'C'}1G,1\n")
    Path("few.csv").write_text("mutant,score\nA99C,1\n")
    before = sorted(Path().rglob("*"))
    with pytest.raises(SystemExit) as error:
        main(["mutate", *words, f"--ckpt_path={checkpoint}"])
    lines = [line for line in capfd.readouterr().err.splitlines() if line.startswith("error:")]
    assert error.value.code == 2 and len(lines) == 1 and said in lines[0]
    assert sorted(Path().rglob("*")) == before and not (checkpoint.parents[1] / "mutants.csv").exists()


@pytest.mark.parametrize("gap", ["*", "."])
def test_a_gap_of_another_letter_is_no_residue(gap: str, tmp_path: Path) -> None:
    rows = [
        f"A{gap}CGUA",
        "ACCGUA",
        f"GCC{gap}UA",
        "GCUGUC",
        "AUCGGA",
        "ACAGUU",
        "CCCGAA",
        "UCCUUA",
        "AGAGUG",
        "GAUAUC",
    ]
    (tmp_path / "rna.fasta").write_text("".join(f">{i}\n{row}\n" for i, row in enumerate(rows)))
    data = Alignment(str(tmp_path / "rna.fasta"), f"{gap}ACGU", gap=gap, identity=None)
    assert data.family.residues(0) == [("A", 0), ("C", 2), ("G", 3), ("U", 4), ("A", 5)]
    model = TrainedModel(ContrastiveDivergence(Potts(6, 5), Gibbs()), data.preprocessing)
    for text in (rows[0], rows[0].replace(gap, "-")):
        scan = mutation_scores(model, text)
        assert [name for name, _ in scan.mutants()[:4]] == ["A1C", "A1G", "A1U", "C2A"]
        assert len(scan.mutants()) == 5 * 3


@pytest.mark.parametrize("letters", ["-ACGU", "-ACGT", "-acgu"])
def test_names_of_mutants_may_have_t_or_u_in_either_case(letters: str, run: Callable[..., None]) -> None:
    torch.manual_seed(0)
    energy = Potts(4, 5)
    for parameter in energy.parameters():
        torch.nn.init.normal_(parameter)
    write(Foreign(energy, "plmc", form="values", facts={"alphabet": letters}), "given.model")
    main(["convert", "given.model", "mine"])
    model = ebmlab.load("mine")
    here, there = model.energy(torch.tensor([[3, 1, 4, 2], [3, 4, 2, 2]])).tolist()  # GAUC and GUCC
    for text in ("GAUC", "GATC", "gatc"):
        scan = mutation_scores(model, text)
        for name in ("A2U:U3C", "A2T:T3C", "a2t,U3c"):
            assert scan.score(name) == pytest.approx(here - there, abs=1e-4)
        mutants = dict(scan.mutants())
        a, c, u = (letters[k] for k in (1, 2, 4))
        assert scan.score("A2T") == scan.score("a2u") == mutants[f"{a}2{u}"]
        assert (scan.spelled("A2T:t3C"), scan.spelled("A2N")) == (f"{a}2{u}:{u}3{c}", None)
        with pytest.raises(UserError, match=f"the sequence has {u} at 3, not C"):
            scan.score("C3T")
    Path("wild.fasta").write_text(">wild\nGATC\n")
    Path("dms.csv").write_text("mutant,score\nA2T,1\nT3C,2\nu3g,3\n")
    main(["mutate", "wild.fasta", "--ckpt_path", "mine", "--output=m.csv", "--measured", "dms.csv"])
    with Path("m.csv").open() as file:
        measured = {row["mutant"].upper(): row["measured"] for row in csv.DictReader(file) if row["measured"]}
    assert measured == {f"A2{u.upper()}": "1", f"{u.upper()}3C": "2", f"{u.upper()}3G": "3"}


@pytest.fixture
def numbered(run: Callable[..., None]) -> TrainedModel:
    """A model of plmc whose sites are the residues 42, 43, 45 and 46, as a run."""
    torch.manual_seed(0)
    energy = Potts(4, 21)
    for parameter in energy.parameters():
        torch.nn.init.normal_(parameter)
    given = Foreign(energy, "plmc", names=(42, 43, 45, 46), form="values", facts={"alphabet": LETTERS})
    write(given, "given.model")
    main(["convert", "given.model", "mine"])
    return ebmlab.load("mine")


def test_sites_of_a_model_of_plmc_keep_their_numbers(
    numbered: TrainedModel, capsys: pytest.CaptureFixture[str]
) -> None:
    scan = mutation_scores(numbered, "ACDE")
    mutants = dict(scan.mutants())
    assert list(mutants)[::19] == ["A42C", "C43A", "D45A", "E46A"]
    for name, text in [("A42F", "FCDE"), ("C43F", "AFDE"), ("D45F", "ACFE"), ("E46F", "ACDF")]:
        assert mutants[name] == pytest.approx(energy_of(numbered, "ACDE") - energy_of(numbered, text), abs=1e-4)
    for text in ("ACKDE", "AC-DE", "aaACDEkk", "A-DE", "A-KDE"):
        own = {name: mutants[name] for name in mutants if "-" not in text[:2] or "43" not in name}
        found = dict(mutation_scores(numbered, text).mutants())
        assert list(found) == list(own) and ("-" in text[:2] or found == own)
    assert mutation_scores(numbered, "ACKDE", first=7).numbers.tolist() == [7, 8, 10, 11]
    with pytest.raises(UserError, match="has 3 letters, but must have 5, from 42 to 46, or 4, one for each site"):
        mutation_scores(numbered, "ACD")
    Path("wild.fasta").write_text(">wild/42-46\nACDE\n")
    Path("dms.csv").write_text("mutant,score\nA42F,1\nD45F,2\nE46F:A42C,3\nK44F,4\n")
    main(["mutate", "wild.fasta", "--ckpt_path", "mine", "--output=m.csv", "--measured", "dms.csv"])
    assert "with score of 3 mutants (1 with a site or a letter that the model lacks" in capsys.readouterr().out
    with Path("m.csv").open() as file:
        measured = {row["mutant"]: row["measured"] for row in csv.DictReader(file) if row["measured"]}
    assert measured == {"A42F": "1", "D45F": "2"}


def test_numbers_of_sites_come_back_from_a_run(numbered: TrainedModel, run: Callable[..., None]) -> None:
    main(["convert", "mine", "again.model"])
    main(["convert", "mine", "copy"])
    assert read("again.model").names == (42, 43, 45, 46)
    assert Path("again.model").read_bytes() == Path("given.model").read_bytes()
    assert ebmlab.load("copy").preprocessing == numbered.preprocessing
    main(["predict", "--ckpt_path", "mine", "--num_samples", "2", "--num_steps", "3", "--condition", "45=D"])
    assert "".join(Path("mine/samples/samples.fasta").read_text().split()[1::2])[2::4] == "DD"
