"""Checkpoints: written completely or not at all, verified by checksum, and compared with the model that loads them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from jsonargparse import Namespace
from lightning_fabric.plugins.io.torch_io import TorchCheckpointIO
from pytorch_lightning.utilities import rank_zero_warn

from ebmlab.app.run_folder import LAST, Place, check_name, checkpoints_of, in_a_run, newest_run, run_of
from ebmlab.errors import UserError
from ebmlab.io.files import load_checkpoint, save
from ebmlab.io.plain import require_finite


class WholeCheckpoints(TorchCheckpointIO):
    """Writes a checkpoint to a temporary name and renames it once it is complete and on the disk.

    Lightning writes to the temporary folder and copies. If the process is killed or the disk is full, this leaves an
    incomplete file under the final name, and the older checkpoint is lost.
    """

    def save_checkpoint(self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any | None = None) -> None:
        """Writes a local file; leaves remote addresses to Lightning."""
        if "://" in str(path):
            super().save_checkpoint(checkpoint, path, storage_options)
        else:
            save(checkpoint, Path(path), sync=True)

    def remove_checkpoint(self, path: str | Path) -> None:
        """Removes a checkpoint of the run. Its path may come from a checkpoint, and must not lead out of the folder."""
        if ".." not in Path(path).parts:
            super().remove_checkpoint(path)

    def load_checkpoint(
        self,
        path: str | Path,
        map_location: Callable[..., Any] | None = None,
        weights_only: bool | None = True,
    ) -> dict[str, Any]:
        """Reads plain data only, whatever `weights_only` is, with tensors on the CPU."""
        if "://" in str(path):
            return super().load_checkpoint(path, map_location, weights_only=True)
        return _where_it_is(load_checkpoint(Path(path)), Path(path).absolute().parent)


def _where_it_is(checkpoint: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The checkpoint of a run whose folder may have been moved, with its files in `folder`.

    Lightning forgets the best score of a run that it finds elsewhere, and keeps a worse checkpoint beside the best. A
    folder that is still there, as one that the config names for a `ModelCheckpoint`, stays as it is.
    """
    states = checkpoint.get("callbacks")
    for state in states.values() if isinstance(states, dict) else ():
        before = state.get("dirpath") if isinstance(state, dict) else None
        if not isinstance(before, str) or os.path.isdir(before):
            continue
        state["dirpath"] = str(folder)
        for name in ("best_model_path", "last_model_path", "kth_best_model_path"):
            state[name] = _here(state.get(name), folder)
        best = state.get("best_k_models")
        scores = [(_here(path, folder), score) for path, score in best.items()] if isinstance(best, dict) else []
        state["best_k_models"] = {path: score for path, score in scores if path}
    return checkpoint


def _here(path: object, folder: Path) -> str:
    """The checkpoint of the same name in a folder; "" if there is none."""
    found = folder / Path(str(path or "")).name
    return str(found) if found.suffix == ".ckpt" and found.is_file() else ""


def find_checkpoint(ckpt_path: str, place: Place) -> tuple[Path, dict[str, Any]]:
    """Resolves `--ckpt_path` and reads the checkpoint.

    Args:
        ckpt_path: a file, or `last` for the newest run of the place.
        place: where the run is.

    Returns:
        The file and its content. If `last.ckpt` is damaged, the newest checkpoint of the run that can be read is
        returned in its place, with a warning.

    Raises:
        UserError: there is no checkpoint, or none that can be read.
    """
    path = Path(ckpt_path)
    if ckpt_path == "last":
        paths = checkpoints_of(newest_run(place))
    elif path.name == LAST and path.is_file() and in_a_run(path):
        paths = [path, *(other for other in checkpoints_of(run_of(path)) if other.absolute() != path.absolute())]
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
    raise UserError(f"none of the checkpoints in {paths[0].parent} can be read: delete the run, or restore one of them")


def resumed(place: Place, ckpt_path: str | None) -> str | None:
    """The value of `--ckpt_path` that `--resume auto` stands for: `last` if the run has checkpoints, else None.

    Raises:
        UserError: the run has no name, or `ckpt_path` is given too.
    """
    nameless = place.name is None and place.folder is None
    if nameless or ckpt_path:
        mend = "say which run by --name" if nameless else "leave --ckpt_path out"
        raise UserError(f"--resume auto starts the run of a name, or continues it: {mend}")
    if place.name is not None:
        check_name(place.name)
    return "last" if any(map(checkpoints_of, place.runs())) else None


def check_weights(model: torch.nn.Module, checkpoint: dict[str, Any], path: str) -> None:
    """Raises `UserError` unless the checkpoint's parameters fit the model, and are finite."""
    saved, wanted = checkpoint["state_dict"], model.state_dict()
    for name in [*wanted, *(key for key in saved if key not in wanted)]:
        here = tuple(wanted[name].shape) if name in wanted else "nothing"
        there = tuple(saved[name].shape) if name in saved else "nothing"
        if here != there:
            raise UserError(
                f"{path} does not fit the config's model: {name} is {there} in the file and {here} in the model"
            )
    require_finite(saved, path, dict(model.named_parameters()))


def warn_of_old_schedule(model: Namespace, checkpoint: dict[str, Any]) -> None:
    """Warns if the config's learning-rate schedule differs from the checkpoint's, which a resumed run uses."""
    settings = (model.init_args.get("lr_scheduler") or {}).get("init_args") or {}
    saved = (checkpoint.get("lr_schedulers") or [{}])[0]
    for key, value in vars(settings).items() if settings else ():
        if key != "last_epoch" and (key, value) != ("T_max", -1) and saved.get(key, value) != value:
            rank_zero_warn(f"lr_scheduler: the run continues with the checkpoint's {key} = {saved[key]}, not {value}")
