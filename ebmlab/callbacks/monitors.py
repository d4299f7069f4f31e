"""Keeps what monitors a score from taking an old one for new: `trainer.callback_metrics` hold each until the next."""

from __future__ import annotations

from collections.abc import Callable, Collection

import pytorch_lightning as pl
from pytorch_lightning.callbacks import EarlyStopping, ModelCheckpoint
from torch import Tensor

from ebmlab.errors import UserError

Skip = Callable[[pl.Trainer, Tensor | None], bool]


def skip_where(checkpoint: ModelCheckpoint, skip: Skip) -> None:
    """Makes a `ModelCheckpoint` pass over the current score where `skip` is true of it.

    Lightning by itself takes the first score for the best, whatever it is.

    Example:
        >>> skip_where(ModelCheckpoint(monitor="score"), lambda trainer, score: score is not None and score.isnan())
    """
    ask = checkpoint.check_monitor_top_k

    def check(trainer: pl.Trainer, current: Tensor | None = None) -> bool:
        if not skip(trainer, current):
            return ask(trainer, current)
        checkpoint._last_global_step_saved = trainer.global_step  # so that it still saves its last checkpoint
        return False

    checkpoint.check_monitor_top_k = check  # type: ignore[method-assign]


def watch(trainer: pl.Trainer, names: Collection[str], every: int, stale: Skip, owner: str) -> None:
    """Makes all that monitors scores of these names skip the epochs without an evaluation.

    A `ModelCheckpoint` compares only new scores, and a `ReduceLROnPlateau` looks at every `every`-th epoch.

    Args:
        trainer: whose callbacks and schedules are meant.
        names: of the scores.
        every: epochs from one evaluation to the next.
        stale: whether the score is that of earlier weights.
        owner: who evaluates, for errors.

    Raises:
        UserError: `EarlyStopping` monitors a score that is not evaluated in every epoch; its patience counts epochs.

    Example:
        >>> watch(pl.Trainer(logger=False, enable_checkpointing=False), ["score"], 5, lambda *_: False, "Score")
    """
    for callback in trainer.callbacks:  # type: ignore[attr-defined]
        name = getattr(callback, "monitor", None)
        if name not in names:
            continue
        if isinstance(callback, EarlyStopping) and every > 1:
            raise UserError(
                f"EarlyStopping monitors {name}, which {owner} evaluates once in {every} epochs, while its patience "
                f"counts epochs: set every_n_epochs of {owner} to 1"
            )
        if isinstance(callback, ModelCheckpoint):
            skip_where(callback, stale)
    for config in trainer.lr_scheduler_configs:
        if config.reduce_on_plateau and config.monitor in names and config.interval == "epoch":
            config.frequency = every * -(-config.frequency // every)
