"""Evaluation with averaged weights in place of the current ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytorch_lightning as pl
from pytorch_lightning.callbacks import WeightAveraging


@contextmanager
def averaged(trainer: pl.Trainer, pl_module: pl.LightningModule) -> Iterator[None]:
    """Runs its body with the averaged weights of a `WeightAveraging` callback, if there is one that has begun.

    Until its first update the average is that of the initial weights, and the current ones are taken. Lightning swaps
    the weights around validation only, so that this calls the callback's hooks for validation.
    """
    callbacks = [c for c in trainer.callbacks if isinstance(c, WeightAveraging) and _begun(c)]  # type: ignore[attr-defined]
    for callback in callbacks:
        callback.on_validation_epoch_start(trainer, pl_module)
    try:
        yield
    finally:
        for callback in reversed(callbacks):
            callback.on_validation_epoch_end(trainer, pl_module)


def _begun(callback: WeightAveraging) -> bool:
    return callback._average_model is not None and int(callback._average_model.n_averaged) > 0
