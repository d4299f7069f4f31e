"""Kills at random moments and aimed ones: the run that goes on must end bit-equal to the one that was never killed."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from benchmarks.robust.aims import AIMS, room
from benchmarks.robust.server import HANG, ROOT, SMALL, Outcome, kill, last_line, last_step, start, wait
from ebmlab.io.files import load

QUIET = [option for option in SMALL if "max_epochs" not in option and "limit" not in option]
DEEP = [
    *("--model.energy.channels=4", "--callbacks.EMAWeightAveraging=true"),
    *("--callbacks.SampleGrid.every_n_epochs=1", "--callbacks.SampleGrid.num_samples=4"),
    *("--callbacks.SampleGrid.num_steps=2", "--callbacks.SampleGrid.num_frames=2"),
]
METHODS = {  # config and options that make an epoch a fraction of a second
    "CD": ("ebm_digits_cd", ["--model.num_steps=1", "--trainer.max_steps=-1", *DEEP]),
    "PCD": (
        "grbm_digits",
        [
            *("--model.num_steps=2", "--model.energy.num_hidden=16", "--model.start=ebmlab.learners.ReplayBuffer"),
            *("--model.start.size=800", "--callbacks.FID.num_samples=20", "--callbacks.FID.every_n_epochs=1"),
            *("--callbacks.SampleGrid.every_n_epochs=2", "--callbacks.SampleGrid.num_samples=4"),
        ],
    ),
    "ACS-PCD": (
        "ebm_digits",
        [
            *("--model.num_steps=4", "--model.sampler=ebmlab.learners.PersistentACS", *DEEP),
            *("--model.sampler.cycle_length=4", "--model.sampler.tune_every=1", "--model.sampler.tuning_steps=5"),
            *("--callbacks.AIS.sampler=ebmlab.samplers.GWG", "--callbacks.AIS.num_chains=20"),
            *("--callbacks.AIS.every_n_epochs=1", "--callbacks.AIS.num_temperatures=5"),
        ],
    ),
    "ratio matching": (
        "rm_2spirals",
        [
            *(
                "--data.num_samples=2000",
                "--callbacks.EnergyLandscape=false",
                "--callbacks.HammingMMD.every_n_epochs=2",
            ),
            *("--callbacks.HammingMMD.num_samples=50", "--callbacks.HammingMMD.num_steps=32"),
        ],
    ),
}
LONG = [  # many epochs of few steps
    *(
        "--model.num_steps=1",
        "--model.start.size=800",
        "--trainer.max_epochs=30",
        "--trainer.check_val_every_n_epoch=1",
    ),
    *("--callbacks.AIS=false", "--callbacks.SampleGrid=false"),
]
OFTEN = "--callbacks.ModelCheckpoint"
RESUMED = {  # what Lightning by itself does not resume exactly
    "plateau": [
        "--model.lr_scheduler=pytorch_lightning.cli.ReduceLROnPlateau",
        *("--model.lr_scheduler.monitor=val/energy", "--model.lr_scheduler.patience=0"),
    ],
    "step checkpoints": [
        *(f"{OFTEN}.every_n_epochs=null", f"{OFTEN}.every_n_train_steps=3", f"{OFTEN}.save_on_train_epoch_end=false"),
    ],
    "plain loaders": ["--data=plain_rows.Rows", "--model.energy.num_coordinates=64"],
    "LBFGS": [
        *("--model.optimizer=torch.optim.LBFGS", "--model.optimizer.lr=0.1", "--model.optimizer.max_iter=2"),
        "--model.lr_scheduler=null",
    ],
    "late averages": [
        *("--callbacks.EMAWeightAveraging=true", "--callbacks.EMAWeightAveraging.decay=0.9"),
        "--callbacks.EMAWeightAveraging.update_starting_at_step=15",
    ],
}
PLAIN_ROWS = """
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader, TensorDataset


class Rows(pl.LightningDataModule):
    def __init__(self, batch_size: int = 100) -> None:
        super().__init__()
        self.batch_size = batch_size
        self.rows = (torch.rand(1200, 64, generator=torch.Generator().manual_seed(5)) < 0.3).float()

    def train_dataloader(self):
        return DataLoader(TensorDataset(self.rows), self.batch_size, shuffle=True)

    def val_dataloader(self):
        return DataLoader(TensorDataset(self.rows[:100]), self.batch_size)
"""
DDP = ["--trainer.devices=2", "--trainer.strategy=ddp"]
EPOCHS, KILLS, MORE = 6, 4, 6
SAVED = ("global_step", "epoch", "state_dict", "optimizer_states", "lr_schedulers", "run_state", "replay_buffer")


@dataclass
class Job:
    """A short run, the whole of it in `folder`/runs/<config>/whole, which others are compared with."""

    config: str
    options: list[str]
    folder: Path
    seconds: float = 0.0

    def args(self, name: str) -> list[str]:
        config = str(ROOT / "configs" / f"{self.config}.yaml")
        common = [f"--trainer.max_epochs={EPOCHS}", "--data.batch_size=400", "--resume=auto", f"--name={name}"]
        return ["fit", "--config", config, *QUIET, *common, *self.options]

    def finish(self, name: str) -> str | None:
        """Starts or continues a run until it ends; what is wrong with its end."""
        begin = time.monotonic()
        code = wait(start(self.args(name), self.folder))
        self.seconds = time.monotonic() - begin
        return None if code == 0 else f"exit code {code}: {last_line(self.folder)}"

    def run(self, name: str) -> Path:
        return self.folder / "runs" / self.config / name


def kills(seed: int = 0) -> dict[str, Callable[[], Outcome]]:
    """Random kills of each method and of each kind of resumption, on one and two processes, and one at each aim.

    There are four for each method and six for each kind, 92 in all, by name. Each falls into a step of its own.
    """
    attempts: dict[str, Callable[[], Outcome]] = {}
    methods = [(name, config, options, KILLS) for name, (config, options) in METHODS.items()]
    methods += [(name, "rbm_digits", [*LONG, *options], MORE) for name, options in RESUMED.items()]
    for method, config, options, number in methods:
        for count, devices in ((1, []), (2, DDP)):
            name = f"{number} random kills, {method}, processes: {count}"
            job = Job(config, [*options, *devices], Path())
            attempts[name] = partial(_at_random, name, job, number, random.Random(f"{seed} {name}"))
    return attempts | {name: partial(_aimed, name, Job(*METHODS["PCD"], Path())) for name in AIMS}


def _at_random(name: str, job: Job, number: int, random_: random.Random) -> Outcome:
    job.folder = Path(tempfile.mkdtemp(prefix="ebmlab-kills-"))
    (job.folder / "plain_rows.py").write_text(PLAIN_ROWS)
    fault, hit = job.finish("whole"), 0
    steps = last_step(job.run("whole")) or number
    for step in sorted(random_.sample(range(steps), number)):
        child = start(job.args("killed"), job.folder)
        hit += _killed_after(step, child, job.run("killed"), random_.uniform(0, 0.3))
    fault = fault or job.finish("killed") or differs(job.run("whole"), job.run("killed"))
    shutil.rmtree(job.folder)
    return Outcome(name, 0, f"{hit} kills hit a running process", fault)


def _killed_after(step: int, child: int, run: Path, seconds: float) -> bool:
    """Kills a run so many seconds after its metrics reach a step; whether it was still running."""
    end = time.monotonic() + HANG
    while (last_step(run) or 0) < step and time.monotonic() < end:
        if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            break
        time.sleep(0.002)
    time.sleep(seconds)
    return kill(child)


def _aimed(name: str, job: Job) -> Outcome:
    aim = AIMS[name]
    with room(aim.on_tmpfs) as folder:
        job.folder = folder
        fault = job.finish("whole")
        child = start(job.args("killed"), folder, aim.spoil)
        code = wait(child)
        if code != aim.code:
            fault = fault or f"exit code {code} where {aim.code} was aimed at: {last_line(folder)}"
        said = last_line(folder)
        if os.path.exists(folder / "ballast"):
            os.remove(folder / "ballast")
        fault = fault or job.finish("killed") or differs(job.run("whole"), job.run("killed"))
    return Outcome(name, code, said, fault)


def differs(whole: Path, killed: Path) -> str | None:
    """What is not bit-equal in the last checkpoints, the scores and the pictures of two runs."""
    one, other = (load(run / "checkpoints" / "last.ckpt") for run in (whole, killed))
    for key in SAVED:
        if not _equal(one.get(key), other.get(key)):
            return f"{key} differs"
    for name in ("metrics.csv", "fid.csv"):
        texts = [(run / name).read_text() if (run / name).exists() else "" for run in (whole, killed)]
        if texts[0] != texts[1]:
            return f"{name} differs"
    pictures = [{p.name: p.read_bytes() for p in (run / "images").glob("*.png")} for run in (whole, killed)]
    return None if pictures[0] == pictures[1] else "pictures differ"


def _equal(a: object, b: object) -> bool:
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_equal(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(_equal, a, b))
    return a == b
