"""The length of a training, and the period of a cosine by which the learning rate falls."""

from __future__ import annotations

import math
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import GradientAccumulationScheduler
from pytorch_lightning.utilities import rank_zero_warn
from torch.optim.lr_scheduler import CosineAnnealingLR

from ebmlab.errors import UserError
from ebmlab.lightning.trainer import forget_loader


def planned_steps(trainer: pl.Trainer) -> float:
    """Optimizer steps of the whole training; infinite if it has no end that is known.

    Lightning's estimate takes the current accumulation of gradients for that of all epochs, and is -1 for loaders
    without a length.
    """
    steps = trainer.estimated_stepping_batches
    if steps < 0:
        return math.inf
    changing, epochs = _accumulation(trainer), trainer.max_epochs or 0
    if changing is None or epochs < 0 or not math.isfinite(trainer.num_training_batches):
        return steps
    total = sum(_steps_in(trainer, changing, epoch) for epoch in range(epochs))
    return total if trainer.max_steps == -1 else min(total, trainer.max_steps)


def resume_accumulation(trainer: pl.Trainer) -> None:
    """Accumulates gradients as the current epoch does. Lightning sets this when an epoch begins, not amid it."""
    if (changing := _accumulation(trainer)) is not None:
        changing.on_train_epoch_start(trainer)


def _accumulation(trainer: pl.Trainer) -> GradientAccumulationScheduler | None:
    callbacks: list[pl.Callback] = trainer.callbacks  # type: ignore[attr-defined]
    return next((c for c in callbacks if isinstance(c, GradientAccumulationScheduler)), None)


def _steps_in(trainer: pl.Trainer, changing: GradientAccumulationScheduler | None, epoch: int) -> int:
    """Optimizer steps of an epoch."""
    accumulated = trainer.accumulate_grad_batches
    if changing is not None:
        accumulated = changing.get_accumulate_grad_batches(epoch)
    return math.ceil(trainer.num_training_batches / accumulated)


def _epochs_of(trainer: pl.Trainer, steps: float) -> int:
    """The epochs in which so many optimizer steps are taken."""
    changing, epochs = _accumulation(trainer), 0
    last = 0 if changing is None else changing.epochs[-1]  # from here on all epochs are alike
    while steps > 0 and epochs < last:
        steps -= _steps_in(trainer, changing, epochs)
        epochs += 1
    return epochs + math.ceil(max(steps, 0) / _steps_in(trainer, changing, last))


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
    """
    period = 0
    endless = isinstance(schedule, CosineAnnealingLR) and schedule.T_max == -1
    if endless and trainer is not None and trainer.max_steps > 0:
        period = trainer.max_steps
        if interval != "step":
            period = _epochs_before_training(trainer, period)
        schedule.T_max = period
    if (given := getattr(schedule, "T_max", 1)) < 1:
        raise UserError(
            f"lr_scheduler: T_max is {given}, but must be at least 1; if it is trainer.max_epochs, "
            "set that to at least 1"
        )
    return period


def check_period(period: int, trainer: pl.Trainer) -> None:
    """Warns of a cosine that ends before training, and of a checkpoint's period in place of that of `set_period`."""
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
    steps = planned_steps(trainer)
    if not (math.isfinite(steps) and math.isfinite(trainer.num_training_batches)):
        return 0
    return steps if interval == "step" else _epochs_of(trainer, steps)


def _epochs_before_training(trainer: pl.Trainer, steps: int) -> int:
    """The epochs of so many optimizer steps, before Lightning has made the loader of the training data."""
    trainer.fit_loop.setup_data()
    if not math.isfinite(trainer.num_training_batches):
        raise UserError(
            "lr_scheduler: T_max is -1, the number of epochs, which is not known for data without a length: set "
            'lr_interval to "step", or T_max'
        )
    epochs = _epochs_of(trainer, steps)
    forget_loader(trainer)
    return epochs
