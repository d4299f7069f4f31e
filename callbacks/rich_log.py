"""Sends histograms and tables to the loggers that can show them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytorch_lightning as pl
from pytorch_lightning.loggers import TensorBoardLogger, WandbLogger
from torch import Tensor

NUM_BINS = 64


def log_histogram(trainer: pl.Trainer, key: str, values: Tensor) -> None:
    """Sends a histogram of the finite values to W&B and TensorBoard, which show it over the steps. Rank 0 only.

    Args:
        trainer: of the run.
        key: such as "energies/data".
        values: of any shape.
    """
    values = values.detach().cpu().double().flatten()
    values = values[values.isfinite()]
    if not trainer.is_global_zero or not len(values):
        return
    for logger in trainer.loggers:
        if isinstance(logger, WandbLogger):
            import wandb

            histogram = wandb.Histogram(np_histogram=_counted(values.numpy()))
            logger.log_metrics({key: histogram}, step=trainer.global_step)  # type: ignore[dict-item]
        elif isinstance(logger, TensorBoardLogger):
            logger.experiment.add_histogram(key, values.numpy(), trainer.global_step)


def _counted(values: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Counts and edges of bins. Values that lie too close for as many bins stand in the middle of wider ones."""
    try:
        return np.histogram(values, NUM_BINS)
    except ValueError:  # the range is less than 64 numbers of float64 wide
        middle = float(np.median(values))
        wide = max(abs(middle) * 1e-6, np.finfo(np.float64).tiny)
        return np.histogram(values, NUM_BINS, (middle - wide, middle + wide))


def log_table(trainer: pl.Trainer, key: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Sends a table to W&B, from rank 0.

    Args:
        trainer: of the run.
        key: such as "energies/samples".
        columns: their names.
        rows: a value for each column.
    """
    for logger in trainer.loggers:
        if isinstance(logger, WandbLogger) and trainer.is_global_zero:
            data = [list(row) for row in rows]
            logger.log_table(key, columns=list(columns), data=data, step=trainer.global_step)
