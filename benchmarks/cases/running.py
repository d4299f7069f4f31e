"""Time outside of the mathematics: the Trainer's overhead, and the start of the command line."""

from __future__ import annotations

import subprocess
import sys
import time
from functools import partial

import pytorch_lightning as pl
import torch
from torch import Tensor

from benchmarks.cases.rbm import Bits, in_trainer, training
from benchmarks.harness import Contestant, Race, race
from ebmlab.energies import RBM
from ebmlab.learners import ContrastiveDivergence, FromData
from ebmlab.samplers import BlockGibbs

UNITS, BATCH, UPDATES = 16, 10, 300
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
        return ContrastiveDivergence(RBM(UNITS, UNITS), BlockGibbs(), FromData(), optimizer=SGD)

    def less_bare(fitting: Contestant) -> Contestant:
        batches = data.data.float().split(BATCH)
        bare = training(RBM(UNITS, UNITS), BlockGibbs(), batches, chains=FromData(), optimizer=SGD)

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
