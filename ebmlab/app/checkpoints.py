"""Checkpoints: written whole, read with their checksum, and held against the model that is to take them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from jsonargparse import Namespace
from lightning_fabric.plugins.io.torch_io import TorchCheckpointIO
from pytorch_lightning.utilities import rank_zero_warn

from ebmlab.app.run_folder import LAST, RUNS, check_name, checkpoints_of, in_a_run, newest_run, run_of
from ebmlab.errors import UserError
from ebmlab.files import load_checkpoint, save


class WholeCheckpoints(TorchCheckpointIO):
    """Writes a checkpoint beside its place and moves it there when it is whole and on the disk.

    Lightning's own writes to the temporary folder and copies: a kill, or a full disk, leaves a torn file under the
    final name, and the good one that was there before is lost.
    """

    def save_checkpoint(self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any | None = None) -> None:
        """Writes to a local file; an address goes to Lightning's own."""
        if "://" in str(path):
            super().save_checkpoint(checkpoint, path, storage_options)
        else:
            save(checkpoint, Path(path), sync=True)

    def load_checkpoint(
        self,
        path: str | Path,
        map_location: Callable[..., Any] | None = None,
        weights_only: bool | None = True,
    ) -> dict[str, Any]:
        """Reads plain data only, whatever `weights_only` says; tensors on the CPU."""
        if "://" in str(path):
            return super().load_checkpoint(path, map_location, weights_only=True)
        return load_checkpoint(Path(path))


def find_checkpoint(ckpt_path: str, experiment: str, name: str | None) -> tuple[Path, dict[str, Any]]:
    """Resolves `--ckpt_path` and reads the checkpoint.

    Args:
        ckpt_path: a file, or `last` for the newest run of the experiment (or the run called `name`).
        experiment: the config's name.
        name: of a run.

    Returns:
        The file and its content. A damaged `last.ckpt` is replaced by the run's newest that can be read, with a
        warning.

    Raises:
        UserError: there is no checkpoint, or none that can be read.
    """
    path = Path(ckpt_path)
    if ckpt_path == "last":
        paths = checkpoints_of(newest_run(experiment, name))
    elif path.name == LAST and path.is_file() and in_a_run(path):
        paths = checkpoints_of(run_of(path))
    else:
        paths = [path]
    for candidate in paths:
        try:
            checkpoint = load_checkpoint(candidate)
        except UserError as error:
            if len(paths) == 1:
                raise
            rank_zero_warn(str(error))
        else:
            if candidate != paths[0]:
                rank_zero_warn(f"goes on from {candidate}, the newest checkpoint of the run that can be read")
            return candidate, checkpoint
    raise UserError(f"none of the checkpoints in {paths[0].parent} can be read: delete the run, or bring one back")


def resumed(experiment: str, name: str | None, ckpt_path: str | None) -> str | None:
    """What `--ckpt_path` is under `--resume auto`: `last` where the run has checkpoints, nothing where it has none yet.

    Raises:
        UserError: no name says which run, or a checkpoint is named, too.
    """
    if name is None or ckpt_path:
        mend = "say which run by --name" if name is None else "leave --ckpt_path out"
        raise UserError(f"--resume auto starts a run or goes on with it, wherever it stopped: {mend}")
    check_name(name)
    return "last" if checkpoints_of(RUNS / experiment / name) else None


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
