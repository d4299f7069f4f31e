"""Longer chains as training goes on."""

from __future__ import annotations

import math
from typing import Any

import pytorch_lightning as pl

from ebmlab.callbacks.requirements import learner_of
from ebmlab.errors import UserError
from ebmlab.learners import ContrastiveDivergence


class GrowingChains(pl.Callback):
    """Lets the negative chains of contrastive divergence grow from `start` steps to the learner's `num_steps`.

    Short chains learn the coarse features in less time; what they leave undone, long ones mend. In training step t of T
    a chain takes start + t (num_steps + 1 - start) / T steps, rounded down, so that each number has an equal share of
    the training. As many of its last states are negatives as the learner's `burn_in` leaves of `num_steps`, or all of
    them if there are fewer. Samples for pictures and scores have the length of the config.

    Args:
        start: steps at first; at most the learner's `num_steps`.

    Raises:
        UserError: the learner's chains are shorter, it has none, or training has no end.

    Example:
        >>> from ebmlab.datamodules import Digits
        >>> from ebmlab.energies import RBM
        >>> from ebmlab.samplers import BlockGibbs
        >>> quiet = ("logger", "enable_progress_bar", "enable_checkpointing", "enable_model_summary")
        >>> settings = {"max_steps": 2, "log_every_n_steps": 1, "callbacks": [GrowingChains(start=1)]}
        >>> trainer = pl.Trainer(**settings, **dict.fromkeys(quiet, False))
        >>> learner = ContrastiveDivergence(RBM(64, 8), BlockGibbs(), num_steps=2)  # CD-1, then CD-2
        >>> trainer.fit(learner, Digits(binarize=True))
        >>> learner.num_steps
        2
    """

    def __init__(self, start: int = 1) -> None:
        if start < 1:
            raise UserError(f"GrowingChains: start is {start}, but a chain must take at least 1 step")
        self.start = start
        self._total: float = math.inf

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        learner = learner_of(pl_module, self)
        if not isinstance(learner, ContrastiveDivergence):
            raise UserError(
                f"GrowingChains: {type(learner).__name__} has no negative chains: take ContrastiveDivergence, or leave "
                "it out"
            )
        if learner.num_steps < self.start:
            raise UserError(
                f"GrowingChains: start is {self.start}, but the learner's chains end at num_steps = {learner.num_steps}"
            )

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._total = trainer.estimated_stepping_batches
        if not math.isfinite(self._total):
            raise UserError("GrowingChains: training has no end; set trainer.max_epochs or trainer.max_steps")

    def on_train_batch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: Any) -> None:
        learner: Any = pl_module
        grown = int(trainer.global_step * (learner.num_steps + 1 - self.start) / self._total)
        learner.chain_steps = min(learner.num_steps, self.start + grown)

    def teardown(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        pl_module.chain_steps = None  # type: ignore[assignment]
