"""Checkpoints, held against the model that is to take them."""

from __future__ import annotations

from typing import Any

import torch
from jsonargparse import Namespace
from pytorch_lightning.utilities import rank_zero_warn

from ebmlab.errors import UserError


def check_weights(model: torch.nn.Module, checkpoint: dict[str, Any], path: str) -> None:
    """Raises `UserError` unless the checkpoint's parameters fit the model."""
    saved, wanted = checkpoint["state_dict"], model.state_dict()
    for name in [*wanted, *(key for key in saved if key not in wanted)]:
        here = tuple(wanted[name].shape) if name in wanted else "nothing"
        there = tuple(saved[name].shape) if name in saved else "nothing"
        if here != there:
            raise UserError(
                f"{path} does not fit the config's model: {name} is {there} in the file and {here} in the model"
            )


def warn_of_old_schedule(model: Namespace, checkpoint: dict[str, Any]) -> None:
    """A resumed run goes on with the checkpoint's learning-rate schedule, whatever the config says now."""
    settings = (model.init_args.get("lr_scheduler") or {}).get("init_args") or {}
    saved = (checkpoint.get("lr_schedulers") or [{}])[0]
    for key, value in vars(settings).items() if settings else ():
        if key != "last_epoch" and saved.get(key, value) != value:
            rank_zero_warn(f"lr_scheduler: the checkpoint's {key} = {saved[key]} goes on, not the config's {value}")
