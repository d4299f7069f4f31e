"""Trainers for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytorch_lightning as pl

from ebmlab.callbacks import DataMean, RunState
from ebmlab.datamodules import Digits

QUIET = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")


def quiet_trainer(folder: Path, **settings: Any) -> pl.Trainer:
    """A trainer on the CPU without loggers, checkpoints and output, as far as `settings` do not ask for them."""
    options = dict.fromkeys(QUIET, False) | {"accelerator": "cpu", "default_root_dir": folder} | settings
    return pl.Trainer(**options)


def short_fit(learner: pl.LightningModule, folder: Path, epochs: int, **resume: str) -> None:
    """Trains on black-and-white digits, five iterations an epoch, with a checkpoint after each."""
    checkpoint = pl.callbacks.ModelCheckpoint(folder, filename="{epoch}", save_top_k=-1, save_on_train_epoch_end=True)
    trainer = quiet_trainer(
        folder,
        max_epochs=epochs,
        enable_checkpointing=True,
        limit_val_batches=0,
        limit_train_batches=5,
        use_distributed_sampler=False,
        callbacks=[DataMean(), RunState(), checkpoint],
    )
    trainer.fit(learner, datamodule=Digits(binarize=True), **resume)
