"""The files that each command writes."""

from __future__ import annotations

import csv
import shutil
import time
from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import Any

import pytest
import torch
import wandb
import yaml

from ebmlab.app.loggers import make_loggers
from ebmlab.app.run_folder import continued_run
from ebmlab.datamodules import GrayCode2D
from ebmlab.learners import ContrastiveDivergence

Run = Callable[..., None]


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_the_datamodule_is_built_for_the_size_of_its_data_and_for_the_run(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, make = [], GrayCode2D.__init__

    @wraps(make)
    def counted(self: GrayCode2D, *args: Any, **kwargs: Any) -> None:
        made.append(self)
        make(self, *args, **kwargs)

    monkeypatch.setattr(GrayCode2D, "__init__", counted)
    run("fit", "--trainer.fast_dev_run=true", config="rm_2spirals", quick=False)
    assert len(made) == 2


def test_fit_then_everything_else(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run("fit", "--trainer.max_epochs=2", "--name=first", "--trainer.check_val_every_n_epoch=1")
    folder = Path("runs/grbm_digits/first")
    assert str(folder) in capsys.readouterr().out
    rows = read_csv(folder / "metrics.csv")
    columns = {
        "step",
        "train/energy_data",
        "train/energy_negative",
        "train/energy_gap",
        "train/grad_norm",
        "val/energy",
    }
    assert columns | {"sampler/acceptance"} <= set(rows[0])
    assert [int(row["step"]) for row in rows] == sorted(int(row["step"]) for row in rows)
    config = yaml.safe_load((folder / "config.yaml").read_text())
    assert config["model"]["init_args"]["energy"]["init_args"]["num_coordinates"] == 64  # resolved, not ${event_size:}
    assert config["trainer"]["max_epochs"] == 2

    checkpoint = folder / "checkpoints" / "last.ckpt"
    learner = ContrastiveDivergence.load_from_checkpoint(checkpoint)
    saved = torch.load(checkpoint, weights_only=True)["state_dict"]
    assert torch.equal(learner.energy.W, saved["energy.W"])
    assert learner.num_steps == 2
    assert learner.sampler.num_inner_steps == 10

    before = (folder / "metrics.csv").read_text()
    for command in ("validate", "test"):
        run(command, "--ckpt_path", checkpoint, bare=True)
        rows = read_csv(folder / command / "metrics.csv")
        energy = float(rows[0][f"{'val' if command == 'validate' else 'test'}/energy"])
        assert torch.isfinite(torch.tensor(energy))
    assert (folder / "metrics.csv").read_text() == before

    run("predict", "--ckpt_path", checkpoint, "--num_samples=12", "--batch_size=5", bare=True)
    samples = torch.load(folder / "samples" / "samples.pt", weights_only=True)
    assert samples.shape == (12, 1, 8, 8)
    assert samples.min() >= 0
    assert samples.max() <= 1
    assert len(samples.flatten(1).unique(dim=0)) == 12  # twelve different samples
    assert (folder / "samples" / "samples.png").stat().st_size > 0
    run("predict", "--ckpt_path", checkpoint, "--num_samples=12", "--batch_size=5", "--output=again", bare=True)
    assert torch.equal(samples, torch.load("again/samples.pt", weights_only=True))


@pytest.mark.slow
def test_resume_goes_on_in_the_same_folder(run: Run) -> None:
    run = partial(run, "fit", "--model.init_args.lr_scheduler=null")  # the length of a schedule would follow max_epochs
    run("--trainer.max_epochs=2", "--name=a")
    run("--trainer.max_epochs=4", "--ckpt_path=last")
    assert [path.name for path in Path("runs/grbm_digits").iterdir()] == ["a"]
    steps = [int(row["step"]) for row in read_csv(Path("runs/grbm_digits/a/metrics.csv"))]
    assert steps == sorted(set(steps))
    run("--trainer.max_epochs=4", "--name=b")
    a, b = (
        torch.load(f"runs/grbm_digits/{name}/checkpoints/last.ckpt", weights_only=True)["state_dict"] for name in "ab"
    )
    assert all(torch.equal(a[key], b[key]) for key in a)


def test_resume_takes_the_config_of_the_run_and_applies_new_flags(run: Run, brief_run: Path) -> None:
    checkpoint = "runs/grbm_digits/a/checkpoints/last.ckpt"
    run("fit", "--ckpt_path", checkpoint, "--trainer.max_epochs=2", "--model.sampler.step_size=0.01", bare=True)
    assert ContrastiveDivergence.load_from_checkpoint(checkpoint).sampler.step_size.item() == pytest.approx(0.01)
    rows = read_csv(Path("runs/grbm_digits/a/metrics.csv"))
    variance = float(rows[-2]["sampler/step_size"] or rows[-1]["sampler/step_size"]) / 0.01
    assert 0.1 < variance < 3  # the logged step size is 0.01 times the mean variance
    config = yaml.safe_load(Path("runs/grbm_digits/a/config.yaml").read_text())
    assert "ckpt_path" not in config


@pytest.mark.slow
def test_a_copied_checkpoint_is_continued_in_a_new_run(run: Run) -> None:
    run("fit", "--trainer.max_epochs=1", "--name=a", "--model.init_args.lr_scheduler=null")
    Path("copies").mkdir()
    shutil.copy("runs/grbm_digits/a/checkpoints/last.ckpt", "copies/a.ckpt")
    shutil.copy("runs/grbm_digits/a/config.yaml", "copies/config.yaml")
    kept = Path("copies/config.yaml").read_text()
    run("fit", "--ckpt_path=copies/a.ckpt", "--trainer.max_epochs=2", "--name=b")
    assert sorted(path.name for path in Path("copies").iterdir()) == ["a.ckpt", "config.yaml"]
    assert Path("copies/config.yaml").read_text() == kept
    assert torch.load("runs/grbm_digits/b/checkpoints/last.ckpt", weights_only=True)["epoch"] == 1


def test_a_run_that_goes_on_keeps_its_name(
    run: Run, brief_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = tmp_path / "runs/grbm_digits/a/checkpoints/last.ckpt"
    assert continued_run(checkpoint, ["fit", "--name", "a"]) == Path("runs/grbm_digits/a")
    assert continued_run(checkpoint, ["fit"]) == Path("runs/grbm_digits/a")
    with pytest.raises(SystemExit, match="2"):
        run("fit", "--ckpt_path", checkpoint, "--name=b")
    assert "--name b: runs/grbm_digits/a/checkpoints/last.ckpt is in the folder of the run a" in capsys.readouterr().err
    assert not Path("runs/grbm_digits/b").exists()


@pytest.mark.parametrize(("folder", "name"), [("runs/e/a", "a"), ("runs/e/a/test", "a/test"), ("test", "here/test")])
def test_names_of_runs_at_wandb(folder: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A W&B run is named after its folder, also if the checkpoint lies in the working directory."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    loggers = make_loggers(Path(folder), "e", "offline", "project", folder.endswith("test"))
    assert loggers[1]._name == name  # type: ignore[attr-defined]


@pytest.mark.slow
def test_evaluations_of_two_checkpoints_stand_side_by_side(run: Run, brief_run: Path) -> None:
    last, early = Path("runs/grbm_digits/a/checkpoints/last.ckpt"), Path("runs/grbm_digits/a/checkpoints/early.ckpt")
    shutil.copy(last, early)
    grid = "--callbacks.SampleGrid.every_n_epochs=1"
    run("fit", "--trainer.max_epochs=2", "--ckpt_path=last", "--model.init_args.lr_scheduler=null", grid)
    for checkpoint in (last, early, last):
        run("test", "--ckpt_path", checkpoint, bare=True)
    steps = [torch.load(path, weights_only=True)["global_step"] for path in (early, last)]
    rows = read_csv(Path("runs/grbm_digits/a/test/metrics.csv"))
    assert sorted(int(row["step"]) for row in rows) == steps
    assert len({row["test/energy"] for row in rows}) == 2
    pictures = sorted(path.name for path in Path("runs/grbm_digits/a/test/images").glob("samples-grid_*.png"))
    assert pictures == [f"samples-grid_step{step:07d}.png" for step in steps]


@pytest.mark.slow
def test_predict_with_another_sampler(run: Run) -> None:
    run("fit", "--trainer.max_epochs=1", "--name=a")
    checkpoint = "runs/grbm_digits/a/checkpoints/last.ckpt"
    for sampler in ("GibbsLangevin", "BlockGibbs"):
        options = ["--model.sampler", f"ebmlab.samplers.{sampler}", "--num_samples=4", f"--output={sampler}"]
        run("predict", "--ckpt_path", checkpoint, *options, bare=True)
    a, b = (torch.load(f"{name}/samples.pt", weights_only=True) for name in ("GibbsLangevin", "BlockGibbs"))
    assert not torch.equal(a, b)


@pytest.mark.slow
def test_a_logger_from_a_config_is_added_to_the_default_ones(run: Run) -> None:
    Path("logger.yaml").write_text(
        "trainer:\n  logger:\n    class_path: pytorch_lightning.loggers.CSVLogger\n    init_args: {save_dir: mine}\n"
    )
    run("fit", "--config=logger.yaml", "--trainer.max_epochs=1", "--name=a")
    for file in ("config.yaml", "metrics.csv", "checkpoints/last.ckpt"):
        assert Path("runs/grbm_digits/a", file).exists()
    assert list(Path("mine").rglob("metrics.csv"))


def test_list_names_every_component_once(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    from ebmlab.app.cli import main

    main(["list"])
    lines = capsys.readouterr().out.splitlines()
    for name, domains in (("ebmlab.energies.GRBM", "[Real]"), ("ebmlab.samplers.GibbsLangevin", "[Real]")):
        (line,) = [line for line in lines if line.split()[:1] == [name]]
        assert domains in line
    assert any("callbacks.FID" in line for line in lines)
    assert any("datamodules.CelebA" in line for line in lines)


def test_wandb_gets_config_commit_tags_notes_and_the_best_value(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, object] = {}
    original = wandb.init

    def spy(**kwargs: object) -> object:
        seen["init"] = kwargs
        seen["run"] = original(**kwargs)
        return seen["run"]

    monkeypatch.setattr(wandb, "init", spy)
    monkeypatch.setenv("WANDB_TAGS", "first,small")
    monkeypatch.setenv("WANDB_NOTES", "a trial")
    monitor = ["--callbacks.ModelCheckpoint.monitor=val/energy", "--trainer.check_val_every_n_epoch=1"]
    run("fit", "--trainer.max_epochs=3", "--wandb=offline", "--name=w", *monitor)
    assert seen["run"].offline  # type: ignore[attr-defined]
    assert seen["run"].tags == ("first", "small") and seen["run"].notes == "a trial"  # type: ignore[attr-defined]
    rows = csv.DictReader(Path("runs/grbm_digits/w/metrics.csv").read_text().splitlines())
    best = min(float(row["val/energy"]) for row in rows if row["val/energy"])
    assert dict(seen["run"].summary["val/energy"]) == {"min": pytest.approx(best)}  # type: ignore[attr-defined]
    config = dict(seen["run"].config)  # type: ignore[attr-defined]
    assert config["model"]["init_args"]["num_steps"] == 2
    assert "git_commit" in config
    assert Path("runs/grbm_digits/w/wandb/id").read_text() == seen["run"].id  # type: ignore[attr-defined]
    wandb.finish()  # a background process writes the file
    deadline = time.monotonic() + 100
    while not list(Path("runs/grbm_digits/w/wandb").glob("offline-run-*/*.wandb")):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def written(folder: Path) -> dict[Path, int]:
    """When each file was written, but for the logs that W&B's background process may write later."""
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.suffix != ".log"}


@pytest.mark.slow
def test_a_finished_run_that_is_repeated_stays_as_it_is(run: Run, capfd: pytest.CaptureFixture[str]) -> None:
    """W&B, too, which is told nothing new; a run that lacks its last evaluation tells what it catches up on."""
    folder = Path("runs/grbm_digits/w")
    evaluations = ("--callbacks.FID=false", "--callbacks.SampleGrid.every_n_epochs=1")
    words = ("fit", "--trainer.max_epochs=1", "--name=w", "--resume=auto", *evaluations)
    run(*words, "--wandb=offline")
    wandb.finish()
    before = written(folder)
    for _ in range(2):
        run(*words, "--wandb=offline")
        assert "finished at step" in capfd.readouterr().out
    assert written(folder) == before
    last = torch.load(folder / "checkpoints" / "last.ckpt", weights_only=True)
    for state in last["callbacks"].values():
        if "last_step" in state:
            state["last_step"] -= 1  # as if it had been killed then
    torch.save(last, folder / "checkpoints" / "last.ckpt")
    run(*words, "--wandb=offline")
    wandb.finish()
    assert len(list((folder / "wandb").glob("offline-run-*"))) == 2
