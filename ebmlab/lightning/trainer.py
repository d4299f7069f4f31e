"""What ebmlab needs of a `Trainer` and Lightning has no public name for."""

from __future__ import annotations

import subprocess
import time
from contextlib import suppress
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import ModelCheckpoint

from ebmlab.errors import UserError


def forget_loader(trainer: pl.Trainer) -> None:
    """Lets Lightning make the training loader again; it would keep one whose position no checkpoint has restored."""
    trainer.fit_loop._combined_loader = None


def resume_by_epochs(trainer: pl.Trainer) -> None:
    """Makes Lightning resume under `max_steps` as it does under `max_epochs`.

    Under `max_steps` Lightning 2.6 takes a checkpoint from the end of an epoch for one from its middle. It counts that
    epoch twice, and the run loses an epoch if `max_epochs` ends it.
    """
    trainer.fit_loop._iteration_based_training = lambda: False  # type: ignore[method-assign]


def save_no_step_again(trainer: pl.Trainer) -> None:
    """Makes a resumed run save no step again that it had saved, amid an accumulation of gradients."""
    for c in trainer.checkpoint_callbacks if trainer.ckpt_path else ():
        every = c._every_n_train_steps if isinstance(c, ModelCheckpoint) else 0
        if isinstance(c, ModelCheckpoint) and every and not trainer.global_step % every:
            c._last_global_step_saved = trainer.global_step


def is_accumulating(trainer: pl.Trainer) -> bool:
    """Whether gradients of earlier batches wait for those of later ones, before a step is taken."""
    return trainer.accumulate_grad_batches > 1 and trainer.fit_loop.epoch_loop._should_accumulate()


def check_processes(trainer: pl.Trainer) -> None:
    """Raises `UserError` if the processes of a run cannot hand the trained run back to the one that started them."""
    if getattr(trainer.strategy, "_start_method", "popen") != "popen":
        raise UserError("trainer.strategy starts processes that cannot hand the trained run back: set it to ddp")


def leave_signals(trainer: pl.Trainer) -> None:
    """Disables Lightning's handler of SIGTERM, which waits for the end of the batch and for other processes."""
    trainer._signal_connector._sigterm_notifier_fn = lambda signum, _: None  # type: ignore[method-assign]


def end_children(trainer: Any) -> None:
    """Kills the processes that the trainer launched. They write no files, so nothing is left incomplete.

    One that fails for the same reason is left a second to say so and to end by itself.
    """
    end = time.monotonic() + 1.0
    for process in getattr(getattr(trainer, "strategy", None) and trainer.strategy.launcher, "procs", ()):
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, end - time.monotonic()))
        process.kill()


def hand_over_children(old: Any, new: Any) -> None:
    """Makes a trainer responsible for the processes that the one before it launched."""
    if hasattr(old.strategy.launcher, "procs"):
        new.strategy.launcher.procs = old.strategy.launcher.procs
