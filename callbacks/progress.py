"""How far a run is, and how long it still takes."""

from __future__ import annotations

import math
import sys
import time
from datetime import timedelta
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import ProgressBar, Timer
from tqdm import tqdm

from ebmlab.lightning.schedules import planned_steps

_REFRESH = 0.2  # seconds between two looks of the bar at the metrics, each of which waits for the device
_PAUSE = (10.0, 600.0)  # least and most seconds between two lines


class Progress(ProgressBar):
    """One bar for the whole training, with the time that is left and the current metrics by their short names.

    Without a terminal it prints a line every 10 seconds at first. Later it does so after another tenth of the time so
    far, but at least every 10 minutes.

    Args:
        refresh_rate: ignored, like the others. Configs of earlier runs hold these options of Lightning's bar.
        process_position: ignored.
        leave: ignored.

    Example:
        >>> trainer = pl.Trainer(callbacks=[Progress()], logger=False)
        >>> type(trainer.progress_bar_callback).__name__
        'Progress'
    """

    def __init__(
        self, refresh_rate: int | None = None, process_position: int | None = None, *, leave: bool | None = None
    ) -> None:
        super().__init__()
        self._enabled = True
        self._bar: Any = None
        self._begin = self._next = 0.0
        self._first = 0
        self._total: int | None = None

    def disable(self) -> None:
        self._enabled = False

    def enable(self) -> None:
        self._enabled = True

    def get_metrics(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule
    ) -> dict[str, int | str | float | dict[str, float]]:
        """The metrics to show, without their group and without the logger's version number."""
        metrics = super().get_metrics(trainer, pl_module)
        metrics.pop("v_num", None)
        return {name.rpartition("/")[2]: value for name, value in metrics.items()}

    def print(self, *args: Any, **kwargs: Any) -> None:
        """Prints above the bar."""
        tqdm.write(" ".join(map(str, args)), end=kwargs.get("end", "\n"))

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._begin, self._first, self._total = time.monotonic(), trainer.global_step, _total_steps(trainer)
        self._next = self._begin + _PAUSE[0]
        if self._enabled and sys.stderr.isatty():
            self._next = self._begin
            self._bar = tqdm(
                total=self._total, initial=self._first, desc="training", unit="step", smoothing=0, dynamic_ncols=True
            )

    def on_train_batch_start(self, trainer: pl.Trainer, *_: Any) -> None:
        if trainer.global_step == self._first:  # evaluations before the first step say nothing of the steps
            self._begin = time.monotonic()

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: Any) -> None:
        now = time.monotonic()
        if not self._enabled or now < self._next:
            return
        if self._bar is None:
            self._next = now + min(max((now - self._begin) / 10, _PAUSE[0]), _PAUSE[1])
            print(self._line(trainer, pl_module), file=sys.stderr, flush=True)
        else:
            self._next = now + _REFRESH
            self._refresh(trainer, pl_module)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if self._bar is not None:
            self._refresh(trainer, pl_module)
        self._close()

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        self._close()

    def teardown(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        self._close()

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if trainer.state.fn == "validate":
            self._begin_evaluation("validating", trainer.num_val_batches)

    def on_validation_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        if trainer.state.fn == "validate" and self._bar is not None:
            self._bar.update()

    def on_test_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._begin_evaluation("testing", trainer.num_test_batches)

    def on_test_batch_end(self, *_: Any) -> None:
        if self._bar is not None:
            self._bar.update()

    def _begin_evaluation(self, title: str, batches: list[int | float]) -> None:
        if self._enabled and sys.stderr.isatty():
            total = sum(batches)
            self._bar = tqdm(total=total if math.isfinite(total) else None, desc=title, unit="batch", leave=False)

    def _refresh(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._bar.n = trainer.global_step
        self._bar.set_postfix(self.get_metrics(trainer, pl_module))

    def _line(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> str:
        step, spent = trainer.global_step, time.monotonic() - self._begin
        parts = [f"step {step}" + (f" of {self._total}" if self._total else ""), f"epoch {trainer.current_epoch}"]
        left = [timer.time_remaining() for timer in trainer.callbacks if isinstance(timer, Timer)]  # type: ignore[attr-defined]
        if self._total and step > self._first:
            left.append(spent * (self._total - step) / (step - self._first))
        if known := [seconds for seconds in left if seconds is not None]:
            parts.append(f"{timedelta(seconds=max(0, round(min(known))))} left")
        numbers = self.get_metrics(trainer, pl_module)
        shown = ", ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in numbers.items())
        return ", ".join(parts) + (f": {shown}" if shown else "")

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def _total_steps(trainer: pl.Trainer) -> int | None:
    """The optimizer steps of the whole run; None if their number is not known."""
    steps = planned_steps(trainer)
    return int(steps) if math.isfinite(steps) and steps > 0 else None
