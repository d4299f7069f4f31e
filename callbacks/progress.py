"""The progress bar of training."""

from __future__ import annotations

import pytorch_lightning as pl
from pytorch_lightning.callbacks import TQDMProgressBar


class Progress(TQDMProgressBar):
    """One progress bar per epoch, with the rate, the time left and the current metrics by their short names.

    Example:
        >>> trainer = pl.Trainer(callbacks=[Progress(refresh_rate=10)], logger=False)
        >>> trainer.progress_bar_callback.refresh_rate
        10
    """

    def get_metrics(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule
    ) -> dict[str, int | str | float | dict[str, float]]:
        """The metrics to show, without their group and without the logger's version number."""
        metrics = super().get_metrics(trainer, pl_module)
        metrics.pop("v_num", None)
        return {name.rpartition("/")[2]: value for name, value in metrics.items()}
