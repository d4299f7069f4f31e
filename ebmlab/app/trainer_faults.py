"""Says which of the trainer's settings is wrong, after Lightning has refused to make the trainer."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytorch_lightning as pl
from lightning_fabric.plugins.environments.lightning import LightningEnvironment
from pytorch_lightning.accelerators import AcceleratorRegistry
from pytorch_lightning.strategies import StrategyRegistry

from ebmlab.app.config_errors import parser_message
from ebmlab.errors import UserError

_SHARE = "a share from 0.0 to 1.0, or a whole number of batches"
_PROFILERS = ("simple", "advanced", "pytorch")
_NODES = ("MASTER_ADDR", "MASTER_PORT", "NODE_RANK")  # of a node, if no launcher names them


def trainer_fault(trainer: dict[str, Any], error: Exception) -> str:
    """What is wrong, in the words of the options; Lightning's own line if no setting is known to be.

    Args:
        trainer: the trainer's settings.
        error: what Lightning raised.
    """
    for name, (is_right, right) in _RULES.items():
        if (value := trainer.get(name)) is not None and not is_right(value):
            return f"trainer.{name} is {value!r}, but must be {right}"
    kind, devices = trainer.get("accelerator"), trainer.get("devices")
    here = _available()
    if kind not in (None, "auto", *here):
        return f"trainer.accelerator is {kind!r}, but this machine has only {', '.join(here)} (or auto)"
    if re.search(r"devices|requested gpu", str(error)) and devices is not None:
        right = "at least 1" if kind == "cpu" or here == ["cpu"] else "a number of devices that are there, or a list"
        return f"trainer.devices is {devices!r}, but must be {right} (or auto)"
    return f"trainer: {parser_message(str(error))}"


def check_nodes(trainer: pl.Trainer) -> None:
    """Raises `UserError` for several nodes of which nothing says where they meet: they would wait for ever."""
    environment = getattr(trainer.strategy, "cluster_environment", None)
    missing = [name for name in _NODES if name not in os.environ]
    if trainer.num_nodes > 1 and missing and type(environment) is LightningEnvironment:
        raise UserError(
            f"trainer.num_nodes is {trainer.num_nodes}, but nothing says where the nodes meet: start the command on "
            f"each by torchrun or SLURM, or set {' and '.join(missing)} there"
        )


def _available() -> list[str]:
    kinds = AcceleratorRegistry.available_accelerators()
    found = [kind for kind in sorted(kinds) if AcceleratorRegistry[kind]["accelerator"].is_available()]
    return [*found, *(["gpu"] if {"cuda", "mps"} & set(found) else [])]


def _is_share(value: Any) -> bool:
    return (isinstance(value, int) and value >= 0) or (isinstance(value, float) and 0 <= value <= 1)


def _is_time(value: Any) -> bool:
    if isinstance(value, dict):
        units = ("days", "seconds", "microseconds", "milliseconds", "minutes", "hours", "weeks")
        return all(name in units and isinstance(amount, int | float) for name, amount in value.items())
    if isinstance(value, str):
        return re.fullmatch(r"\d+:\d\d:\d\d:\d\d", value.strip()) is not None
    return isinstance(value, timedelta)


_RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "max_time": (_is_time, "days, hours, minutes and seconds, such as 00:01:30:00"),
    "max_epochs": (lambda n: n >= -1, "at least 0, or -1 for no limit"),
    "max_steps": (lambda n: n >= -1, "at least 0, or -1 for no limit"),
    "fast_dev_run": (lambda n: n >= 0, "at least 0"),
    "reload_dataloaders_every_n_epochs": (lambda n: n >= 0, "at least 0"),
    "strategy": (
        lambda s: not isinstance(s, str) or s in ("auto", *StrategyRegistry.available_strategies()),
        "auto, ddp, or the name of another of Lightning's strategies",
    ),
    "profiler": (lambda p: not isinstance(p, str) or p in _PROFILERS, f"{', '.join(_PROFILERS)} or a class path"),
    **{f"limit_{kind}_batches": (_is_share, _SHARE) for kind in ("train", "val", "test", "predict")},
    "overfit_batches": (_is_share, _SHARE),
    "val_check_interval": (lambda value: _is_share(value) or _is_time(value), f"{_SHARE}, or a time"),
    "gradient_clip_algorithm": (lambda name: name in ("norm", "value"), "norm or value"),
}
