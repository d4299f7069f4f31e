"""The period of a cosine by which the learning rate falls."""

from __future__ import annotations

import math
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.utilities import rank_zero_warn
from torch.optim.lr_scheduler import CosineAnnealingLR

from ebmlab.errors import UserError


def set_period(schedule: Any, interval: str, trainer: pl.Trainer) -> int:
    """Gives a cosine whose T_max is -1, the number of epochs under `max_steps`, the period of the whole training.

    Args:
        schedule: of the learning rate, of any kind.
        interval: when it takes a step, `epoch` or `step`.
        trainer: of the run.

    Returns:
        The period that was set, 0 if none was.

    Raises:
        UserError: T_max is below 1.

    Example:
        >>> import torch
        >>> sgd = torch.optim.SGD([torch.zeros(2)], lr=0.1)
        >>> cosine = CosineAnnealingLR(sgd, T_max=-1)
        >>> set_period(cosine, "step", pl.Trainer(max_steps=50, logger=False, enable_checkpointing=False))
        50
    """
    period = 0
    if isinstance(schedule, CosineAnnealingLR) and schedule.T_max == -1 and trainer.max_steps > 0:
        period = trainer.max_steps
        if interval != "step":
            period = math.ceil(period / _steps_of_an_epoch(trainer))
        schedule.T_max = period
    if (given := getattr(schedule, "T_max", 1)) < 1:
        raise UserError(
            f"lr_scheduler: T_max is {given}, but must be at least 1; if it is trainer.max_epochs, "
            "set that to at least 1"
        )
    return period


def check_period(period: int, trainer: pl.Trainer) -> None:
    """Warns if a checkpoint has replaced the period that `set_period` has set.

    Example:
        >>> check_period(0, pl.Trainer(logger=False, enable_checkpointing=False))
    """
    for config in trainer.lr_scheduler_configs if period else ():
        if (saved := config.scheduler.T_max) != period:  # type: ignore[union-attr]
            rank_zero_warn(f"lr_scheduler: the run continues with the checkpoint's T_max = {saved}, not {period}")


def _steps_of_an_epoch(trainer: pl.Trainer) -> int:
    """Optimizer steps of an epoch, before Lightning has made the loader of the training data."""
    loop = trainer.fit_loop
    loop.setup_data()
    batches: float = trainer.num_training_batches
    loop._combined_loader = None  # or Lightning would keep this one, whose position no checkpoint has restored
    return math.ceil(batches / trainer.accumulate_grad_batches)
