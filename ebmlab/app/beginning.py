"""The moment from which a run writes files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytorch_lightning as pl
from jsonargparse import Namespace
from pytorch_lightning.utilities import rank_zero_warn

from ebmlab.app.own_runs import keep_own
from ebmlab.app.run_folder import CONFIG
from ebmlab.app.wandb_run import send_config
from ebmlab.callbacks.periodic import PeriodicEvaluation
from ebmlab.io.files import write_whole
from ebmlab.io.folders import make_folder


class Beginning(pl.Callback):
    """Saves the resolved config and starts W&B, TensorBoard and the like when training or an evaluation begins.

    Lightning starts such loggers before data, callbacks and checkpoint are looked at. A run that is refused would leave
    their files behind, and a resumed one the config that was refused.

    Args:
        trainer: of the run; its loggers but the first, `MetricsCSV`, are kept back.
        config: what W&B is told, and `text`.
        text: gives the config that is saved in the run's folder; None saves none.
    """

    def __init__(self, trainer: pl.Trainer, config: Namespace, text: Callable[[Namespace], str] | None) -> None:
        self._config, self._text = config, text
        self._later, trainer.loggers = trainer.loggers[1:], trainer.loggers[:1]
        trainer.callbacks.insert(0, self)  # type: ignore[attr-defined]  # before those that evaluate at the start

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        optimizer = self._config.get("model.init_args.optimizer.init_args") or {}
        for name, value in getattr(pl_module, "continued_settings", {}).items():
            if name in optimizer:
                optimizer[name] = value
        if self._text is not None and trainer.is_global_zero:
            path = Path(trainer.default_root_dir, CONFIG)
            make_folder(path.parent)
            write_whole(path, self._text(self._config))
            if not keep_own(path):
                rank_zero_warn(
                    f"{path} cannot be remembered as your own: name it by --config in later commands on this run, or "
                    "set EBMLAB_CACHE to a folder that can be written before a run"
                )
        self._begin(trainer)

    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """A run with nothing left to train begins here if it catches up on its last evaluations."""
        callbacks = trainer.callbacks  # type: ignore[attr-defined]
        if any(isinstance(c, PeriodicEvaluation) and c.is_due(trainer) for c in callbacks):
            self._begin(trainer)

    def on_test_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._begin(trainer)

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if not trainer.sanity_checking:
            self._begin(trainer)

    def _begin(self, trainer: pl.Trainer) -> None:
        if self._later:
            trainer.loggers, self._later = [*trainer.loggers, *self._later], []
            if trainer.is_global_zero:
                send_config(trainer, self._config.as_dict())
