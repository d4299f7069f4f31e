"""A run that diverges goes back by itself, and equals, bit for bit, one that was killed on the way."""

from __future__ import annotations

import csv
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from ebmlab.callbacks import checkpoint_rollback
from ebmlab.io.packed_bits import unpacked

ROOT = Path(__file__).parents[2]
SMALL = [
    "--trainer.accelerator=cpu",
    "--trainer.enable_model_summary=false",
    "--trainer.log_every_n_steps=1",
    "--wandb=disabled",
]

Run = Callable[..., None]
UNSTABLE = """
import os
import pytorch_lightning as pl
import torch

class Unstable(pl.Callback):
    '''With bad luck the means are kicked at step 9; once they are large they grow by a tenth in each step.'''

    def __init__(self, luck: float = 0.6, above: float = 2.5):
        self.luck, self.above = luck, above

    def on_train_batch_start(self, trainer, learner, batch, batch_idx):
        means = learner.energy.mu.data
        if trainer.global_step == 9 and torch.rand(()) > self.luck:
            means += 3
        if means.abs().max() > self.above:
            means *= 1.1

    def on_train_epoch_end(self, trainer, learner):
        trainer.logger.log_metrics({"fid/own": trainer.global_step}, step=trainer.global_step)

class Dies(pl.Callback):
    '''Ends the process once, at a step, before or after the first rollback.'''

    def __init__(self, step: int, after: bool):
        self.step, self.after = step, after

    def on_train_batch_start(self, trainer, *_):
        rolled = os.path.exists(os.path.join(trainer.default_root_dir, "rollbacks.csv"))
        if trainer.global_step == self.step and rolled == self.after and not os.path.exists("died"):
            open("died", "w").close()
            raise SystemExit(9)
"""
BASE = [
    "--trainer.max_epochs=8",
    "--trainer.limit_val_batches=0",
    "--callbacks.FID=false",
    "--callbacks.SampleGrid=false",
    "--callbacks.ParameterImages=false",
    "--callbacks.Progress=false",
    "--callbacks.unstable.Unstable=true",
    "--callbacks.DivergenceGuard.on_divergence=rollback",
    "--callbacks.DivergenceGuard.max_gap=50",
    "--model.start=ebmlab.learners.ReplayBuffer",
    "--model.start.size=600",
    "--name=it",
    "--seed_everything=2",  # one in which the run has bad luck once, with kernels in C++ and without
]


@pytest.fixture
def fit(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Path]]:
    """Trains in a folder of its own, where the modules of the test are."""

    def call(folder: str, *options: str) -> Path:
        (tmp_path / folder).mkdir(exist_ok=True)
        monkeypatch.chdir(tmp_path / folder)
        monkeypatch.setenv("EBMLAB_RUN_FOLDER", "")
        Path("unstable.py").write_text(UNSTABLE)
        run("fit", *BASE, *options)
        return Path("runs/grbm_digits/it").absolute()

    return call


def table(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def last(folder: Path) -> dict[str, Any]:
    checkpoint: dict[str, Any] = torch.load(folder / "checkpoints" / "last.ckpt", weights_only=True)
    return checkpoint


def flat(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        value = {k: v for k, v in value.items() if "path" not in str(k)}  # which are absolute
        for key, item in value.items():
            yield from flat(item, f"{name}.{key}" if "ModelCheckpoint" not in name else name)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from flat(item, name)
    else:
        yield name, value.tolist() if isinstance(value, torch.Tensor) else value


def check_equal(one: Path, two: Path) -> None:
    for name in ("metrics.csv", "rollbacks.csv"):
        assert table(one / name) == table(two / name)
    names = ("state_dict", "optimizer_states", "lr_schedulers", "loops", "run_state", "replay_buffer", "global_step")
    for name in (*names, "callbacks"):
        whole, killed = list(flat(last(one)[name])), list(flat(last(two)[name]))
        assert whole == killed, name


def test_a_run_that_drifts_goes_back_to_before_the_drift(fit: Callable[..., Path]) -> None:
    """The drift begins at step 9: the checkpoints of steps 12 and 16 are finite, but not good ones."""
    folder = fit("whole", "--callbacks.DivergenceGuard.num_steps_factor=1.5")
    [row] = table(folder / "rollbacks.csv")
    assert row["to_step"] == "8" and int(row["step"]) > 16 and "have drifted" in row["cause"]
    assert (row["learning_rate_factor"], row["num_steps"]) == ("0.5", "3")
    checkpoint = last(folder)
    assert checkpoint["global_step"] == 32 and len(unpacked(checkpoint["replay_buffer"])) == 600
    assert all(x.isfinite().all() and x.abs().max() < 10 for x in checkpoint["state_dict"].values())
    rows = table(folder / "metrics.csv")
    assert [int(row["step"]) for row in rows] == list(range(33))
    assert [row["fid/own"] for row in rows if row["fid/own"]] == [f"{step}.0" for step in range(4, 33, 4)]
    assert [row["rollback/number"] for row in rows if row["rollback/number"]] == ["1.0"]
    rates = [float(row["train/learning_rate"]) for row in rows[:32]]
    assert rates[8] == pytest.approx(0.005 * (1 + math.cos(math.pi / 4)) / 4)  # half of the cosine at epoch 2 of 8
    names = sorted(path.name for path in (folder / "checkpoints" / "good").iterdir())
    assert names == ["step=20.ckpt", "step=24.ckpt", "step=28.ckpt", "step=32.ckpt"]


@pytest.mark.slow
def test_without_new_random_numbers_the_same_divergence_comes_again(
    fit: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """And a run that comes no further goes back further each time; after the last rollback it ends as ever."""
    monkeypatch.setattr(checkpoint_rollback, "renew", lambda *_: None)
    with pytest.raises(SystemExit) as end:
        fit("mutant", "--callbacks.DivergenceGuard.learning_rate_factor=1")
    assert end.value.code == 2
    [line] = [line for line in capfd.readouterr().err.splitlines() if line.startswith("error:")]
    assert "have drifted" in line and line.endswith("3 rollbacks did not help") and "last.ckpt" in line
    rows = table(Path("runs/grbm_digits/it/rollbacks.csv"))
    assert [row["to_step"] for row in rows] == ["8", "4", "0"]
    assert len({row["step"] for row in rows}) == 1


VARIANTS = {
    "plain": [],
    "averaged": ["--callbacks.EMAWeightAveraging.decay=0.9"],
    "counted in steps": ["--trainer.max_epochs=-1", "--trainer.max_steps=30"],
    "mid-epoch": [
        "--callbacks.ModelCheckpoint_2.every_n_train_steps=3",
        "--callbacks.ModelCheckpoint_2.filename=m{step}",
    ],
}


IN_THE_DRIFT, AFTER_IT = (18, False), (11, True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variant", "kills"),
    [
        ("plain", [IN_THE_DRIFT]),
        ("plain", [(14, True)]),
        ("plain", [(10, True)]),
        *((v, [IN_THE_DRIFT, AFTER_IT]) for v in list(VARIANTS)[1:]),
    ],
)
def test_killed_anywhere_it_resumes_to_the_same_end(
    variant: str, kills: list[tuple[int, bool]], fit: Callable[..., Path]
) -> None:
    """Killed in the drift, with a drifted checkpoint as the last one; and after the rollback, before and after the
    next checkpoint."""
    whole = fit("whole", *VARIANTS[variant])
    assert table(whole / "rollbacks.csv")
    for step, after in kills:
        name = f"killed-{step}-{after}"
        dies = [f"--callbacks.unstable.Dies.step={step}", f"--callbacks.unstable.Dies.after={str(after).lower()}"]
        with pytest.raises(SystemExit) as end:
            fit(name, *dies, *VARIANTS[variant])
        assert end.value.code == 9
        check_equal(whole, fit(name, "--resume=auto", *VARIANTS[variant]))


@pytest.mark.slow
@pytest.mark.parametrize("written", [False, True])
def test_killed_while_it_rolls_back(written: bool, fit: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Before and after the rollback's checkpoint has its name."""
    whole = fit("whole")
    save = checkpoint_rollback.save

    def killed(content: Any, path: Path, sync: bool = False) -> None:
        last = path.name == "last.ckpt"
        if written or not last:
            save(content, path, sync)
        if last:
            raise SystemExit(9)

    with monkeypatch.context() as patch, pytest.raises(SystemExit):
        patch.setattr(checkpoint_rollback, "save", killed)
        fit("killed")
    assert last(whole.parents[3] / "killed/runs/grbm_digits/it")["global_step"] == (8 if written else 20)
    check_equal(whole, fit("killed", "--resume=auto"))


@pytest.mark.slow
def test_a_damaged_good_checkpoint_is_passed_over(fit: Callable[..., Path]) -> None:
    with pytest.raises(SystemExit):
        fit("it", "--callbacks.unstable.Dies.step=18", "--callbacks.unstable.Dies.after=false")
    (Path("runs/grbm_digits/it/checkpoints/good") / "step=8.ckpt").write_bytes(b"damaged")
    with pytest.warns(UserWarning, match="step=8.ckpt cannot be read"):
        folder = fit("it", "--resume=auto", "--callbacks.unstable.Unstable.luck=1")  # no more kicks
    assert [row["to_step"] for row in table(folder / "rollbacks.csv")] == ["4"]


@pytest.mark.slow
def test_what_cannot_be_rolled_back_is_said_before_training(fails: Callable[..., str]) -> None:
    rollback = "--callbacks.DivergenceGuard.on_divergence=rollback"
    assert "needs the callback RunState" in fails("fit", rollback, "--callbacks.RunState=false")
    assert "max_rollbacks is 0" in fails("fit", rollback, "--callbacks.DivergenceGuard.max_rollbacks=0")
    assert "learning_rate_factor 2.0" in fails("fit", rollback, "--callbacks.DivergenceGuard.learning_rate_factor=2")
    assert "rolback" in fails("fit", "--callbacks.DivergenceGuard.on_divergence=rolback")
    steps = [rollback, "--callbacks.DivergenceGuard.num_steps_factor=2"]
    assert "runs no chains in training" in fails("fit", *steps, config="rm_moons", quick=False)


@pytest.mark.slow
def test_two_processes_go_back_together_and_survive_a_kill(tmp_path: Path) -> None:
    """SIGKILL to both between the rollback and the next checkpoint. The kick comes on both, once."""
    once = 'not os.path.exists(os.path.join(trainer.default_root_dir, "rollbacks.csv"))'
    module = UNSTABLE.replace("raise SystemExit(9)", "os.killpg(0, 9)").replace("torch.rand(()) > self.luck", once)
    (tmp_path / "unstable.py").write_text(module)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    environment.pop("EBMLAB_RUN_FOLDER", None)
    settings = [*SMALL, "--model.num_steps=2", "--data.batch_size=150", "--trainer.devices=2", "--trainer.strategy=ddp"]
    command = [sys.executable, "-m", "ebmlab", "fit", "--config", str(ROOT / "configs" / "grbm_digits.yaml"), *settings]

    def fit(name: str, *options: str) -> int:
        given = [*command, *BASE, f"--name={name}", *options]
        return subprocess.run(given, cwd=tmp_path, env=environment, start_new_session=True).returncode

    dies = ["--callbacks.unstable.Dies.step=11", "--callbacks.unstable.Dies.after=true"]
    assert fit("whole") == 0 and fit("killed", *dies) == -9 and fit("killed", "--resume=auto") == 0
    runs = tmp_path / "runs" / "grbm_digits"
    assert table(runs / "whole" / "rollbacks.csv")[0]["to_step"] == "8"
    check_equal(runs / "whole", runs / "killed")
