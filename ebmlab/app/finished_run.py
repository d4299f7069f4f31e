"""What the files in a run's folder say: its settings, its metrics and the time it took. Reads no checkpoint."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ebmlab.app.class_paths import full_names
from ebmlab.app.plain_yaml import as_mapping, plain_yaml
from ebmlab.errors import WHY, UserError, explained
from ebmlab.io.files import read_given

LIKELIHOOD = "ais/log_likelihood"
STEPS_TAKEN = "steps_taken.txt"
_HIGHER = ("log_likelihood", "auroc", "aupr")
_MAY_MISLEAD = ("log_likelihood", "log_likelihood_lower", "bits_per_dim")  # GROUP/trusted says whether they do
_LOWER = re.compile(r"(^|[/_-])(bits_per_dim|(fid|mmd|rmse|loss|fpr)\d*)($|[/_-])")  # as whole words
# shown only if a checkpoint is chosen by it
_DETAILS = ("train/", "sampler/", "rollback/", "lr-", "ais/", "trajectory/")


@dataclass(frozen=True)
class Score:
    """A metric's value after `step` optimizer steps.

    Attributes:
        value: the number.
        step: the step.
        error: its standard error, if it was logged.
        trusted: False for a likelihood that is marked as not to be trusted.
    """

    value: float
    step: int
    error: float | None = None
    trusted: bool = True

    def __str__(self) -> str:
        error = "" if self.error is None else f" +- {self.error:.2g}"
        return f"{self.value:.5g}{error} at {self.step}" + ("" if self.trusted else ", not trusted")


@dataclass
class FinishedRun:
    """A run's folder as it was read.

    Attributes:
        folder: the folder.
        settings: every setting of the resolved config, by its name without `init_args`; `callbacks.NAME.option`.
        metrics: the scores of each metric, in the order of the steps; those of `test` and `validate` begin with these
            words. Without any, the loss or the energy gap of training.
        logged: the values of everything that was logged in training, in the order of the steps.
        modes: "max" or "min" for each metric of training of which it is known whether high or low values are better.
        seconds: the time that the run took, if it is known.
        steps: the last step.
    """

    folder: Path
    settings: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, list[Score]] = field(default_factory=dict)
    logged: dict[str, list[Score]] = field(default_factory=dict)
    modes: dict[str, str] = field(default_factory=dict)
    seconds: float | None = None
    steps: int = 0

    def best(self, metric: str) -> Score | None:
        """The best trusted score; None if there is none, or what is best is not known."""
        scores = [s for s in self.metrics.get(metric, ()) if s.trusted and math.isfinite(s.value)]
        choose = {"max": max, "min": min}.get(self.modes.get(metric, ""))
        return choose(scores, key=lambda s: s.value) if choose and scores else None

    def last(self, metric: str) -> Score | None:
        """The last score; None if the metric was not logged."""
        return next(reversed(self.metrics.get(metric, [])), None)


def steps_taken(path: Path) -> set[str]:
    """The metrics that a run's `steps_taken.txt` names, whose step counts steps taken; none without a file."""
    return set(path.read_text(errors="replace").splitlines()) if path.is_file() else set()


def read_run(folder: Path) -> FinishedRun:
    """Reads `config.yaml`, `metrics.csv` and what `test` and `validate` have left.

    Raises:
        UserError: the folder is not that of a run, or a file in it is damaged.
    """
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder; give folders of runs, such as runs/rbm_mnist/NAME")
    tested = any(
        (folder / name / "metrics.csv").is_file() for name in _EVALUATIONS
    )  # `convert` made it, not a training
    for name in ("config.yaml", "metrics.csv"):
        if not (folder / name).is_file() and not (tested and name == "metrics.csv"):
            inside = sorted(
                path.parent for path in folder.glob("*/metrics.csv") if path.parent.name not in _EVALUATIONS
            )
            hint = f"; it holds runs, such as {inside[0]}" if inside else ""
            raise UserError(f"{folder} is not the folder of a run, for it has no {name}{hint}")
    path = folder / "config.yaml"
    config = as_mapping(plain_yaml(full_names(read_given(path, str(path))), path), path, "`model` and `data`")
    with explained(f"{path} is not the config of a run", (AttributeError, KeyError, TypeError)):
        settings = dict(_flat(config, ""))
    run = FinishedRun(folder, settings)
    rows, taken = _rows(folder / "metrics.csv"), steps_taken(folder / STEPS_TAKEN)
    run.logged = _scores(rows, None, taken)
    run.steps = max((score.step for scores in run.logged.values() for score in scores), default=0)
    monitored = {
        value: settings.get(f"{name.removesuffix('.monitor')}.mode", "min")
        for name, value in settings.items()
        if name.endswith(".monitor") and value != "null"
    }
    run.metrics = _scores(rows, monitored, taken) or _scores(rows, dict.fromkeys(_TRAINING, ""), taken)
    run.modes = {metric: mode for metric in run.metrics if (mode := _mode(metric, monitored))}
    for name in _EVALUATIONS:
        if (folder / name / "metrics.csv").is_file():
            scores = _scores(_rows(folder / name / "metrics.csv"), monitored)
            run.metrics |= {f"{name} {metric}": found for metric, found in scores.items()}
    seconds = folder / "seconds.txt"
    took = _number(seconds.read_text(errors="replace")) if seconds.is_file() else math.nan
    run.seconds = took if math.isfinite(took) else None
    return run


_TRAINING = ("train/loss", "train/energy_gap")  # shown if nothing else was logged
_EVALUATIONS = ("validate", "test")
# Logged under the number of steps taken, in runs of older versions too; Lightning counts other metrics' steps from 0.
_AFTER = ("ais/", "fid/", "mmd/", "ood/", "equilibrium/", "coupling/", "rollback/")
_WORDS = {"None": "null", "True": "true", "False": "false"}


def _flat(value: Any, name: str) -> Iterator[tuple[str, str]]:
    """Every setting under a name. A class is a setting itself, and its options follow its name."""
    if isinstance(value, dict) and "class_path" in value:
        yield name, str(value["class_path"])
        yield from _flat(value.get("init_args") or {}, name)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _flat(item, f"{name}.{key}" if name else str(key))
    elif name == "trainer.callbacks" and value:
        taken: dict[str, int] = {}
        for item in value:
            kind = item["class_path"].rpartition(".")[2]
            taken[kind] = taken.get(kind, 0) + 1
            yield from _flat(item, f"callbacks.{kind}" + (f"_{taken[kind]}" if taken[kind] > 1 else ""))
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        for i, item in enumerate(value):
            yield from _flat(item, f"{name}.{i}")
    else:
        yield name, _WORDS.get(repr(value), str(value))


def _rows(path: Path) -> list[dict[str, str]]:
    if not path.is_file():
        return []
    with explained(f"{path} cannot be read: {WHY}", (csv.Error, OSError, ValueError)):
        with path.open(newline="") as file:
            rows = [row for row in csv.DictReader(file) if (row.get("step") or "").isdecimal()]
        return sorted(rows, key=lambda row: int(row["step"]))


def _scores(
    rows: list[dict[str, str]], monitored: dict[str, str] | None, taken: set[str] | None = None
) -> dict[str, list[Score]]:
    """The scores of the metrics that say how good the model is; of all metrics if `monitored` is None.

    In training (`taken` is not None) Lightning counts the steps of all metrics from 0, but for `taken` and `_AFTER`.
    """
    scores: dict[str, list[Score]] = {}
    for row in rows:
        for name, text in row.items():
            if name in ("step", "epoch", None) or not text or not (monitored is None or _is_shown(name, monitored)):
                continue
            step = int(row["step"]) + (taken is not None and name not in taken and not name.startswith(_AFTER))
            scores.setdefault(name, []).append(_score(row, name, step))
    return scores


def _is_shown(name: str, monitored: dict[str, str]) -> bool:
    return name in monitored or name.endswith("log_likelihood") or not name.startswith(_DETAILS)


def _score(row: dict[str, str], name: str, step: int) -> Score:
    value = _number(row[name])
    if not name.endswith(_MAY_MISLEAD):
        return Score(value, step)
    trusted = _number(row.get(f"{name.partition('/')[0]}/trusted") or "1") == 1
    error = _number(row.get("ais/std_error") or "nan") if name == LIKELIHOOD else math.nan
    return Score(value, step, error if trusted and not math.isnan(error) else None, trusted)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _mode(metric: str, monitored: dict[str, str]) -> str | None:
    """Whether higher or lower values of a metric are better."""
    if metric in monitored:
        return monitored[metric]
    if metric.endswith(_HIGHER):
        return "max"
    return "min" if _LOWER.search(metric) else None
