"""The loggers of a run: `metrics.csv` in the run folder, and Weights & Biases."""

from __future__ import annotations

import csv
import io
import os
import time
from argparse import Namespace
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pytorch_lightning.cli import LightningArgumentParser
from pytorch_lightning.loggers import Logger, TensorBoardLogger
from pytorch_lightning.utilities import rank_zero_only

from ebmlab.app.finished_run import STEPS_TAKEN, steps_taken
from ebmlab.app.wandb_run import WandbMode, WandbOptions, wandb_run
from ebmlab.extras import require
from ebmlab.io.files import write_table, write_whole

_BLOCK = 2**14  # bytes from the end of metrics.csv, where rows that change are looked for first


class MetricsCSV(Logger):
    """Writes one row per step to `<folder>/metrics.csv`; a resumed run continues the file.

    A row is written when the next step begins or when `flush` is called. `flush` is called before each checkpoint, so
    the file always has all rows up to the checkpoint. Later values of the same or an earlier step are added to its row.
    `<folder>/seconds.txt` says how long the run has taken, in all its parts; `<folder>/steps_taken.txt` names the
    metrics whose step is the number of steps taken.

    Args:
        folder: the run folder.
        evaluates: whether rows are evaluations of checkpoints, which do not replace the rows of later steps.
    """

    def __init__(self, folder: Path, evaluates: bool = False) -> None:
        super().__init__()
        self._path = folder / "metrics.csv"
        self._evaluates = evaluates
        self._columns: list[str] = []
        self._row: dict[str, Any] = {}
        self._in_file = False  # the file has the row of the current step
        self._dirty = False  # the row has values that the file lacks
        self._names = folder / STEPS_TAKEN
        self._taken: set[str] = set()
        self._clock = folder / "seconds.txt"
        self._before: float | None = None  # seconds of the run's earlier parts
        self._start = self._told = time.monotonic()

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
        row: dict[str, Any] = {"step": step or 0, **{k: float(v) for k, v in metrics.items()}}
        if not self._columns:
            self._take_up(row["step"])
        if self._row and self._row["step"] != row["step"]:
            self.flush()
            if row["step"] < self._row["step"] and not self._evaluates:
                self._add_late(row)
                return
            self._row, self._in_file = {}, False
        self._dirty = self._dirty or not row.items() <= self._row.items()
        self._row.update(row)

    @rank_zero_only
    def count_steps_taken(self, names: Iterable[str]) -> None:
        """Takes the step of these metrics for the number of steps taken; Lightning counts that of others from 0."""
        self._taken.update(names)

    @rank_zero_only
    def flush(self) -> None:
        """Writes the row of the current step."""
        if not self._dirty:
            return
        if self._taken - (known := steps_taken(self._names)):
            write_whole(self._names, "".join(f"{name}\n" for name in sorted(self._taken | known)))
        new = [key for key in self._row if key not in self._columns]
        if new or not self._path.exists():  # someone may have deleted it
            self._columns += new
            rows = self._read()
            write_table(self._path, self._columns, [*(rows[:-1] if self._in_file else rows), self._row])
        elif self._in_file:
            start, rows = self._since(self._row["step"])
            self._replace(start, [*rows[:-1], self._row])
        else:
            with self._path.open("a", newline="") as file:
                csv.DictWriter(file, self._columns).writerow(self._row)
        self._in_file, self._dirty = True, False
        self._tell_time(at_most_every=1.0)

    @rank_zero_only
    def finalize(self, status: str) -> None:
        self.flush()
        self._tell_time()

    def _tell_time(self, at_most_every: float = 0.0) -> None:
        """Writes the seconds that the run has taken, unless there is no run yet."""
        now = time.monotonic()
        if self._evaluates or not self._columns or now - self._told < at_most_every:
            return
        if self._before is None:
            self._before = _seconds(self._clock)
        write_whole(self._clock, f"{self._before + now - self._start:.1f}\n")
        self._told = now

    def _take_up(self, step: int) -> None:
        """Removes rows that will be written again: that of `step` in an evaluation, else all after `step`.

        In training the row of `step` is kept and goes on: it may hold what was evaluated before the checkpoint.
        """
        rows = self._read()
        self._columns = list(rows[0]) if rows else ["step"]
        kept = [row for row in rows if (int(row["step"]) != step if self._evaluates else int(row["step"]) <= step)]
        if rows:
            write_table(self._path, self._columns, kept)
        if kept and not self._evaluates and int(kept[-1]["step"]) == step:
            self._row = {key: float(value) for key, value in kept[-1].items() if value} | {"step": step}
            self._in_file = True

    def _add_late(self, row: dict[str, Any]) -> None:
        """Adds values of an earlier step, such as Lightning's means over an epoch, in their place in the file."""
        new = [key for key in row if key not in self._columns]
        anew = bool(new) or not self._path.exists()
        start, rows = (0, self._read()) if anew else self._since(row["step"])
        self._columns += new
        earlier = [old for old in rows if int(old["step"]) < row["step"]]
        same = [old for old in rows if int(old["step"]) == row["step"]]
        now = {**(same[0] if same else {}), **row}
        rows = [*earlier, now, *rows[len(earlier) + len(same) :]]
        if anew:
            write_table(self._path, self._columns, rows)
        else:
            self._replace(start, rows)

    def _since(self, step: int) -> tuple[int, list[dict[str, Any]]]:
        """The byte at which the file's last rows begin of which none is of an earlier step, and these rows.

        The file is read from its end, as a run's file grows while it is trained.
        """
        place, reach = self._columns.index("step"), _BLOCK
        with self._path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            while True:
                begin = max(0, size - reach)
                file.seek(begin)
                first, *lines = file.read().splitlines(keepends=True) or [b""]  # the header, or a row that is cut
                lines = lines[: -1 if lines and not lines[-1].endswith(b"\n") else None]
                cells = list(csv.reader(line.decode() for line in lines))
                steps = [int(row[place]) if row[place : place + 1] and row[place].isdecimal() else -1 for row in cells]
                earlier = max((k for k, found in enumerate(steps, 1) if 0 <= found < step), default=0)
                if earlier or not begin:
                    rows = [
                        dict(zip(self._columns, cells[k], strict=False))
                        for k in range(earlier, len(cells))
                        if steps[k] >= 0
                    ]
                    return begin + len(first) + sum(map(len, lines[:earlier])), rows
                reach *= 16

    def _replace(self, start: int, rows: Iterable[Mapping[str, Any]]) -> None:
        """Writes rows over the end of the file, from a byte on, at once; a shorter end replaces the whole file."""
        text = io.StringIO(newline="")
        csv.DictWriter(text, self._columns).writerows(rows)
        content = text.getvalue().encode()
        if start + len(content) < self._path.stat().st_size:  # a kill in between would leave a piece of the old end
            write_whole(self._path, self._path.read_bytes()[:start] + content)
            return
        with self._path.open("r+b") as file:  # which says so where the disk takes no more
            file.seek(start)
            file.write(content)

    def _read(self) -> list[dict[str, Any]]:
        if not self._path.exists():
            return []
        text = self._path.read_text()
        lines = text[: text.rfind("\n") + 1].splitlines()  # a last row without a line end is incomplete
        return [row for row in csv.DictReader(lines) if row.get("step", "").isdecimal()]


def _seconds(path: Path) -> float:
    """The number in a file; 0 if there is none."""
    try:
        return float(path.read_text(errors="replace"))
    except (OSError, ValueError):
        return 0.0


def add_logger_options(parser: LightningArgumentParser) -> None:
    """Adds the options that say where a run is logged."""
    parser.add_argument("--wandb", type=WandbMode | None, help="W&B mode. Default: $WANDB_MODE, else offline.")
    parser.add_argument("--wandb_project", type=str | None, help="W&B project. Default: $WANDB_PROJECT, else ebmlab.")
    parser.add_class_arguments(WandbOptions, "wandb_run")
    parser.add_argument("--tensorboard", type=bool, default=False, help="Also write TensorBoard's files.")


def make_loggers(
    folder: Path,
    experiment: str,
    wandb: WandbMode | None,
    project: str | None,
    evaluates: bool = False,
    options: WandbOptions | None = None,
    tensorboard: bool = False,
) -> list[Logger]:
    """The loggers of a run: always `MetricsCSV`, W&B unless disabled, TensorBoard if asked for.

    Raises:
        UserError: W&B online without an API key, or TensorBoard is not installed.
    """
    run = wandb_run(folder, experiment, wandb, project, evaluates, options)
    loggers: list[Logger] = [MetricsCSV(folder, evaluates), *([] if run is None else [run])]
    if tensorboard:
        require("--tensorboard true", "tensorboard")
        loggers.append(TensorBoardLogger(folder, name="", version="tensorboard"))
    return loggers
