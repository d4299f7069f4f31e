"""What Lightning does after a checkpoint is written, at the same step, and a resumed run would leave out."""

from __future__ import annotations

from typing import Any

import pytorch_lightning as pl


class Unfinished:
    """The steps of `ReduceLROnPlateau` and the row of metrics that are still to come when a checkpoint is written.

    Lightning writes checkpoints before it takes these steps and before it logs the metrics of the training step.
    """

    def __init__(self) -> None:
        self._interval = ""  # whose schedules take their step next: "step", "epoch", or "" for none
        self._logs = False  # whether the metrics of the training step, or epoch, are to be logged next
        self._owed: dict[int, float | None] = {}  # the numbers of schedules, and their scores in the checkpoint

    def enter(self, interval: str) -> None:
        """Training has come to the end of a `step` or an `epoch`; "" where nothing is left to be done."""
        self._interval, self._logs = interval, bool(interval)

    def validate(self) -> None:
        """Validation begins, before which the metrics of the step have been logged."""
        self._logs = False

    def state(self, trainer: pl.Trainer) -> list[list[Any]]:
        """The number and the score of each schedule whose step is still to come."""
        loop, found = trainer.fit_loop.epoch_loop, []
        ended = loop._num_ready_batches_reached() if self._interval else False
        for number, config in enumerate(trainer.lr_scheduler_configs if self._interval else ()):
            past = (loop.batch_idx if config.interval == "step" else trainer.current_epoch) + 1
            due = config.interval == self._interval and not (self._interval == "step" and loop._should_accumulate())
            due = due or (config.interval == "epoch" and ended)
            if config.reduce_on_plateau and due and past % config.frequency == 0:
                score = trainer.callback_metrics.get(str(config.monitor))
                found.append([number, None if score is None else float(score)])
        return found

    def load(self, state: list[list[Any]]) -> None:
        """Takes what `state` has returned."""
        self._owed = {int(number): score for number, score in state}

    def end_epoch(self, trainer: pl.Trainer) -> None:
        """An epoch ends. Lightning leaves out the schedules' steps if it is the one in which the run has resumed."""
        self.enter("epoch")
        if trainer.fit_loop.restarting:
            for number, _ in self.state(trainer):
                self._owed.setdefault(int(number), None)

    def finish(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Takes the steps that are owed, before the first batch."""
        owed, self._owed = self._owed, {}
        progress = trainer.fit_loop.epoch_loop.scheduler_progress
        for number, saved in owed.items():
            config = trainer.lr_scheduler_configs[number]
            score = trainer.callback_metrics.get(str(config.monitor), saved)
            if score is None:
                continue
            progress.increment_ready()
            pl_module.lr_scheduler_step(config.scheduler, score)
            progress.increment_completed()

    def log(self, trainer: pl.Trainer) -> None:
        """Gives the metrics of this step or epoch to the loggers that can `flush`, as Lightning does a moment later."""
        connector, loop = trainer._logger_connector, trainer.fit_loop.epoch_loop
        by_step = self._interval == "step"
        if not self._logs or (by_step and (loop._should_accumulate() or not connector.should_update_logs)):
            return
        metrics: Any = connector.metrics["log"]
        for logger in trainer.loggers:
            if metrics and hasattr(logger, "flush"):
                step = loop._batches_that_stepped - (not by_step)
                logger.log_metrics({"epoch": trainer.current_epoch, **metrics}, step=step)
