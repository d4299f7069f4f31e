"""The scores of validation, and the weights that they belong to."""

from __future__ import annotations

from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.trainer.states import TrainerFn
from torch import Tensor


class Scores:
    """Makes every `ModelCheckpoint` give a score of validation to the weights that were validated, and to no others.

    Lightning takes the last score for that of the present weights. Where its period (`every_n_train_steps`, say) ends
    and the weights have not been validated, the next validation counts in its place.
    """

    def __init__(self) -> None:
        self._scores: dict[str, tuple[float, int]] = {}  # the last value, and the step of its weights
        self._owed: set[str] = set()  # checkpoints for which the next validation counts

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"scores": {name: list(score) for name, score in self._scores.items()}, "owed": sorted(self._owed)}

    def load(self, state: dict[str, Any]) -> None:
        """Takes what `state` has returned."""
        self._scores = {name: (value, step) for name, (value, step) in state.get("scores", {}).items()}
        self._owed = set(state.get("owed", ()))

    def note(self, trainer: pl.Trainer) -> None:
        """Validation is over: its scores are those of the present weights."""
        if trainer.state.fn == TrainerFn.FITTING and not trainer.sanity_checking:
            found = trainer._logger_connector.metrics["callback"]
            self._scores |= {name: (float(value), trainer.global_step) for name, value in found.items()}

    def publish(self, trainer: pl.Trainer) -> None:
        """Makes the scores known to a resumed run, as they were to the one that wrote the checkpoint."""
        for name, (value, _) in self._scores.items():
            trainer.callback_metrics[name] = torch.tensor(value)

    def guard(self, checkpoint: ModelCheckpoint) -> None:
        """Makes a checkpoint pass over scores of other weights than the present ones."""
        ask, validated = checkpoint.check_monitor_top_k, checkpoint.on_validation_end
        name, key = str(checkpoint.monitor), checkpoint.state_key

        def check(trainer: pl.Trainer, current: Tensor | None = None) -> bool:
            if name in self._scores and self._scores[name][1] != trainer.global_step:
                self._owed.add(key)
                checkpoint._last_global_step_saved = trainer.global_step  # so that it still saves its last checkpoint
                return False
            self._owed.discard(key)
            return ask(trainer, current)

        def on_validation_end(trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
            validated(trainer, pl_module)
            if key in self._owed and trainer.state.fn == TrainerFn.FITTING and not trainer.sanity_checking:
                checkpoint._save_topk_checkpoint(trainer, checkpoint._monitor_candidates(trainer))

        if checkpoint.monitor is not None:
            checkpoint.check_monitor_top_k = check  # type: ignore[method-assign]
            checkpoint.on_validation_end = on_validation_end  # type: ignore[method-assign]
