"""The base class of evaluations that draw samples: how many, and by chains of what length."""

from __future__ import annotations

import pytorch_lightning as pl
import torch

from ebmlab.callbacks.periodic import PeriodicEvaluation
from ebmlab.callbacks.requirements import learner_of
from ebmlab.learners import Learner
from ebmlab.settings import require_count


class SampleEvaluation(PeriodicEvaluation):
    """A periodic evaluation of samples, which are the last states of new chains from noise.

    Args:
        num_samples: number of chains, over all ranks.
        num_steps: steps of each chain; default as in training.
        every_n_epochs: see `PeriodicEvaluation`.
        at_start: see `PeriodicEvaluation`.
        seed: see `PeriodicEvaluation`.
        batch_size: chains that run at once.

    Attributes:
        least: the smallest number of samples that can be evaluated.
    """

    least = 1

    def __init__(
        self,
        num_samples: int,
        num_steps: int | None,
        every_n_epochs: int,
        at_start: bool,
        seed: int,
        batch_size: int = 1,
    ) -> None:
        super().__init__(every_n_epochs, at_start, seed=seed)
        owner = type(self).__name__
        require_count(owner, num_steps=1 if num_steps is None else num_steps, batch_size=batch_size)
        require_count(owner, least=self.least, num_samples=num_samples)
        self.num_samples = num_samples
        self.num_steps = num_steps
        self.batch_size = batch_size

    def check(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        learner_of(pl_module, self)

    def size(self, trainer: pl.Trainer, learner: Learner) -> tuple[int, int]:
        """The number of chains and of their steps; both are small under `fast_dev_run`."""
        num_steps = learner.num_steps if self.num_steps is None else self.num_steps
        return self.limit(trainer, self.num_samples, num_steps)


def metric_device(learner: Learner) -> torch.device:
    """The learner's device, or the CPU in place of MPS, which has no float64."""
    return torch.device("cpu") if learner.device.type == "mps" else learner.device
