"""Mistakes of a first hour end in a line that says what to write instead."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import pytorch_lightning as pl
import torch

import ebmlab
from ebmlab.app import model_commands
from ebmlab.app.checks import check_energy
from ebmlab.app.cli import main
from ebmlab.app.closing import closing_lines
from ebmlab.app.config_errors import parser_message
from ebmlab.app.known_classes import close_class, meant
from ebmlab.app.parser import Parser
from ebmlab.app.prediction import save_samples
from ebmlab.app.sample_files import read_samples
from ebmlab.datamodules import Arrays
from ebmlab.domains import Real
from ebmlab.energies import RBM, Energy
from ebmlab.errors import UserError
from ebmlab.learners import ContrastiveDivergence, FromNoise
from ebmlab.samplers import BlockGibbs
from ebmlab.trained import TrainedModel

LEARNER = "model: Problem with given class_path 'ebmlab.learners.ContrastiveDivergence': "


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("Unrecognized arguments: grbm_digits", "grbm_digits belongs to no option: a config goes by --config, a run"),
        (
            LEARNER + "optimizer: Option 'learning_rate' is not accepted",
            "model.optimizer has no option learning_rate; did you mean --model.optimizer.lr?",
        ),
        (
            "optimizer: lr: Expected a path but big either not accessible or invalid Expected a float Expected a dot "
            "import path string: big",
            "lr is 'big', but must be a number",
        ),
        (
            "sampler: Expected a path but dmala either x. Expected a dot import path string: dmala",
            "sampler: there is no dmala; did you mean ebmlab.samplers.DMALA?",
        ),
        ("resume: Expected one of 'auto' Given value: yes", "resume is 'yes', but must be one of 'auto'"),
        (
            "You restored a checkpoint with current_epoch=23, but you have set Trainer(max_epochs=12).",
            "the checkpoint has trained 23 epochs, but trainer.max_epochs is 12: give a larger number",
        ),
    ],
)
def test_a_line_says_what_to_write(message: str, said: str) -> None:
    assert parser_message(message).startswith(said)


def test_a_class_is_found_whatever_the_case() -> None:
    assert close_class("dmala") == "ebmlab.samplers.DMALA"
    assert close_class("sgdd") == "torch.optim.SGD"
    assert close_class("ramps.Ramp") is None  # of one's own, and no RealMLP
    assert meant("--seed") == "--seed_everything"


@pytest.mark.parametrize("name", ["points.csv", "photos"])
def test_data_where_its_class_belongs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("points.csv").write_text("1,2\n")
    Path("photos").mkdir()
    wanted = f"must be a class: write --data \\w+ --data.(path|root) {name}"
    with pytest.raises(UserError, match=wanted):
        Parser(exit_on_error=False).parse_args(["--data", name])


def test_data_without_its_file(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["fit", "--config", "rbm_digits", "--data", "Arrays"])
    line = capsys.readouterr().err.strip().splitlines()[-1]
    assert end.value.code == 2 and line.startswith("error: data: Arrays needs path")


def test_an_energy_without_forward() -> None:
    class Silent(Energy):
        def __init__(self) -> None:
            super().__init__()
            self.domain = Real(2)

    with pytest.raises(UserError, match="Silent has no forward: write forward"):
        check_energy(Silent())


@pytest.fixture
def bits(tmp_path: Path) -> Arrays:
    rows = torch.randint(2, (40, 3), generator=torch.Generator().manual_seed(0))
    np.savetxt(tmp_path / "bits.csv", rows.numpy(), "%d", ",", header="a,b,c", comments="")
    data = Arrays(str(tmp_path / "bits.csv"), domain="binary", batch_size=10)
    data.setup("fit")
    return data


def learner() -> ContrastiveDivergence:
    return ContrastiveDivergence(RBM(3, 2), BlockGibbs(), start=FromNoise(), num_steps=2)


@pytest.mark.parametrize("binarize", [False, True])
def test_a_two_among_bits_is_no_level_of_a_pixel(binarize: bool, bits: Arrays, tmp_path: Path) -> None:
    """Else 255 would be a 1, and every bit of the table a 0."""
    data = Arrays(str(tmp_path / "bits.csv"), domain="binary", batch_size=10, binarize=binarize)
    data.setup("fit")
    (tmp_path / "two.csv").write_text("a,b,c\n1,0,1\n0,2,1\n")
    assert data.preprocessing is not None
    model = TrainedModel(learner(), data.preprocessing)
    x, _ = read_samples(str(tmp_path / "two.csv"), data.preprocessing, None, "x")
    with pytest.raises(UserError, match=r"(between 0 and|up to) 2, but those (in|of the) training"):
        model.energy(x)


def test_samples_go_to_the_file_that_is_named(bits: Arrays, tmp_path: Path) -> None:
    model = learner()
    for name in ("s.csv", "s.npy", "s.pt", "folder"):
        save_samples(model, bits, tmp_path, 5, output=str(tmp_path / name))
    wanted = np.load(tmp_path / "s.npy")
    assert wanted.shape == (5, 3) and set(wanted.ravel()) <= {0, 1}
    assert (torch.load(tmp_path / "s.pt").numpy() == wanted).all()
    for path in (tmp_path / "s.csv", tmp_path / "folder" / "samples.csv"):
        assert path.read_text().startswith("a,b,c\n")
        assert np.allclose(np.loadtxt(path, delimiter=",", skiprows=1), wanted)


@pytest.mark.parametrize("config", [[], ["--config", "rbm_digits"]], ids=["of the checkpoint", "of the user"])
def test_samples_do_not_take_the_place_of_their_model(
    config: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(ebmlab.load("zoo/rbm-digits").path or "", "m.pt")
    before = Path("m.pt").read_bytes()
    with pytest.raises(SystemExit) as end:
        main(["predict", *config, "--ckpt_path=m.pt", "--num_samples=2", "--num_steps=1", "--output=m.pt"])
    assert end.value.code == 2 and "m.pt is read, and would be overwritten" in capsys.readouterr().err
    assert Path("m.pt").read_bytes() == before and [path.name for path in tmp_path.iterdir()] == ["m.pt"]


@pytest.mark.parametrize(("acceptance", "said"), [(0.0, 1), (0.4, 0)])
def test_a_run_whose_chains_stood_still_says_so(acceptance: float, said: int) -> None:
    trainer = pl.Trainer(logger=False, enable_checkpointing=False, enable_progress_bar=False, accelerator="cpu")
    trainer.callback_metrics["sampler/acceptance"] = torch.tensor(acceptance)
    assert sum("the chains stand still" in line for line in closing_lines(trainer)) == said


def test_empty_cells_are_filled_row_by_row(
    bits: Arrays, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert bits.preprocessing is not None
    model = TrainedModel(learner(), bits.preprocessing, path=tmp_path / "m.ckpt")
    monkeypatch.setattr(model_commands, "load", lambda path: model)
    Path("holes.csv").write_text("a,b,c\n1,,1\n,0,NA\n1,1,0\nnan,0,1\n")
    main(["complete", "holes.csv", "--ckpt_path=m.ckpt", "--num_samples=50", "--num_steps=9", "--output=full.csv"])
    found = np.loadtxt("full.csv", delimiter=",", skiprows=1).reshape(4, 50, 3)
    given = np.array([[1, np.nan, 1], [np.nan, 0, np.nan], [1, 1, 0], [np.nan, 0, 1]])[:, None]
    assert ((found == given) | np.isnan(given)).all() and set(found.ravel()) == {0, 1}
    assert {0, 1} == set(found[0, :, 1]) == set(found[3, :, 0])
    for words, said in (
        (["score", "holes.csv"], "holes.csv, line 2: the cell of column b is empty: fill it, or leave the line out"),
        (["complete", "bits.csv"], "bits.csv has no empty cells and no NaN: say by --given what is known"),
    ):
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main([*words, "--ckpt_path=m.ckpt"])
        assert end.value.code == 2 and capsys.readouterr().err.splitlines()[-1].startswith(f"error: {said}")
