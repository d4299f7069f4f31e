from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers_pages import FEW_PICTURES

from ebmlab.app.cli import main

ROOT = Path(__file__).parents[2]
SMALL = [
    "--trainer.accelerator=cpu",
    "--trainer.enable_model_summary=false",
    "--trainer.log_every_n_steps=1",
    "--wandb=disabled",
]
# Few steps, large batches and few pictures, for speed.
QUICK = ["--model.init_args.num_steps=2", "--data.init_args.batch_size=300", "--callbacks.ParameterImages=false"]

SHORT_STUDY = [
    *("--num_steps=6", "--num_chains=4", "--burn_in=1", "--record_every=1"),
    *("--wandb=disabled", "--accelerator=cpu"),
]


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache of FID's classifiers for all tests."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def run(tmp_path: Path, cache: Path, drafts: None, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Runs the command line in an empty working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["ebmlab"])
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("EBMLAB_RUN_FOLDER", "")
    monkeypatch.setenv("EBMLAB_CACHE", str(cache))

    def call(command: str, *args: object, config: str = "grbm_digits", quick: bool = True, bare: bool = False) -> None:
        options = [] if bare else ["--config", str(ROOT / "configs" / f"{config}.yaml"), *(QUICK if quick else [])]
        if quick and not bare and config == "grbm_digits":
            pictures = any("SampleGrid" in str(arg) for arg in args)  # a fifth of the time of a short run
            options += FEW_PICTURES if pictures else ["--callbacks.SampleGrid=false"]
        main([command, *options, *SMALL, *map(str, args)])

    return call


@pytest.fixture(scope="session")
def trained_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where `brief_run` is kept."""
    return tmp_path_factory.mktemp("trained")


@pytest.fixture
def brief_run(run: Callable[..., None], trained_once: Path) -> Path:
    """The folder of a run of one epoch in the working directory. It is trained once for all tests."""
    if not (trained_once / "runs").exists():
        run("fit", "--trainer.max_epochs=1", "--name=a", "--model.init_args.lr_scheduler=null")
        shutil.copytree("runs", trained_once / "runs")
    else:
        shutil.copytree(trained_once / "runs", "runs")
    return Path("runs/grbm_digits/a")


@pytest.fixture
def fails(run: Callable[..., None], capfd: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs the command line, which must end with exit code 2 and one line on stderr; returns that line."""

    def call(*args: object, **kwargs: object) -> str:
        with pytest.raises(SystemExit) as error:
            run(*args, **kwargs)
        assert error.value.code == 2
        lines = [line for line in capfd.readouterr().err.splitlines() if line.startswith("error:")]
        assert len(lines) == 1
        return lines[0]

    return call


@pytest.fixture
def study(tmp_path: Path, drafts: None, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Runs a study in an empty working directory and returns its folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EBMLAB_RUN_FOLDER", "")
    monkeypatch.setenv("EBMLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("sys.argv", ["ebmlab"])
    monkeypatch.setattr("sys.path", list(sys.path))

    def call(config: str | Path, *args: str, name: str = "test") -> Path:
        path = config if isinstance(config, Path) else ROOT / "configs" / "sampling" / f"{config}.yaml"
        main(["sample", "--config", str(path), *SHORT_STUDY, f"--name={name}", *args])
        return Path("runs", path.stem, name)

    return call
