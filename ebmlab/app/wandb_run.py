"""Logging to Weights & Biases: its settings, and what happens when it fails."""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, get_args

import pytorch_lightning as pl
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.loggers import WandbLogger
from pytorch_lightning.utilities import rank_zero_warn

from ebmlab.errors import UserError, one_line
from ebmlab.files import whole

WandbMode = Literal["offline", "online", "disabled"]
WANDB_ID = Path("wandb", "id")


class WandbRun(WandbLogger):
    """Lightning's logger, except that it warns and stops logging when W&B fails, while the training continues."""

    _dead = False

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._wandb_init.pop("anonymous", None)  # Lightning passes it; W&B warns that it has no effect

    def log_metrics(self, *args: Any, **kwargs: Any) -> None:
        """As in the base class."""
        self._try(super().log_metrics, *args, **kwargs)

    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        """As in the base class."""
        self._try(super().log_hyperparams, *args, **kwargs)

    def log_image(self, *args: Any, **kwargs: Any) -> None:
        """As in the base class."""
        self._try(super().log_image, *args, **kwargs)

    def log_table(self, *args: Any, **kwargs: Any) -> None:
        """As in the base class."""
        self._try(super().log_table, *args, **kwargs)

    def after_save_checkpoint(self, *args: Any, **kwargs: Any) -> None:
        """As in the base class."""
        self._try(super().after_save_checkpoint, *args, **kwargs)

    def finalize(self, *args: Any, **kwargs: Any) -> None:
        """As in the base class."""
        self._try(super().finalize, *args, **kwargs)

    def summarise_monitored(self, trainer: pl.Trainer) -> None:
        """Makes W&B show the best value, not the last, of the metric by which checkpoints are chosen."""
        for callback in trainer.checkpoint_callbacks:
            if isinstance(callback, ModelCheckpoint) and callback.monitor:
                self._try(self.experiment.define_metric, callback.monitor, summary=callback.mode)

    def _try(self, call: Callable[..., object], *args: Any, **kwargs: Any) -> None:
        if self._dead:
            return
        try:
            call(*args, **kwargs)
        except Exception as error:
            self._dead = True
            import wandb

            with suppress(Exception):  # W&B would otherwise try it, and print a traceback, when the process ends
                wandb.teardown(exit_code=1)
            rank_zero_warn(
                f"W&B failed ({type(error).__name__}: {one_line(error)}): nothing more is logged there; training goes "
                "on, and metrics.csv has everything"
            )


def wandb_run(
    folder: Path, experiment: str, mode: WandbMode | None, project: str | None, evaluates: bool
) -> WandbRun | None:
    """The W&B logger of a run; None if W&B is disabled. `$WANDB_TAGS` and `$WANDB_NOTES` have their usual effect.

    Args:
        folder: the run's folder; its name is the run's name at W&B unless `$WANDB_NAME` is set.
        experiment: the config's name, by which W&B groups runs unless `$WANDB_RUN_GROUP` is set.
        mode: offline, online or disabled; default `$WANDB_MODE`, else offline.
        project: default `$WANDB_PROJECT`, else ebmlab.
        evaluates: the run evaluates a checkpoint and does not train.

    Raises:
        UserError: online without an API key, or another value of `$WANDB_MODE`.
    """
    given = mode or os.environ.get("WANDB_MODE") or "offline"
    chosen = {"dryrun": "offline", "run": "online"}.get(given, given)
    if chosen not in get_args(WandbMode):
        raise UserError(f"WANDB_MODE is {given!r}, but must be one of {', '.join(get_args(WandbMode))}")
    if chosen == "disabled":
        return None
    if chosen == "online":
        _require_api_key()
    os.environ.setdefault("WANDB_SILENT", "true")
    names = folder.absolute().parts
    return WandbRun(
        name=os.environ.get("WANDB_NAME") or "/".join(names[-2:] if evaluates else names[-1:]),
        id=_wandb_id(folder),
        save_dir=folder,
        project=project or os.environ.get("WANDB_PROJECT") or "ebmlab",
        group=os.environ.get("WANDB_RUN_GROUP") or experiment,
        offline=chosen == "offline",
    )


def send_config(trainer: pl.Trainer, config: dict[str, Any]) -> None:
    """Sends the resolved config and the git commit to W&B, and saves W&B's id of the run in its folder."""
    for logger in trainer.loggers:
        if isinstance(logger, WandbLogger):
            logger.log_hyperparams({**config, "git_commit": git_commit()})
            _keep_wandb_id(Path(trainer.default_root_dir), logger)
        if isinstance(logger, WandbRun):
            logger.summarise_monitored(trainer)


def git_commit() -> str | None:
    """The commit of the working directory, followed by `-dirty` if files differ from it; None outside of git."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def _wandb_id(folder: Path) -> str:
    """The run's id at W&B: the one saved in its folder, with which a resumed run continues, or a new one."""
    path = folder / WANDB_ID
    found = path.read_text(errors="replace").strip() if path.exists() else ""
    return found if found.isalnum() else secrets.token_hex(4)


def _keep_wandb_id(folder: Path, logger: WandbLogger) -> None:
    with whole(folder / WANDB_ID) as path:
        path.write_text(str(logger.version))


def _require_api_key() -> None:
    import wandb

    if not wandb.api.api_key:
        raise UserError(
            "--wandb online needs an account: run `wandb login` or set WANDB_API_KEY, or leave --wandb at offline"
        )
