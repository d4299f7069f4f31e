"""Checkpoints: read safely, and held against the model that is to take them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from jsonargparse import Namespace
from pytorch_lightning.utilities import rank_zero_warn

from ebmlab.errors import UserError


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Reads a checkpoint safely, tensors on the CPU.

    Raises:
        UserError: there is no such file, or it is not a checkpoint, or it is damaged.
    """
    if not path.is_file():
        raise UserError(f"--ckpt_path {path}: no such file; give a .ckpt file, or `last` for the newest run's")
    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises half a dozen types here
        first = (str(error).splitlines() or [""])[0].split(". ")[0][:120]
        raise UserError(
            f"{path} cannot be read as a checkpoint ({type(error).__name__}: {first}): it is none, or damaged; use "
            "another file of that run"
        ) from error
    if not isinstance(checkpoint, dict) or "state_dict" not in checkpoint:
        raise UserError(f"{path} is not a Lightning checkpoint: it has no state_dict")
    return checkpoint


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
