"""Shorter chains until most of the training is over."""

from __future__ import annotations

import math
from typing import Any

import pytorch_lightning as pl

from ebmlab.callbacks.requirements import learner_of, training_steps, warn_of_new_length
from ebmlab.errors import UserError
from ebmlab.learners import ContrastiveDivergence


class ShortChains(pl.Callback):
    """Contrastive divergence with shorter negative chains, until a share of the training has passed.

    Short chains learn most of what there is to learn in less time, and the learner's own `num_steps` mend at the end
    what they leave undone. As many of a chain's last states are negatives as the learner's `burn_in` leaves of its
    `num_steps`, or all of them if there are fewer. Samples for pictures and scores have the length of the config. A
    rollback of `DivergenceGuard` that lengthens the learner's chains lengthens the short ones as much. A run that is
    resumed to another length has short chains for the share of that length, with a warning.

    Args:
        num_steps: steps of the short chains; at most the learner's.
        until: share of the training that has them, from 0 to 1.

    Raises:
        UserError: the learner's chains are shorter, it has none, or training has no end.

    Example:
        >>> from ebmlab.datamodules import Digits
        >>> from ebmlab.energies import RBM
        >>> from ebmlab.samplers import BlockGibbs
        >>> quiet = ("logger", "enable_progress_bar", "enable_checkpointing", "enable_model_summary")
        >>> settings = {"max_steps": 4, "log_every_n_steps": 1, "callbacks": [ShortChains(num_steps=1, until=0.75)]}
        >>> trainer = pl.Trainer(**settings, **dict.fromkeys(quiet, False))
        >>> learner = ContrastiveDivergence(RBM(64, 8), BlockGibbs(), num_steps=10)  # CD-1 three times, then CD-10
        >>> trainer.fit(learner, Digits(binarize=True))
        >>> learner.num_steps
        10
    """

    def __init__(self, num_steps: int = 1, until: float = 0.75) -> None:
        if num_steps < 1:
            raise UserError(f"ShortChains: num_steps is {num_steps}, but a chain must take at least 1 step")
        if not 0 <= until <= 1:
            raise UserError(f"ShortChains: until is {until}, but must be a share of the training, from 0 to 1")
        self.num_steps = num_steps
        self.until = until
        self._total = 0
        self._full = 0  # the learner's num_steps before any rollback of `DivergenceGuard`

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        learner = learner_of(pl_module, self)
        if not isinstance(learner, ContrastiveDivergence):
            raise UserError(
                f"ShortChains: {type(learner).__name__} has no negative chains: take ContrastiveDivergence, or leave "
                "it out"
            )
        if learner.num_steps < self.num_steps:
            raise UserError(
                f"ShortChains: num_steps is {self.num_steps}, but must be at most the learner's, {learner.num_steps}"
            )
        self._full = learner.num_steps

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        before, self._total = self._total, training_steps(trainer, self)
        if trainer.ckpt_path is not None:
            warn_of_new_length(self, before, self._total)

    def on_train_batch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: Any) -> None:
        assert isinstance(pl_module, ContrastiveDivergence)
        short = math.ceil(self.num_steps * pl_module.num_steps / self._full)
        pl_module.chain_steps = short if trainer.global_step < self.until * self._total else None

    def state_dict(self) -> dict[str, Any]:
        return {"total": self._total}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._total = state_dict["total"]

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        self.teardown(trainer, pl_module, "fit")

    def teardown(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        pl_module.chain_steps = None  # type: ignore[assignment]
