"""Every failure is reported in one line that says what to mend."""

from __future__ import annotations

import errno
import gc
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import wandb
from helpers_tier import cases

from ebmlab.app.failures import is_own, loading
from ebmlab.app.wandb_run import WandbRun, wandb_run
from ebmlab.errors import UserError

Fails = Callable[..., str]
MINE = """
import torch
from ebmlab.domains import Real
from ebmlab.energies import Energy

class Mine(Energy):
    def __init__(self, size: int = 64, wrong: str = "never"):
        super().__init__()
        if wrong == "init":
            raise KeyError("no such table")
        self.wrong = wrong
        self.domain = Real(size)
        self.scale = torch.nn.Parameter(torch.ones(()))

    def forward(self, x):
        if self.wrong == "shape":
            return self.scale * x.square().sum(1, keepdim=True)
        return self.scale * x @ torch.ones(7)
"""


def full(*args: Any, **kwargs: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device", "somewhere/last.ckpt")


@cases(
    "where",
    ["ebmlab.app.checkpoints.save", "ebmlab.app.loggers.MetricsCSV.flush", "ebmlab.callbacks.image_log.write_whole"],
    fast=[0],
)
def test_a_full_disk(where: str, fails: Fails, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a checkpoint, a row of metrics (and again on finalising) or a picture is written."""
    monkeypatch.setattr(where, full)
    fit = ("fit", "--trainer.max_epochs=2", "--name=a", "--callbacks.SampleGrid.every_n_epochs=1")
    assert fails(*fit) == "error: somewhere/last.ckpt: No space left on device"


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
def test_a_folder_that_is_read_only(fails: Fails) -> None:
    Path("runs").mkdir(mode=0o500)
    assert "runs/grbm_digits: Permission denied" in fails("fit", "--name=a")


def test_runs_is_a_file(fails: Fails) -> None:
    Path("runs").touch()
    assert re.search("runs.*(File exists|Not a directory)", fails("fit", "--name=a"))


@pytest.mark.parametrize(
    ("wrong", "line", "what"), [("init", 10, "KeyError: 'no such table'"), ("size", 18, "RuntimeError")]
)
def test_errors_in_the_users_own_class_name_its_line(wrong: str, line: int, what: str, fails: Fails) -> None:
    Path("own_energy.py").write_text(MINE)
    Path("own_energy.yaml").write_text(
        "model: {class_path: ebmlab.learners.ContrastiveDivergence, init_args: {start: ebmlab.learners.FromNoise, "
        f"energy: {{class_path: own_energy.Mine, init_args: {{wrong: {wrong}}}}}, num_steps: 1, "
        "sampler: {class_path: ebmlab.samplers.Langevin, init_args: {step_size: 0.1}}}}\n"
        "data: {class_path: datamodules.Digits}\ntrainer: {max_epochs: 1}"
    )
    said = fails("fit", "--config=own_energy.yaml", bare=True)
    assert f"own_energy.py, line {line}: {what}" in said and said.endswith("(--debug shows the traceback)")


def test_modules_are_loaded_without_a_search_for_garbage() -> None:
    """Afterwards it is searched for as before, also where a module is missing, and not where that was off."""
    with loading():
        assert not gc.isenabled()
        with loading():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(UserError), loading():
        raise ImportError("no module")
    assert gc.isenabled()


def test_packages_of_another_environment_are_not_the_users() -> None:
    for folder in ("/usr/lib/python3/dist-packages", "/venv/lib/python3.11/site-packages"):
        assert not is_own(f"{folder}/omegaconf/_utils.py")
    assert is_own("/home/me/project/model.py")


def test_debug_shows_the_traceback(run: Callable[..., None], capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run("fit", "--debug", "--model.init_args.num_steps=0")
    said = capfd.readouterr().err
    assert "Traceback" in said and said.splitlines()[-1].startswith("error: ContrastiveDivergence: num_steps is 0")


def test_wandb_that_dies_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logger = WandbRun(offline=True, save_dir=tmp_path)
    calls = []

    class Dead:
        def log(self, *args: object) -> None:
            calls.append(1)
            raise ConnectionResetError("gone")

        def define_metric(self, *args: object, **kwargs: object) -> None: ...

    dead = Dead()
    monkeypatch.setattr(WandbRun, "experiment", property(lambda self: dead))
    with pytest.warns(UserWarning, match=r"W&B failed \(ConnectionResetError: gone\)"):
        logger.log_metrics({"a": 1.0}, 1)
    logger.log_metrics({"a": 1.0}, 2)
    logger.finalize("success")
    assert calls == [1]


@pytest.mark.parametrize("mode", ["offline", "disabled", "nonsense"])
def test_wandb_environment(mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NAME", "PROJECT", "RUN_GROUP"):
        monkeypatch.setenv(f"WANDB_{name}", f"my {name}")
    monkeypatch.setenv("WANDB_MODE", mode)
    if mode == "nonsense":
        with pytest.raises(UserError, match="WANDB_MODE is 'nonsense'"):
            wandb_run(tmp_path, "e", None, None, False)
        return
    found = wandb_run(tmp_path, "e", None, None, False)
    if mode == "disabled":
        assert found is None
        assert wandb_run(tmp_path, "e", "offline", None, False) is not None  # the flag overrides the environment
        return
    assert found is not None
    init = found._wandb_init
    assert (init["name"], init["project"], init["group"]) == ("my NAME", "my PROJECT", "my RUN_GROUP")
    assert wandb.run is None
