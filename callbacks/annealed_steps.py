"""Smaller sampling steps as training goes on."""

from __future__ import annotations

import math
from typing import Any

import pytorch_lightning as pl
from torch import Tensor

from ebmlab.callbacks.requirements import learner_of, training_steps, warn_of_new_length
from ebmlab.errors import UserError
from ebmlab.learners import ContrastiveDivergence
from ebmlab.learners.changes_with_training import ChangesWithTraining


class AnnealedSteps(pl.Callback):
    """Lets the step size of the negative chains fall on a cosine over training (Liao et al. 2022, Table 3).

    In training step t of T the sampler's `step_size` is multiplied by end + (1 - end) (1 + cos(pi t / T)) / 2. Samples
    for pictures and scores are drawn with the step size of the config. A run that is resumed to another length follows
    the cosine over that length, with a warning.

    Args:
        end: the factor that the last steps come near; 0 in the paper.

    Raises:
        UserError: the learner has no negative chains, the sampler has no step size or changes its own, or training has
            no end.

    Example:
        >>> from ebmlab.datamodules import Digits
        >>> from ebmlab.energies import GRBM
        >>> from ebmlab.learners import ContrastiveDivergence
        >>> from ebmlab.samplers import GibbsLangevin
        >>> quiet = ("logger", "enable_progress_bar", "enable_checkpointing", "enable_model_summary")
        >>> settings = {"max_steps": 2, "log_every_n_steps": 1, "callbacks": [AnnealedSteps()]}
        >>> trainer = pl.Trainer(**settings, **dict.fromkeys(quiet, False))
        >>> learner = ContrastiveDivergence(GRBM(64, 8), GibbsLangevin(step_size=0.1))
        >>> trainer.fit(learner, Digits())
        >>> learner.sampler.step_size
        tensor(0.1000)
    """

    def __init__(self, end: float = 0.0) -> None:
        if not 0 <= end <= 1:
            raise UserError(f"AnnealedSteps: end is {end}, but must be a factor from 0 to 1")
        self.end = end
        self._total = 0

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        learner = learner_of(pl_module, self)
        if not isinstance(learner, ContrastiveDivergence):
            raise UserError(
                f"AnnealedSteps: {type(learner).__name__} has no negative chains: take ContrastiveDivergence, or leave "
                "it out"
            )
        sampler, name = learner.sampler, type(learner.sampler).__name__
        if isinstance(sampler, ChangesWithTraining):
            raise UserError(f"AnnealedSteps: {name} chooses its own step size in training: remove one of the two")
        if not isinstance(getattr(sampler, "step_size", None), Tensor):
            raise UserError(f"AnnealedSteps: {name} has no step_size: remove one of the two, or take DMALA")

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        before, self._total = self._total, training_steps(trainer, self)
        if trainer.ckpt_path is not None:
            warn_of_new_length(self, before, self._total)

    def on_train_batch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: Any) -> None:
        assert isinstance(pl_module, ContrastiveDivergence)
        fallen = (1 + math.cos(math.pi * trainer.global_step / self._total)) / 2
        pl_module.step_factor = self.end + (1 - self.end) * fallen

    def state_dict(self) -> dict[str, Any]:
        return {"total": self._total}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._total = state_dict["total"]

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        self.teardown(trainer, pl_module, "fit")

    def teardown(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        pl_module.step_factor = 1.0  # type: ignore[assignment]
