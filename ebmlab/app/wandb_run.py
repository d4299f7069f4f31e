"""Logging to Weights & Biases: its settings, and what happens when it fails."""

from __future__ import annotations

import csv
import os
import re
import secrets
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import pytorch_lightning as pl
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.loggers import WandbLogger
from pytorch_lightning.utilities import rank_zero_warn

from ebmlab.errors import UserError, one_line
from ebmlab.io.files import read_text, write_whole

WandbMode = Literal["offline", "online", "disabled"]
WANDB_ID = Path("wandb", "id")
BEST = {"ais/trusted_log_likelihood": "max", "ais/trusted_bits_per_dim": "min", "fid/classifier": "min"}
BEST |= {name: "min" for name in ("fid/inception", "mmd/hamming", "mmd/exponential", "coupling/rmse")}
"""Scores of which W&B's summary shows the best value."""


@dataclass(frozen=True)
class WandbOptions:
    """What W&B is told besides numbers and pictures.

    Args:
        tags: of the run, besides those of `$WANDB_TAGS`.
        notes: what the run is for.
        job_type: default: train, or the command that evaluates.
        entity: the user or team that the project belongs to.
        log_model: upload checkpoints when the run ends, or "all" as they are written; online only.
        watch: also log histograms of gradients, of parameters, or of all.
        save_code: upload the Python files in and under the working directory.
    """

    tags: list[str] | None = None
    notes: str | None = None
    job_type: str | None = None
    entity: str | None = None
    log_model: bool | Literal["all"] = False
    watch: Literal["gradients", "parameters", "all"] | None = None
    save_code: bool = False

    def init_settings(self) -> dict[str, Any]:
        """Those that `wandb.init` takes, without the ones that are not given."""
        tags = [*filter(None, os.environ.get("WANDB_TAGS", "").split(",")), *(self.tags or [])]
        found = {"tags": tags or None, "notes": self.notes, "entity": self.entity}
        return {name: value for name, value in found.items() if value is not None}


class WandbRun(WandbLogger):
    """Lightning's logger, except that it warns and stops logging when W&B fails, while the training continues."""

    _dead = False

    def __init__(self, options: WandbOptions | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        self.options = options or WandbOptions()
        self._wandb_init.pop("anonymous", None)  # Lightning passes it; W&B warns that it has no effect
        for name in ("log_hyperparams", "log_image", "log_table", "after_save_checkpoint"):
            setattr(self, name, partial(self._try, getattr(self, name)))

    def log_metrics(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        """As in the base class; likelihoods that are to be trusted are also logged as `ais/trusted_...`."""
        trusted = ("log_likelihood", "bits_per_dim") if metrics.get("ais/trusted") == 1 else ()
        metrics = {**metrics, **{f"ais/trusted_{k}": metrics[f"ais/{k}"] for k in trusted if f"ais/{k}" in metrics}}
        self._try(super().log_metrics, metrics, step)

    def finalize(self, *args: Any, **kwargs: Any) -> None:
        """As in the base class. Before, the tables of likelihoods with their errors and of FIDs are sent."""
        for key, (columns, rows) in score_tables(Path(self.save_dir or ".")).items():
            self.log_table(f"tables/{key}", columns=columns, data=rows)
        self._try(super().finalize, *args, **kwargs)

    def begin(self, trainer: pl.Trainer) -> None:
        """Makes W&B show the best value of scores, not the last, and sends what the options ask for.

        The metrics by which checkpoints are chosen count as scores too.
        """
        self._try(self._begin, trainer)

    def _begin(self, trainer: pl.Trainer) -> None:
        found = [c for c in trainer.checkpoint_callbacks if isinstance(c, ModelCheckpoint)]
        for metric, mode in {**BEST, **{c.monitor: c.mode for c in found if c.monitor}}.items():
            self.experiment.define_metric(metric, summary=mode)
        if self.options.watch:
            frequency = trainer.log_every_n_steps  # type: ignore[attr-defined]
            self.watch(trainer.lightning_module, self.options.watch, frequency, log_graph=False)
        if self.options.save_code:
            self.experiment.log_code(".")

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
    folder: Path,
    experiment: str,
    mode: WandbMode | None,
    project: str | None,
    evaluates: bool,
    options: WandbOptions | None = None,
) -> WandbRun | None:
    """The W&B logger of a run; None if W&B is disabled. `$WANDB_TAGS` and `$WANDB_NOTES` have their usual effect.

    Args:
        folder: the run's folder; its name is the run's name at W&B unless `$WANDB_NAME` is set.
        experiment: the config's name, by which W&B groups runs unless `$WANDB_RUN_GROUP` is set.
        mode: offline, online or disabled; default `$WANDB_MODE`, else offline.
        project: default `$WANDB_PROJECT`, else ebmlab.
        evaluates: the run evaluates a checkpoint and does not train.
        options: what else W&B is told.

    Raises:
        UserError: online without an API key, another value of `$WANDB_MODE`, or checkpoints to be uploaded offline.
    """
    given = mode or os.environ.get("WANDB_MODE") or "offline"
    chosen = {"dryrun": "offline", "run": "online"}.get(given, given)
    if chosen not in get_args(WandbMode):
        raise UserError(f"WANDB_MODE is {given!r}, but must be one of {', '.join(get_args(WandbMode))}")
    if chosen == "disabled":
        return None
    if chosen == "online":
        _check_server()
        _require_api_key()
    options = options or WandbOptions()
    if options.log_model and chosen == "offline":
        raise UserError("wandb_run.log_model uploads checkpoints, which needs an account: add --wandb online")
    os.environ.setdefault("WANDB_SILENT", "true")
    names = folder.absolute().parts
    return WandbRun(
        name=os.environ.get("WANDB_NAME") or "/".join(names[-2:] if evaluates else names[-1:]),
        id=_wandb_id(folder),
        save_dir=folder,
        project=project or os.environ.get("WANDB_PROJECT") or "ebmlab",
        group=os.environ.get("WANDB_RUN_GROUP") or experiment,
        offline=chosen == "offline",
        log_model=options.log_model,
        job_type=options.job_type or (names[-1] if evaluates else "train"),
        options=options,
        **options.init_settings(),
    )


def send_config(trainer: pl.Trainer, config: dict[str, Any]) -> None:
    """Sends the resolved config and the git commit to W&B, and saves W&B's id of the run in its folder."""
    for logger in trainer.loggers:
        if isinstance(logger, WandbLogger):
            logger.log_hyperparams({**config, "git_commit": git_commit()})
            _keep_wandb_id(Path(trainer.default_root_dir), logger)
        if isinstance(logger, WandbRun):
            logger.begin(trainer)


def score_tables(folder: Path) -> dict[str, tuple[list[str], list[list[float | str | None]]]]:
    r"""Columns and rows of `likelihoods` and `fid`, from the files in a run's folder; without those it lacks."""
    tables = {}
    for key, file, prefix in (("likelihoods", "metrics.csv", "ais/"), ("fid", "fid.csv", "")):
        if not (folder / file).is_file():
            continue
        with (folder / file).open(newline="") as opened:
            rows = list(csv.DictReader(opened))
        columns = [name for name in (rows[0] if rows else []) if name == "step" or name.startswith(prefix)]
        rows = [row for row in rows if not prefix or row.get("ais/log_likelihood")]
        if rows:
            cells = [[_cell(row[name]) for name in columns] for row in rows]
            tables[key] = ([name.removeprefix(prefix) for name in columns], cells)
    return tables


def _cell(text: str) -> float | str | None:
    try:
        return float(text) if text else None
    except ValueError:
        return text


def git_commit() -> str | None:
    """The commit of the working directory; None outside of git.

    Whether files differ from it is not asked: git would run programs that the folder's own configuration names.
    """
    try:
        done = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
        return done.stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def _wandb_id(folder: Path) -> str:
    """The run's id at W&B: the one saved in its folder, with which a resumed run continues, or a new one."""
    path = folder / WANDB_ID
    found = path.read_text(errors="replace").strip() if path.exists() else ""
    return found if found.isalnum() else secrets.token_hex(4)


def _keep_wandb_id(folder: Path, logger: WandbLogger) -> None:
    write_whole(folder / WANDB_ID, str(logger.version))


def _check_server() -> None:
    """Raises `UserError` if a file in the working directory, which may be a stranger's, says where the key is sent."""
    for path in (Path("wandb", "settings"), Path(".wandb", "settings")):
        names_one = path.exists() and re.search(r"^\s*base_url\s*[=:]", read_text(path), re.IGNORECASE | re.MULTILINE)
        if names_one and not os.environ.get("WANDB_BASE_URL"):
            raise UserError(
                f"--wandb online: {path} in the working directory names a server (base_url), which would get your key: "
                "set WANDB_BASE_URL to the server that you mean, or remove the file"
            )


def _require_api_key() -> None:
    import wandb

    if not wandb.api.api_key:
        raise UserError(
            "--wandb online needs an account: run `wandb login` or set WANDB_API_KEY, or leave --wandb at offline"
        )
