"""Time outside of the mathematics: the Trainer's overhead, and the start of the command line."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from functools import partial
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.loggers import CSVLogger
from torch import Tensor

from benchmarks.cases.rbm import QUIET, Bits, in_trainer, pcd, training
from benchmarks.cases.targets import VISIBLE, rbm
from benchmarks.harness import Contestant, Race, race
from ebmlab.callbacks import TrajectoryLikelihood
from ebmlab.energies import RBM
from ebmlab.learners import ContrastiveDivergence, FromData
from ebmlab.samplers import BlockGibbs

UNITS, BATCH, UPDATES = 16, 10, 300
PCD_UPDATES = 500
SGD = partial(torch.optim.SGD, lr=0.01)


class Silent(pl.LightningModule):
    """A module with the learner's loss and optimizer that logs nothing."""

    def __init__(self, learner: ContrastiveDivergence) -> None:
        super().__init__()
        learner.log = learner.log_dict = lambda *_, **__: None  # type: ignore[method-assign,assignment]
        self.learner = learner

    def training_step(self, batch: Tensor, batch_idx: int) -> Tensor:
        return self.learner.training_step(batch, batch_idx)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return SGD(self.parameters())


@race("trainer")
def overhead() -> Race:
    """Time of a training step in the Trainer minus that of the same step in a plain loop."""
    data = Bits(UNITS, BATCH * UPDATES, BATCH)

    def learner() -> ContrastiveDivergence:
        return ContrastiveDivergence(RBM(UNITS, UNITS), BlockGibbs(), start=FromData(), optimizer=SGD)

    def less_bare(fitting: Contestant) -> Contestant:
        batches = data.data.float().split(BATCH)
        bare = training(RBM(UNITS, UNITS), BlockGibbs(), batches, start=FromData(), optimizer=SGD)

        def run() -> float:
            start = time.perf_counter()
            fitting.run()
            between = time.perf_counter()
            bare.run()
            return (between - start) - (time.perf_counter() - between)

        return Contestant(run, own_clock=True)

    return Race(
        "Overhead of a step in the Trainer, tiny RBM",
        UPDATES,
        {
            "ebmlab": lambda: less_bare(in_trainer(learner(), data)),
            "Lightning, logging nothing": lambda: less_bare(in_trainer(Silent(learner()), data)),
        },
    )


class Clock(pl.Callback):
    """Seconds from the first training batch, after all other callbacks' preparations, to the end of the last."""

    def on_train_batch_start(self, trainer: pl.Trainer, *_: Any) -> None:
        if trainer.global_step == 0:
            self.begin = time.perf_counter()

    def on_train_batch_end(self, *_: Any) -> None:
        self.seconds = time.perf_counter() - self.begin


@race("trajectory")
def trajectory() -> Race:
    """A training step of PCD-10 in the Trainer, RBM 784-500, batch 100, and what following the likelihood adds."""
    data = Bits(VISIBLE, 100 * PCD_UPDATES, 100)

    class Timed(TrajectoryLikelihood):
        seconds = 0.0

        def _log(self, *args: Any) -> None:
            begin = time.perf_counter()
            super()._log(*args)
            self.seconds += time.perf_counter() - begin

    def fitting(make: type[Clock | Timed]) -> Contestant:
        def run() -> float:
            learner, clock = ContrastiveDivergence(rbm(), BlockGibbs(), **pcd(100, 10)), make()
            with tempfile.TemporaryDirectory() as folder:
                logger = CSVLogger(folder)
                trainer = pl.Trainer(max_epochs=1, logger=logger, limit_val_batches=0, callbacks=[clock], **QUIET)
                trainer.fit(learner, datamodule=data)
            return clock.seconds

        return Contestant(run, own_clock=True)

    return Race(
        "A step of PCD-10 in the Trainer, RBM 784-500, batch 100",
        PCD_UPDATES,
        {
            "ebmlab": lambda: fitting(Clock),
            "ebmlab, TrajectoryLikelihood alone": lambda: fitting(Timed),
        },
    )


def command(*arguments: str) -> Contestant:
    return Contestant(lambda: subprocess.run([sys.executable, *arguments], check=False, capture_output=True))


@race("start", "help", "version", "misspelt")
def start(what: str) -> Race:
    words = {"help": "--help", "version": "--version", "misspelt": "fti"}
    return Race(
        f"`python -m ebmlab {words[what]}`, whole process",
        1,
        {
            "ebmlab": lambda: command("-m", "ebmlab", words[what]),
            "import torch": lambda: command("-c", "import torch"),
            "import pytorch_lightning": lambda: command("-c", "import pytorch_lightning"),
        },
        unit="s",
    )
