"""The progress bar of training."""

from __future__ import annotations

import pytorch_lightning as pl
from pytorch_lightning.callbacks import TQDMProgressBar


class Progress(TQDMProgressBar):
    """One bar an epoch: rate, time left, and the live metrics by their short names."""

    def get_metrics(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule
    ) -> dict[str, int | str | float | dict[str, float]]:
        """The metrics to show, without their group and without the logger's version number."""
        metrics = super().get_metrics(trainer, pl_module)
        metrics.pop("v_num", None)
        return {name.rpartition("/")[2]: value for name, value in metrics.items()}
