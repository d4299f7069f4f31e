"""The period of a cosine by which the learning rate falls."""

from __future__ import annotations

import math
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.utilities import rank_zero_warn
from torch.optim.lr_scheduler import CosineAnnealingLR

from ebmlab.errors import UserError


def set_period(schedule: Any, interval: str, trainer: pl.Trainer | None) -> int:
    """Sets the T_max of a cosine to the length of the training if it is -1, as is `max_epochs` with `max_steps`.

    Args:
        schedule: of the learning rate, of any kind.
        interval: when it takes a step, `epoch` or `step`.
        trainer: of the run; None outside of one, where the period stays what it is.

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
    endless = isinstance(schedule, CosineAnnealingLR) and schedule.T_max == -1
    if endless and trainer is not None and trainer.max_steps > 0:
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
    """Warns of a cosine that ends before training, and of a checkpoint's period in place of that of `set_period`.

    Example:
        >>> check_period(0, pl.Trainer(logger=False, enable_checkpointing=False))
    """
    for config in trainer.lr_scheduler_configs:
        if not isinstance(cosine := config.scheduler, CosineAnnealingLR):
            continue
        if period and cosine.T_max != period:
            rank_zero_warn(
                f"lr_scheduler: the run continues with the checkpoint's T_max = {cosine.T_max}, not {period}"
            )
        if cosine.T_max < (length := _length(trainer, config.interval)):
            rank_zero_warn(
                f"lr_scheduler: the learning rate falls until {config.interval} {cosine.T_max} of {length:g} and then "
                f"rises again: T_max counts {config.interval}s (lr_interval), of which the whole run has {length:g}"
            )


def _length(trainer: pl.Trainer, interval: str) -> float:
    """The steps or epochs of the whole run; 0 if it has no end."""
    steps, batches = trainer.estimated_stepping_batches, trainer.num_training_batches
    if not (math.isfinite(steps) and math.isfinite(batches)):
        return 0
    return steps if interval == "step" else math.ceil(steps / math.ceil(batches / trainer.accumulate_grad_batches))


def _steps_of_an_epoch(trainer: pl.Trainer) -> int:
    """Optimizer steps of an epoch, before Lightning has made the loader of the training data."""
    loop = trainer.fit_loop
    loop.setup_data()
    batches: float = trainer.num_training_batches
    loop._combined_loader = None  # or Lightning would keep this one, whose position no checkpoint has restored
    return math.ceil(batches / trainer.accumulate_grad_batches)
