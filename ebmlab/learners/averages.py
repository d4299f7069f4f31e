"""Lightning's averages of the weights in a run that trains an energy: when they begin."""

from __future__ import annotations

import pytorch_lightning as pl
from pytorch_lightning.callbacks import EMAWeightAveraging

from ebmlab.errors import UserError


def check_averages(trainer: pl.Trainer) -> None:
    """Raises `UserError` if an average begins after training, or not at the epoch that its settings name.

    If it has not begun by the end, Lightning puts the initial weights in place of the trained ones.

    Example:
        >>> check_averages(pl.Trainer(logger=False, enable_checkpointing=False))  # it averages nothing
    """
    for callback in trainer.callbacks:  # type: ignore[attr-defined]
        if isinstance(callback, EMAWeightAveraging):
            _check_beginning(callback, trainer)


def _check_beginning(average: EMAWeightAveraging, trainer: pl.Trainer) -> None:
    """Lightning averages after each n-th step from a step on, and at the end of each epoch from an epoch on."""
    step, epoch = average.update_starting_at_step, average.update_starting_at_epoch
    by_step = average.update_every_n_steps > 0
    if by_step and step is None and epoch is not None:
        raise UserError(
            f"EMAWeightAveraging: update_starting_at_epoch is {epoch}, but Lightning averages after every step from "
            "the first one on: set update_starting_at_step instead, or with it update_every_n_steps to 0, which "
            "averages at the ends of epochs only"
        )
    steps, epochs = trainer.estimated_stepping_batches, trainer.max_epochs or -1
    late_step = not by_step or 0 < steps <= (step or 0)
    if late_step and (epoch is None or 0 < epochs <= epoch):
        reason = "averages neither after steps nor after epochs"
        if by_step or epoch is not None:
            when = f"step {step} of {steps:g}" if by_step else f"epoch {epoch} of {epochs}"
            reason = f"begins at {when}, after training,"
        raise UserError(
            f"EMAWeightAveraging {reason} and would put the initial weights in place of the trained ones: let it begin "
            "earlier, or leave it out"
        )
