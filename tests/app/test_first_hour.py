"""Mistakes of a first hour end in a line that says what to write instead."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from jsonargparse import Namespace
from pytorch_lightning.loggers.logger import DummyLogger
from torch.utils.data import DataLoader

import ebmlab
from ebmlab.app import model_commands
from ebmlab.app.beginning import Beginning
from ebmlab.app.checks import check_energy
from ebmlab.app.class_help import class_help
from ebmlab.app.cli import main
from ebmlab.app.closing import closing_lines, why_no_score
from ebmlab.app.config_errors import parser_message
from ebmlab.app.known_classes import close_class, data_with, meant
from ebmlab.app.parser import Parser
from ebmlab.app.parsers import model_parser
from ebmlab.app.prediction import save_samples
from ebmlab.app.sample_files import read_samples
from ebmlab.app.sweep_space import read_space
from ebmlab.app.trust import denied
from ebmlab.callbacks.density2d import axis_names
from ebmlab.data.preprocessing import Preprocessing
from ebmlab.datamodules import Arrays
from ebmlab.datamodules.scaling import Form, for_bits
from ebmlab.domains import Real
from ebmlab.drawing.plane import Surface, draw_surfaces_and_points
from ebmlab.energies import RBM, Energy
from ebmlab.errors import UserError
from ebmlab.io.described import rebuilding
from ebmlab.io.rebuilding import imported
from ebmlab.learners import ContrastiveDivergence, FromNoise
from ebmlab.samplers import DULA, BlockGibbs
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
        ("trainer.n: Expected a <class 'int'> Given value: many", "trainer.n is 'many', but must be a whole number"),
        (
            "seed: Expected a <class 'bool'> Expected a <class 'int'> Given value: x",
            "seed is 'x', but must be true or false or a whole number",
        ),
        (
            "data: Problem with given class_path 'a.B': c: Expected a typing.Literal['d', 'e']. Got value: f",
            "data.c is 'f', but must be one of 'd', 'e'",
        ),
        (
            "sampler: Expected a path but Snail either x. Expected a dot import path string: Snail",
            "sampler: there is no Snail (`python -m ebmlab list` shows all)",
        ),
        (  # not ebmlab.learners.RatioMatching, which is no energy
            "energy: Expected a path but RandomThing either x. Expected a dot import path string: RandomThing",
            "energy: there is no RandomThing (`python -m ebmlab list` shows all)",
        ),
        (
            "You restored a checkpoint with current_epoch=23, but you have set Trainer(max_epochs=12).",
            "the checkpoint is of epoch 24, but trainer.max_epochs is 12: give a larger number",
        ),
    ],
)
def test_a_line_says_what_to_write(message: str, said: str) -> None:
    assert parser_message(message).startswith(said)


def test_a_class_is_found_whatever_the_case() -> None:
    assert close_class("dmala") == "ebmlab.samplers.DMALA"
    assert (close_class("NUTZ"), close_class("GRBN")) == ("ebmlab.samplers.NUTS", "ebmlab.energies.GRBM")
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
    x = read_samples(str(tmp_path / "two.csv"), data.preprocessing, None, "x").x
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
    Path("other.csv").write_text("a,b,c\n1,,1\n2,0,\n")
    for words, said in (
        (["complete", "other.csv"], "other.csv, row 1, counted from 0: the values lie between 0 and 2, but those in t"),
        (["complete", "holes.csv", "--given=b,c"], "holes.csv: holds NaN or infinity in 2 of 4 events"),
        (["score", "holes.csv"], "holes.csv, line 2: the cell of column b is empty: fill it, or leave the line out"),
        (["complete", "bits.csv"], "bits.csv has no empty cells and no NaN: say by --given what is known"),
    ):
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main([*words, "--ckpt_path=m.ckpt"])
        assert end.value.code == 2 and capsys.readouterr().err.splitlines()[-1].startswith(f"error: {said}")


SPINS = [[1.0, -1.0, 1.0], [-1.0, 1.0, 1.0]]


@pytest.mark.parametrize(
    ("rows", "form", "wanted"),
    [
        (SPINS, Form("real", binarize=True), "set domain to binary and binarize to false"),
        (SPINS, Form("binary", binarize=True), "set binarize to false"),
        ([[0.0, 2.0], [1.0, 0.0]], Form("real", binarize=True), "set domain to binary and max_value to 2"),
        ([[0.0, 2.0], [1.0, 0.0]], Form("binary"), "set binarize to true and max_value to 2"),
        ([[0.0, 255.0], [9.0, 0.0]], Form("binary"), "set binarize to true"),
        ([[0.0, 1.0]], Form("real", binarize=True), "set domain to binary"),
        ([[-0.3, 2.1]], Form("binary"), "set domain to real, and take an energy on real numbers: some are below 0"),
    ],
)
def test_one_line_says_all_that_makes_bits(rows: list[list[float]], form: Form, wanted: str, tmp_path: Path) -> None:
    assert for_bits(torch.tensor(rows), form).startswith(wanted)
    np.save(tmp_path / "x.npy", np.array(rows * 20))
    with pytest.raises(UserError, match=f": {wanted}"):
        given = Arrays(str(tmp_path / "x.npy"), domain=form.domain, binarize=form.binarize, batch_size=5)
        given.setup("fit")


def test_what_the_line_says_is_enough(tmp_path: Path) -> None:
    np.save(tmp_path / "spins.npy", np.array(SPINS * 20))
    data = Arrays(str(tmp_path / "spins.npy"), domain="binary", batch_size=5)
    raw, x = data.raw("train"), data.states("train")
    assert set(x.unique().tolist()) == {0, 1} and (data.to_raw(x) == raw).all() and (x == (raw + 1) / 2).all()


class FileLogger(DummyLogger):
    """As W&B's and TensorBoard's do, it writes a file as soon as it is asked for its experiment."""

    @property
    def experiment(self) -> Any:
        Path("logger.txt").touch()
        return super().experiment

    def log_metrics(self, *args: Any, **kwargs: Any) -> None:
        self.experiment.log(*args)


@pytest.mark.parametrize("first", [0.0, float("nan")])
@pytest.mark.parametrize("stage", ["fit", "test"])
def test_a_run_writes_nothing_before_its_checks(
    stage: str, first: float, bits: Arrays, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    trainer = pl.Trainer(
        default_root_dir="run",
        logger=[DummyLogger(), FileLogger()],
        max_epochs=1,
        log_every_n_steps=1,
        enable_progress_bar=False,
        enable_checkpointing=False,
        accelerator="cpu",
    )
    Beginning(trainer, Namespace(), lambda _: "a: 1\n")
    loader = DataLoader(torch.full((20, 3), first), batch_size=10)
    go = partial(trainer.fit, learner(), loader, loader) if stage == "fit" else partial(trainer.test, learner(), loader)
    if first == first:
        go()
        assert Path("logger.txt").exists() and Path("run/config.yaml").exists() == (stage == "fit")
    else:
        with pytest.raises(UserError, match="hold NaN or infinity, the first is number 0, counted from 0"):
            go()
        assert not Path("logger.txt").exists() and not Path("run").exists()


@pytest.mark.slow
def test_a_resumed_run_of_another_optimizer_leaves_the_runs_config(brief_run: Path, fails: Callable[..., str]) -> None:
    before = (brief_run / "config.yaml").read_bytes()
    line = fails("fit", f"--ckpt_path={brief_run}", "--trainer.max_epochs=2", "--model.optimizer=SGD")
    assert "the checkpoint was not written with SGD" in line
    assert (brief_run / "config.yaml").read_bytes() == before


@pytest.mark.slow
@pytest.mark.parametrize("command", ["fit", "resume", "test"])
def test_a_command_that_is_refused_late_leaves_nothing(
    command: str, brief_run: Path, fails: Callable[..., str]
) -> None:
    before = {path: path.read_bytes() for path in sorted(Path("runs").rglob("*")) if path.is_file()}
    Path("late.py").write_text(
        "from ebmlab.datamodules import Digits\n\n\nclass Late(Digits):\n"
        "    def to_states(self, raw):\n        return super().to_states(raw) * float('nan')\n"
    )
    words = {
        "fit": ["fit", "--name=b"],
        "resume": ["fit", "--name=a", "--resume=auto"],
        "test": ["test", f"--ckpt_path={brief_run}/checkpoints/last.ckpt"],
    }[command]
    line = fails(*words, "--data=late.Late", "--wandb=offline")
    assert "hold NaN or infinity" in line and "counted from 0" in line
    assert {path: path.read_bytes() for path in sorted(Path("runs").rglob("*")) if path.is_file()} == before
    assert not Path("runs/grbm_digits/b").exists() and not (brief_run / "test").exists()


def test_a_test_without_a_score_says_what_to_add(bits: Arrays) -> None:
    trainer = pl.Trainer(logger=False, enable_checkpointing=False, enable_progress_bar=False, accelerator="cpu")
    trainer.test(learner(), bits, verbose=False)
    assert why_no_score(trainer) == ["  score      none; add --callbacks.AIS.test_temperatures 1000 for a likelihood"]
    unadjusted = ContrastiveDivergence(RBM(3, 2), DULA(0.2), start=FromNoise(), num_steps=2)
    trainer.test(unadjusted, bits, verbose=False)
    assert "none; add --callbacks.AIS.sampler BlockGibbs --callbacks.AIS.test_t" in why_no_score(trainer)[0]


@pytest.mark.parametrize("binarize", [False, True])
def test_the_line_for_a_two_among_bits_speaks_of_no_levels(binarize: bool, bits: Arrays, tmp_path: Path) -> None:
    data = Arrays(str(tmp_path / "bits.csv"), domain="binary", batch_size=10, binarize=binarize)
    data.setup("fit")
    assert data.preprocessing is not None
    with pytest.raises(UserError, match="between 0 and") as said:
        TrainedModel(learner(), data.preprocessing).energy(torch.tensor([[0.0, 2.0, 1.0]]))
    assert not any(word in str(said.value) for word in ("uint8", "levels", "divide"))


@pytest.mark.parametrize(("head", "line"), [("a,b\n", 4), ("", 3)])
def test_nan_is_named_by_its_line(head: str, line: int, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(f"{head}1,2\n3,4\nnan,6\n7,8\n")
    wanted = f"1 of 4 samples hold NaN or infinity, the first is in line {line}: remove them"
    with pytest.raises(UserError, match=wanted):
        Arrays(str(path))
    with pytest.raises(UserError, match=wanted):
        read_samples(str(path), Preprocessing((2,)), None, "x")
    np.save(tmp_path / "x.npy", [[1.0], [np.inf]])
    with pytest.raises(UserError, match="the first is number 1, counted from 0: remove them"):
        read_samples(str(tmp_path / "x.npy"), Preprocessing((1,)), None, "x")


def test_an_option_of_another_class_names_the_class(fails: Callable[..., str]) -> None:
    said = fails("fit", "--config=rbm_digits", "--data.path=spins.csv", bare=True)
    assert said == "error: data: Digits has no option path; Arrays has it: --data Arrays --data.path"
    assert (data_with("root"), data_with("nothing")) == ("ImageFolder", None)


@pytest.mark.parametrize(("standardize", "names"), [(True, "a, standardised"), (False, "a")])
def test_axes_say_that_data_were_standardised(standardize: bool, names: str, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a,b\n" + "1,2\n3,5\n4,4\n" * 5)
    data = Arrays(str(tmp_path / "x.csv"), standardize=standardize, batch_size=5)
    points = torch.randn(4, 2)
    figure = draw_surfaces_and_points([Surface("f", torch.ones(3, 3), 1.0)], 2.0, points, points, "t", axis_names(data))
    assert figure.axes[0].get_xlabel() == names and figure.axes[0].get_ylabel() == names.replace("a", "b", 1)


@pytest.mark.parametrize("place", ["model.sampler.help=DMALA", "model.help=ContrastiveDivergence", "data.help=Arrays"])
def test_the_help_of_a_class_shows_no_internals(place: str) -> None:
    page = class_help(["fit", f"--{place}"])
    assert page is not None and "required" in page.lower() and "default" in page.lower()
    assert not any(
        word in page
        for word in ("torch.Tensor", "torch.optim", "typing", "Union", "subclass", "functools", "<class", "CONFIG")
    )


def test_a_missing_file_is_no_errno(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"^sweep: --space none.yaml cannot be read: no such file or directory$"):
        read_space(Path("none.yaml"))


def test_own_code_is_refused_with_the_option_that_allows_it() -> None:
    assert denied("mine.Mine").endswith("name the config by --config, or for predict its module by --import mine")
    with pytest.raises(UserError) as refused, rebuilding(Path("m.ckpt")):
        imported("not_loaded.Mine")
    assert str(refused.value).startswith("m.ckpt: not_loaded.Mine is not part of ebmlab")
    assert refused.value.option == "import not_loaded"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["f", "--loglik"], "score: there is no option --loglik; did you mean --log_likelihood?"),
        (["f", "--ckpt_pth", "x"], "score: there is no option --ckpt_pth; did you mean --ckpt_path?"),
        (["f", "--seed", "x"], "score: --seed is 'x', but must be a whole number"),
    ],
)
def test_commands_without_a_config_say_what_was_meant(words: list[str], said: str) -> None:
    with pytest.raises(UserError) as refused:
        model_parser("score").parse_args(["--ckpt_path=m", *words])
    assert str(refused.value) == said


def test_predict_knows_its_own_options_and_kinds_of_files(
    bits: Arrays, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["ebmlab", "predict"])
    assert (meant("--num_sample"), meant("--outputs")) == ("--num_samples", "--output")
    with pytest.raises(UserError, match=r"x.png, but must be a .npy, .pt, .csv or .fasta file, or a folder"):
        save_samples(learner(), bits, tmp_path, 2, output=str(tmp_path / "x.png"))
    assert not (tmp_path / "x.png").exists()
