"""Whether something in a run depends on the values that are logged in training steps."""

from __future__ import annotations

import pytorch_lightning as pl

LOGGED = ("train/", "sampler/")


def monitors_training(trainer: pl.Trainer) -> bool:
    """Whether a callback or the learning rate monitors a value of the training steps."""
    callbacks: list[pl.Callback] = trainer.callbacks  # type: ignore[attr-defined]
    names = [getattr(callback, "monitor", None) for callback in callbacks]
    names += [config.monitor for config in trainer.lr_scheduler_configs if config.reduce_on_plateau]
    return any(str(name).startswith(LOGGED) for name in names)
