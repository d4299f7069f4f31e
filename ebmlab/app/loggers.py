"""Where a run's numbers go: `metrics.csv` in the run folder, and Weights & Biases."""

from __future__ import annotations

import csv
import os
import secrets
import subprocess
from argparse import Namespace
from pathlib import Path
from typing import Any, Literal

from pytorch_lightning.loggers import Logger, WandbLogger
from pytorch_lightning.utilities import rank_zero_only

from ebmlab.errors import UserError
from ebmlab.files import whole

WandbMode = Literal["offline", "online", "disabled"]
WANDB_ID = Path("wandb", "id")


class MetricsCSV(Logger):
    """One row a step in `<folder>/metrics.csv`; a resumed run goes on in the same file.

    Args:
        folder: the run folder.
        evaluates: a row is a checkpoint's evaluation, and no reason to forget those of later steps.
    """

    def __init__(self, folder: Path, evaluates: bool = False) -> None:
        super().__init__()
        self._path = folder / "metrics.csv"
        self._evaluates = evaluates
        self._columns: list[str] = []
        self._row: dict[str, Any] = {}

    @property
    def name(self) -> str:
        return ""

    @property
    def version(self) -> str:
        return ""

    @property
    def save_dir(self) -> str:
        return str(self._path.parent.absolute())

    @rank_zero_only
    def log_hyperparams(self, params: dict[str, Any] | Namespace, *args: Any, **kwargs: Any) -> None:
        """Nothing to do: the run folder holds the resolved config."""

    @rank_zero_only
    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        if self._row and self._row["step"] != step:
            self._write()
        if not self._columns:
            self._forget_rows_of(step or 0)
        self._row = {"step": step or 0, **self._row, **{k: float(v) for k, v in metrics.items()}}

    @rank_zero_only
    def finalize(self, status: str) -> None:
        self._write()

    def _write(self) -> None:
        if not self._row:
            return
        new = [key for key in self._row if key not in self._columns]
        if new:
            self._columns += new
            self._rewrite([*self._read(), self._row])
        else:
            with self._path.open("a", newline="") as file:
                csv.DictWriter(file, self._columns).writerow(self._row)
        self._row = {}

    def _forget_rows_of(self, step: int) -> None:
        """An evaluation repeats its checkpoint's row, a resumed run all from its checkpoint on: the old ones go."""
        rows = self._read()
        self._columns = list(rows[0]) if rows else ["step"]
        if rows:
            steps = [int(row["step"]) for row in rows]
            kept = [s != step if self._evaluates else s < step for s in steps]
            self._rewrite([row for row, keep in zip(rows, kept, strict=True) if keep])

    def _read(self) -> list[dict[str, Any]]:
        if not self._path.exists():
            return []
        with self._path.open(newline="") as file:
            return list(csv.DictReader(file))

    def _rewrite(self, rows: list[dict[str, Any]]) -> None:
        with whole(self._path) as temporary, temporary.open("w", newline="") as file:
            writer = csv.DictWriter(file, self._columns)
            writer.writeheader()
            writer.writerows(rows)


def make_loggers(
    folder: Path, experiment: str, wandb: WandbMode, project: str, evaluates: bool = False
) -> list[Logger]:
    """The loggers of a run: always `MetricsCSV`, and W&B unless disabled.

    Raises:
        UserError: W&B online without an API key.
    """
    loggers: list[Logger] = [MetricsCSV(folder, evaluates)]
    if wandb == "disabled":
        return loggers
    if wandb == "online":
        _require_api_key()
    os.environ.setdefault("WANDB_SILENT", "true")
    names = folder.absolute().parts
    name = "/".join(names[-2:] if evaluates else names[-1:])
    loggers.append(
        WandbLogger(
            name=name,
            id=_wandb_id(folder),
            save_dir=folder,
            project=project,
            group=experiment,
            offline=wandb == "offline",
        )
    )
    return loggers


def _wandb_id(folder: Path) -> str:
    """The run's id at W&B: the one that `keep_wandb_id` left in its folder, or a new one."""
    path = folder / WANDB_ID
    return path.read_text() if path.exists() else secrets.token_hex(4)


def keep_wandb_id(folder: Path, logger: WandbLogger) -> None:
    """Leaves the id in the run folder, so that a resumed run goes on under it."""
    with whole(folder / WANDB_ID) as path:
        path.write_text(str(logger.version))


def git_commit() -> str | None:
    """The commit that the working directory is at, with `-dirty` where files differ from it."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def _require_api_key() -> None:
    import wandb

    if not wandb.api.api_key:
        raise UserError(
            "--wandb online needs an account: run `wandb login` or set WANDB_API_KEY, or leave --wandb at offline"
        )
