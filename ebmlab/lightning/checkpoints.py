"""When checkpoints are written: for a score only where it is new, and at the end of training in any case."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import EarlyStopping, ModelCheckpoint
from pytorch_lightning.callbacks.early_stopping import EarlyStoppingReason
from torch import Tensor

from ebmlab.errors import UserError
from ebmlab.io.files import load_checkpoint, save

Skip = Callable[[pl.Trainer, Tensor | None], bool]


def skip_where(checkpoint: ModelCheckpoint, skip: Skip) -> None:
    """Makes a `ModelCheckpoint` pass over the current score where `skip` is true of it.

    Lightning by itself takes the first score for the best, whatever it is.
    """
    ask = checkpoint.check_monitor_top_k

    def check(trainer: pl.Trainer, current: Tensor | None = None) -> bool:
        if not skip(trainer, current):
            return ask(trainer, current)
        checkpoint._last_global_step_saved = trainer.global_step  # so that it still saves its last checkpoint
        return False

    checkpoint.check_monitor_top_k = check  # type: ignore[method-assign]


def save_at_the_end(checkpoint: ModelCheckpoint) -> None:
    """Makes a checkpoint with `save_last` save the end of training, which need not be one of its epochs or steps.

    Lightning ends with the last one of these, and the training after it is lost.
    """
    at_epoch_end = checkpoint.on_train_epoch_end

    def on_train_epoch_end(trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        at_epoch_end(trainer, pl_module)
        if checkpoint.save_last is True and _ends(trainer) and not checkpoint._should_skip_saving_checkpoint(trainer):
            checkpoint._save_last_checkpoint(trainer, checkpoint._monitor_candidates(trainer))

    checkpoint.on_train_epoch_end = on_train_epoch_end  # type: ignore[method-assign]


def save_after_validation(checkpoint: ModelCheckpoint) -> None:
    """Makes a checkpoint by steps that falls on the last batch of an epoch wait for the end of the epoch.

    Lightning writes it before the validation, which a run resumed from it leaves out, and counts the epoch twice.
    """
    at_batch_end, at_epoch_end, late = checkpoint.on_train_batch_end, checkpoint.on_train_epoch_end, list[Any]()

    def on_train_batch_end(trainer: pl.Trainer, pl_module: pl.LightningModule, *batch: Any) -> None:
        if trainer.fit_loop.epoch_loop._num_ready_batches_reached():
            late.append(batch)
        else:
            at_batch_end(trainer, pl_module, *batch)

    def on_train_epoch_end(trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        while late:
            at_batch_end(trainer, pl_module, *late.pop())
        at_epoch_end(trainer, pl_module)

    checkpoint.on_train_batch_end = on_train_batch_end  # type: ignore[method-assign, assignment]
    checkpoint.on_train_epoch_end = on_train_epoch_end  # type: ignore[method-assign]


def add_to_last(trainer: pl.Trainer, callback: pl.Callback) -> None:
    """Puts a callback's state into the last checkpoint of this step, which was written before the callback was done.

    A run that is repeated finds it there. A folder or disk that takes no more keeps the checkpoint as it is.
    """
    for checkpoint in trainer.checkpoint_callbacks if trainer.is_global_zero else ():
        path = Path(getattr(checkpoint, "last_model_path", "") or ".")
        with suppress(OSError, UserError):
            content = load_checkpoint(path) if path.is_file() else {}
            if content.get("global_step") == trainer.global_step and "callbacks" in content:
                content["callbacks"][callback.state_key] = callback.state_dict()
                save(content, path, sync=True)


def _ends(trainer: pl.Trainer) -> bool:
    """Whether training is over after the current epoch. Lightning's `fit_loop.done` changes its loop."""
    by_steps = 0 <= trainer.max_steps <= trainer.global_step
    by_epochs = 0 <= (trainer.max_epochs or -1) <= trainer.current_epoch + 1
    return by_steps or by_epochs or bool(trainer.should_stop and trainer.fit_loop._can_stop_early)


def stop_again(trainer: pl.Trainer) -> None:
    """Ends a resumed run that `EarlyStopping` had ended: Lightning's checkpoints say when, and it trains on."""
    for callback in trainer.callbacks:  # type: ignore[attr-defined]
        if isinstance(callback, EarlyStopping) and callback.stopping_reason != EarlyStoppingReason.NOT_STOPPED:
            trainer.should_stop |= trainer.current_epoch - callback.stopped_epoch in (0, 1)


def watch(trainer: pl.Trainer, names: Collection[str], every: int, stale: Skip, owner: str) -> None:
    """Makes all that monitors scores of these names skip the epochs without an evaluation.

    A `ModelCheckpoint` compares only new scores, at the end of an epoch, whether or not the run has validated then. A
    `ReduceLROnPlateau` looks at every `every`-th epoch.

    Args:
        trainer: whose callbacks and schedules are meant.
        names: of the scores.
        every: epochs from one evaluation to the next.
        stale: whether the score is that of earlier weights.
        owner: who evaluates, for errors.

    Raises:
        UserError: `EarlyStopping` monitors a score that is not evaluated in every epoch; its patience counts epochs.
    """
    for callback in trainer.callbacks:  # type: ignore[attr-defined]
        name = getattr(callback, "monitor", None)
        if name not in names:
            continue
        if isinstance(callback, EarlyStopping):
            _check_patience(name, every, owner)
        if isinstance(callback, ModelCheckpoint):
            skip_where(callback, stale)
            callback._save_on_train_epoch_end = True  # the end of a validation comes before that of the evaluation
    for config in trainer.lr_scheduler_configs:
        if config.reduce_on_plateau and config.monitor in names and config.interval == "epoch":
            config.frequency = every * -(-config.frequency // every)


def _check_patience(name: Any, every: int, owner: str) -> None:
    if every > 1:
        raise UserError(
            f"EarlyStopping monitors {name}, which {owner} evaluates once in {every} epochs, while its patience "
            f"counts epochs: set every_n_epochs of {owner} to 1"
        )


def check_monitors(trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
    """Raises `UserError` if something monitors a name that nothing in the run logs, or too rarely, before training.

    Learners and callbacks of ebmlab say in `logs` what they log; those of others may log anything.
    """
    callbacks: list[pl.Callback] = trainer.callbacks  # type: ignore[attr-defined]
    own = [c for c in callbacks if not type(c).__module__.startswith(("ebmlab.", "callbacks.", "pytorch_lightning."))]
    logs = vars(type(pl_module)).get("logs")
    if own or logs is None:
        return
    for stopping in (callback for callback in callbacks if isinstance(callback, EarlyStopping)):
        owners = [c for c in callbacks if any(fnmatch(stopping.monitor, pattern) for pattern in getattr(c, "logs", ()))]
        every = [getattr(owner, "every_n_epochs", 1) for owner in owners]
        if owners:  # of several, one is enough
            _check_patience(stopping.monitor, min(every), type(owners[every.index(min(every))]).__name__)
    known = {*logs, *(name for callback in callbacks for name in getattr(callback, "logs", ()))}
    watchers = [(callback, getattr(callback, "monitor", None)) for callback in callbacks]
    for watcher, name in [*watchers, *((config.scheduler, config.monitor) for config in trainer.lr_scheduler_configs)]:
        if name is None or name in ("epoch", "step") or name.startswith(("lr-", "sampler/")):
            continue
        first = re.sub(r"_\d+$", "", name)  # of several callbacks that log the same
        if not any(fnmatch(given, pattern) for given in (name, first) for pattern in known):
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(known))}"
            raise UserError(f"{type(watcher).__name__} monitors {name}, which nothing in this run logs: {hint}")
