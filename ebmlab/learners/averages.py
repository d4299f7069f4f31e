"""Lightning's averages of the weights in a run that trains an energy: when they begin."""

from __future__ import annotations

import pytorch_lightning as pl
from pytorch_lightning.callbacks import EMAWeightAveraging

from ebmlab.errors import UserError


def check_averages(trainer: pl.Trainer) -> None:
    """Raises `UserError` if an average begins after the last step: Lightning would end with the initial weights.

    Example:
        >>> check_averages(pl.Trainer(logger=False, enable_checkpointing=False))  # it averages nothing
    """
    for callback in trainer.callbacks:  # type: ignore[attr-defined]
        if isinstance(callback, EMAWeightAveraging):
            _check_beginning(callback, trainer)


def _check_beginning(average: EMAWeightAveraging, trainer: pl.Trainer) -> None:
    step, epoch = average.update_starting_at_step or 0, average.update_starting_at_epoch or 0
    steps, epochs = trainer.estimated_stepping_batches, trainer.max_epochs or -1
    late = 0 < steps <= step
    if late or 0 < epochs <= epoch:
        when = f"step {step} of {steps:g}" if late else f"epoch {epoch} of {epochs}"
        raise UserError(
            f"EMAWeightAveraging begins at {when}, after training, and would put the initial weights in place of "
            "the trained ones: let it begin earlier, or leave it out"
        )
