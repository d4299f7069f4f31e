"""What a sweep looks for and where: the options of the command, and the file that says which settings to try."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ebmlab.app.parsers import Line
from ebmlab.errors import UserError
from ebmlab.io.files import read_given

OBJECTIVES: dict[str, Literal["maximize", "minimize"]] = {
    "ais/log_likelihood": "maximize",
    "ais/bits_per_dim": "minimize",
    "fid/": "minimize",
}
_SUCH = "`objective: fid/classifier` and `space: {model.num_steps: [5, 10, 20]}`"
OF_A_RUN = ("name", "resume", "ckpt_path", "config", "trainer.default_root_dir")
_KEYS = {"low", "high", "log", "integer"}
_DISTRIBUTIONS: dict[str, dict[str, bool]] = {
    "uniform": {},
    "int_uniform": {"integer": True},
    "log_uniform_values": {"log": True},
}


@dataclass(frozen=True)
class Space:
    """The settings that a sweep tries, and the score by which it judges them.

    Attributes:
        objective: the name of a likelihood of `AIS`, or of a FID.
        parameters: for each option of `fit` a list of choices, or `low` and `high`, with `log` and `integer`.
    """

    objective: str
    parameters: dict[str, Any]

    @property
    def direction(self) -> Literal["maximize", "minimize"]:
        return next(goal for name, goal in OBJECTIVES.items() if self.objective.startswith(name))

    @property
    def callback(self) -> str:
        """The class of the callback that logs the objective."""
        return "FID" if self.objective.startswith("fid/") else "AIS"

    @property
    def scales(self) -> dict[str, str]:
        """How each setting is drawn: "choices", "log" or "linear"."""
        return {
            name: "choices" if isinstance(ways, list) else "log" if ways.get("log") else "linear"
            for name, ways in self.parameters.items()
        }

    def options(self, trial: Any) -> list[str]:
        """Options of `fit`, with values that an Optuna trial suggests."""
        found: list[str] = []
        for name, ways in self.parameters.items():
            if isinstance(ways, list):
                value = trial.suggest_categorical(name, ways)
            else:
                suggest = trial.suggest_int if ways.get("integer") else trial.suggest_float
                value = suggest(name, ways["low"], ways["high"], log=ways.get("log", False))
            found.append(option(name, value))
        return found

    def tried_options(self) -> list[list[str]]:
        """Lists of options of `fit`, to try whether it takes them; each text that may be chosen is in one of them."""
        tried = {name: _some(ways) for name, ways in self.parameters.items()}
        longest = max(map(len, tried.values()))
        return [[option(name, some[k % len(some)]) for name, some in tried.items()] for k in range(longest)]


def _some(ways: Any) -> list[Any]:
    """All choices that are texts, one choice if none is, or a number within the range."""
    if isinstance(ways, list):
        return [value for value in ways if isinstance(value, str)] or ways[:1]
    return [_within(ways)]


def _within(ways: dict[str, Any]) -> Any:
    """A number within the range, which is whole only if all are."""
    return ways["low"] + (0 if ways.get("integer") else (ways["high"] - ways["low"]) / math.e)


def option(name: str, value: Any) -> str:
    """An option of the command line."""
    return f"--{name}={value if isinstance(value, str) else json.dumps(value)}"


def read_space(path: Path) -> Space:
    r"""Reads a YAML file with an `objective` and a `space`, or one that `wandb sweep` takes.

    Raises:
        UserError: it is not valid, or the objective does not say how good a model is.
    """
    from ebmlab.app.config_files import load_config

    config = load_config(read_given(path, f"sweep: --space {path}"), f"--space {path}", _SUCH)
    if "parameters" in config:
        config = _of_wandb(config, str(path))
    objective, space = config.pop("objective", None), config.pop("space", None)
    if config or not isinstance(space, dict) or not space:
        raise UserError(f"{path} must have an objective and a space, such as {_SUCH}, and nothing else")
    check_objective(objective, str(path))
    for name, ways in space.items():
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_]\w*(\.\w+)*", name):
            raise UserError(f"{path}: {name!r} is no option of fit, such as model.num_steps")
        if name in OF_A_RUN:
            raise UserError(f"{path}: {name} belongs to a run, and each trial has its own: leave it out")
        _check(f"{path}: {name}", ways)
    return Space(objective, space)


def _of_wandb(config: dict[str, Any], source: str) -> dict[str, Any]:
    """The objective and the space of a sweep's config at W&B; its command and its method do not matter here."""
    metric, parameters = config.get("metric") or {}, config["parameters"]
    if not isinstance(metric, dict) or not isinstance(parameters, dict):
        raise UserError(f"{source}: metric must have a name, and parameters must be options with values or a range")
    metric = metric.get("name")
    if isinstance(metric, str):
        metric = metric.replace("ais/trusted_", "ais/")  # here a score that is not trusted never counts
    space: dict[str, Any] = {}
    for name, ways in parameters.items():
        if not isinstance(ways, dict):
            raise UserError(f"{source}: {name} is {ways!r}, but must be {{values: [...]}} or {{min: 0.01, max: 1.0}}")
        kind = str(ways.get("distribution", "uniform"))
        if "values" in ways or "value" in ways:
            space[name] = ways.get("values", [ways.get("value")])
        elif kind in _DISTRIBUTIONS:
            space[name] = {"low": ways.get("min"), "high": ways.get("max"), **_DISTRIBUTIONS[kind]}
        else:
            raise UserError(f"{source}: {name} has the distribution {kind}, but must have {', '.join(_DISTRIBUTIONS)}")
    return {"objective": metric, "space": space}


def check_objective(objective: Any, source: str) -> None:
    """Raises `UserError` unless the objective is a score that says how good a model is."""
    names = tuple(OBJECTIVES)
    if not isinstance(objective, str) or not (objective in names[:2] or objective.startswith(names[2])):
        raise UserError(
            f"{source}: objective is {objective!r}, but must be ais/log_likelihood, ais/bits_per_dim or a FID such as "
            "fid/classifier: a contrastive loss or an energy does not say how good a model is"
        )


def _check(where: str, ways: Any) -> None:
    """Raises `UserError` unless these are choices or a range."""
    if isinstance(ways, list):
        if not ways or not all(isinstance(value, str | int | float | None) for value in ways):
            raise UserError(f"{where}: choices are numbers, texts, true, false or null, at least one")
        return
    if not isinstance(ways, dict) or not {"low", "high"} <= ways.keys() <= _KEYS:
        raise UserError(f"{where} is {ways!r}, but must be a list of choices, or {{low: 0.01, high: 1.0, log: true}}")
    low, high = ways["low"], ways["high"]
    kinds = int if ways.get("integer") else int | float
    numbers = all(isinstance(v, kinds) and not isinstance(v, bool) and math.isfinite(v) for v in (low, high))
    if not numbers or low >= high or (ways.get("log") and low <= 0):
        least = " above 0, for its logarithm is taken," if ways.get("log") else ""
        kind = "whole numbers" if ways.get("integer") else "numbers"
        raise UserError(f"{where}: low is {low!r} and high {high!r}, but must be {kind},{least} low below high")


def sweep_parser() -> Line:
    """The parser of the command's options; those that it does not know are handed on to `fit`."""
    parser = Line(
        prog="python -m ebmlab sweep",
        description="Trains a config again and again, with settings that Optuna chooses for the best likelihood or "
        "FID. All results are in a database: the same command goes on with a study that was stopped, and may be given "
        "on several machines at the same time.",
        epilog="Other options, such as --trainer.max_epochs 3, are handed on to fit.",
    )
    add = parser.add_argument
    add("-c", "--config", required=True, metavar="FILE", help="the config of the runs")
    add("--space", required=True, metavar="FILE", help="what to try and how to judge it (docs/sweeps.md)")
    add("--trials", type=int, default=20, metavar="N", help="runs of the study in all, over all processes (20)")
    add("--name", help="of the study; by default that of the space's file")
    add("--storage", metavar="URL", help="database; by default sqlite in runs/sweeps/NAME/study.db")
    add("--pruner", choices=("median", "none"), default="median", help="ends runs whose scores are below the median")
    add("--seed", type=int, help="of the choices; several processes need different ones, or none")
    return parser
