"""`callbacks.X` and `datamodules.X` mean classes of ebmlab where it has them, else those of the user's modules."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import pytorch_lightning as pl
import torch
import yaml

import ebmlab
from ebmlab.app.class_paths import full_names
from ebmlab.datamodules import Digits

RUN = Path("runs/grbm_digits/a")
CHECKPOINT = RUN / "checkpoints" / "last.ckpt"
QUICK = ["--trainer.max_epochs=1", "--name=a", "--callbacks.FID=false", "--callbacks.SampleGrid=false"]
MINE = """
from pathlib import Path

from pytorch_lightning import Callback

class Mine(Callback):
    def on_fit_end(self, trainer, pl_module):
        Path("mine").touch()

class Progress(Callback):
    def on_fit_end(self, trainer, pl_module):
        Path("shadowed").touch()
"""
DATA = """
from ebmlab.datamodules import Digits as Ours

class Halved(Ours):
    name = "halved"

class Digits:
    pass
"""


class Forgotten:
    """In the place of the base class of the user's classes."""


@pytest.fixture
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Folders `callbacks` and `datamodules` of the user's in the working directory; each has a class named as ours."""
    for folder, text in (("callbacks", MINE), ("datamodules", DATA)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").write_text(text)
    (tmp_path / "callbacks" / "fid.py").write_text(MINE.replace("Mine", "Score"))
    monkeypatch.syspath_prepend(tmp_path)  # before the checkout, which has folders of these names
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] in ("callbacks", "datamodules")]:
        for kept in vars(sys.modules.pop(name)).values():
            if isinstance(kept, type) and kept.__module__ == name and issubclass(kept, pl.Callback):
                kept.__bases__ = (Forgotten,)  # the command line of later tests looks through all subclasses


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("callbacks.FID", "ebmlab.callbacks.FID"),
        ("--trainer.callbacks.help=callbacks.FID", "--trainer.callbacks.help=ebmlab.callbacks.FID"),
        ("callbacks.fid.FID", "ebmlab.callbacks.fid.FID"),
        ("{data: {class_path: datamodules.MNIST}}", "{data: {class_path: ebmlab.datamodules.MNIST}}"),
        ('"datamodules.MNIST"', '"ebmlab.datamodules.MNIST"'),
        *(
            (same, same)
            for same in (
                *("ebmlab.callbacks.FID", "my.callbacks.FID", "callbacks.fid.Mine", "callbacks.log_image"),
                *("--callbacks.FID", "--callbacks.FID.num_samples=3", "pytorch_lightning.callbacks.Timer"),
                *("runs/datamodules.MNIST", "datamodules.MNIST/a", "${callbacks.FID}", "datamodules: MNIST"),
            )
        ),
    ],
)
def test_short_names(text: str, full: str) -> None:
    assert full_names(text) == full


@pytest.mark.slow
def test_own_folders_neither_shadow_ours_nor_are_shadowed(own_folders: None, run: Callable[..., None]) -> None:
    Path("own.yaml").write_text("data: datamodules.Halved\ntrainer: {callbacks+: [callbacks.fid.Score]}")
    run("fit", *QUICK, "--config=own.yaml", "--callbacks.callbacks.Mine=true", "--callbacks.callbacks.Progress=true")
    assert Path("mine").exists() and not Path("shadowed").exists()
    config = yaml.safe_load((RUN / "config.yaml").read_text())
    paths = [entry["class_path"] for entry in config["trainer"]["callbacks"]]
    assert config["data"]["class_path"] == "datamodules.Halved"
    assert {"ebmlab.callbacks.Progress", "callbacks.fid.Score", "callbacks.Mine"} <= {*paths}
    assert "callbacks.Progress" not in paths


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:lr_scheduler. the learning rate falls until epoch 1 of 2")
def test_own_folders_are_not_imported_unless_the_user_names_them(
    own_folders: None, run: Callable[..., None], fails: Callable[..., str]
) -> None:
    """The config beside a checkpoint is not trusted to do so, whatever flags change the callbacks by name."""
    run("fit", *QUICK)
    assert "callbacks" not in sys.modules and "datamodules" not in sys.modules
    config = yaml.safe_load((RUN / "config.yaml").read_text())
    config["trainer"]["callbacks"].append({"class_path": "callbacks.Mine"})
    (RUN / "config.yaml").write_text(yaml.safe_dump(config))
    flags = [f"--ckpt_path={CHECKPOINT}", "--trainer.max_epochs=2", "--callbacks.RunState=true"]
    assert "name the config" in fails("fit", *flags, bare=True)
    assert "callbacks" not in sys.modules
    run("fit", f"--config={RUN / 'config.yaml'}", *flags, bare=True)
    assert Path("mine").exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:lr_scheduler. the learning rate falls until epoch 1 of 2")
def test_runs_from_before_the_move(run: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    """Their config and checkpoint name `callbacks.X` and `datamodules.X`: they load, resume, predict, and compare."""
    run("fit", *QUICK, "--callbacks.DivergenceGuard.max_gap=1e9")
    text = (RUN / "config.yaml").read_text()
    old = text.replace("ebmlab.callbacks.", "callbacks.").replace("ebmlab.datamodules.", "datamodules.")
    assert old.count(" callbacks.") > 3 and " datamodules.Digits" in old and "ebmlab.callbacks" not in old
    shutil.copytree(RUN, RUN.with_name("new"))
    (RUN / "config.yaml").write_text(old)
    checkpoint = torch.load(CHECKPOINT, weights_only=True)
    assert checkpoint["datamodule_hyper_parameters"]["_class_path"] == "ebmlab.datamodules.Digits"
    checkpoint["datamodule_hyper_parameters"]["_class_path"] = "datamodules.Digits"
    torch.save(checkpoint, CHECKPOINT)

    assert Digits.load_from_checkpoint(CHECKPOINT, weights_only=True).batch_size == 300
    assert ebmlab.load(RUN).learner.energy.domain.event_shape == (64,)
    run("predict", f"--ckpt_path={RUN}", "--num_samples=4", "--num_steps=2", bare=True)
    run("test", f"--ckpt_path={CHECKPOINT}", bare=True)
    run("fit", f"--ckpt_path={CHECKPOINT}", "--trainer.max_epochs=2", bare=True)
    new = RUN.with_name("new") / "checkpoints" / "last.ckpt"
    run("fit", f"--ckpt_path={new}", "--trainer.max_epochs=2", bare=True)
    ours, theirs = (torch.load(path, weights_only=True) for path in (CHECKPOINT, new))
    assert all(torch.equal(ours["state_dict"][key], theirs["state_dict"][key]) for key in ours["state_dict"])
    assert ours["callbacks"].keys() == theirs["callbacks"].keys()
    (RUN / "config.yaml").write_text(old)
    capsys.readouterr()
    from ebmlab.app.compare import compare

    table = compare([str(RUN), str(RUN.with_name("new"))])
    assert "data " not in table and "callbacks." not in table


@pytest.mark.slow
def test_short_names_are_found_in_a_fresh_process() -> None:
    """In this one, the data's classes have been imported by other tests."""
    command = [sys.executable, "-m", "ebmlab", "fit", "--data", "Digits", "--print_config"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert "class_path: ebmlab.datamodules.Digits" in done.stdout, done.stderr


@pytest.mark.parametrize(("which", "option"), [("model", "--model.energy=RBM"), ("data", "--data.batch_size=3")])
def test_options_without_a_class_are_one_line(which: str, option: str, fails: Callable[..., str]) -> None:
    line = fails("fit", option, bare=True)
    assert f"options of the {which} are given, but no {which}: name it by --config FILE or --{which} CLASS" in line
