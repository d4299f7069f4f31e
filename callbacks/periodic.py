"""When evaluations run."""

from __future__ import annotations

from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.trainer.states import TrainerFn

from callbacks.averaged import averaged
from callbacks.isolated import isolated
from ebmlab.errors import UserError

FAST_DEV_SAMPLES = 16
FAST_DEV_STEPS = 2


class PeriodicEvaluation(pl.Callback):
    """Evaluates before the first step, after every n-th epoch, at the end of fit, and in `validate` and `test`.

    Subclasses say what in `evaluate`, which runs in eval mode, without gradients, on random numbers of its own:
    training goes on as if nothing had been evaluated. Where the run averages its weights (Lightning's
    `EMAWeightAveraging`), the average is evaluated.

    Args:
        every_n_epochs: evaluate after each n-th training epoch (and after the last).
        at_start: evaluate before the first training step too; never on resuming.
        seed: of the evaluation's random numbers, the same each time, so that pictures and scores can be compared.
    """

    def __init__(self, every_n_epochs: int = 1, at_start: bool = True, seed: int = 0) -> None:
        if every_n_epochs < 1:
            raise UserError(f"{type(self).__name__}: every_n_epochs is {every_n_epochs}, but must be 1 or more")
        self.every_n_epochs = every_n_epochs
        self.at_start = at_start
        self.seed = seed
        self._last_step = -1
        self._metrics: dict[str, float] = {}

    def check(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Raises `UserError` if the run cannot be evaluated; called before it starts."""

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        self.check(trainer, pl_module)

    def evaluate(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Evaluates and logs; called on every rank."""
        raise NotImplementedError

    def log_metrics(self, trainer: pl.Trainer, pl_module: pl.LightningModule, metrics: dict[str, float]) -> None:
        """Sends metrics to the loggers once and to `trainer.callback_metrics`, where a ModelCheckpoint finds them.

        `LightningModule.log` is closed before the first and after the last step, so that it serves `validate` and
        `test` alone (where it also fills the table that they print).
        """
        if trainer.state.fn != TrainerFn.FITTING:
            pl_module.log_dict(metrics)
            return
        self._metrics.update(metrics)
        self._publish(trainer, metrics)
        last = max(trainer.global_step - 1, 0)  # Lightning counts steps from 0, and so do its epochs' metrics
        for logger in trainer.loggers:
            logger.log_metrics({**metrics, "epoch": trainer.current_epoch}, step=last)

    def limit(self, trainer: pl.Trainer, num_samples: int, num_steps: int) -> tuple[int, int]:
        """The two sizes, made tiny under `fast_dev_run`."""
        if not trainer.fast_dev_run:
            return num_samples, num_steps
        return min(num_samples, FAST_DEV_SAMPLES), min(num_steps, FAST_DEV_STEPS)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._publish(trainer, self._metrics)  # those of a resumed run
        if self.at_start and trainer.global_step == 0:
            self._run(trainer, pl_module)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if (trainer.current_epoch + 1) % self.every_n_epochs == 0:
            self._run(trainer, pl_module)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if self._last_step != trainer.global_step:
            self._run(trainer, pl_module)

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if trainer.state.fn == TrainerFn.VALIDATING:
            self._run(trainer, pl_module)

    def on_test_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._run(trainer, pl_module)

    def state_dict(self) -> dict[str, Any]:
        return {"last_step": self._last_step, "metrics": self._metrics}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._last_step = state_dict["last_step"]
        self._metrics = dict(state_dict["metrics"])

    def _run(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        with averaged(trainer, pl_module), isolated(pl_module, self.seed):
            self.evaluate(trainer, pl_module)
        if trainer.state.fn == TrainerFn.FITTING:
            self._last_step = trainer.global_step

    @staticmethod
    def _publish(trainer: pl.Trainer, metrics: dict[str, float]) -> None:
        trainer.callback_metrics.update({key: torch.tensor(value) for key, value in metrics.items()})
