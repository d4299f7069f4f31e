"""Modules whose checkpoints say how to make them again, which `load_from_checkpoint` does."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Literal, Self

import pytorch_lightning as pl
from pytorch_lightning.utilities import rank_zero_warn

from ebmlab.errors import UserError, one_line
from ebmlab.io.files import load_checkpoint
from ebmlab.io.old_names import current_settings
from ebmlab.io.plain import make_plain, require_finite
from ebmlab.io.rebuilding import Indescribable, Recorded, arguments, describe, find, path_of, rebuild

CLASS_PATH, MISSING = "_class_path", "_missing"  # keys of a checkpoint's hyper-parameters; the first is Lightning's
MAKERS = ("optimizer", "lr_scheduler")  # of which a model that is not trained again has no use


class Rebuilt(Recorded, pl.LightningModule):
    """A `LightningModule` that every trainer's checkpoint describes, whether Python or a config has made it.

    The command line saves its config. A module that is made in Python is described by the arguments of its parts (see
    `ebmlab.io.rebuilding.describe`). Arguments that plain data cannot describe are listed under `_missing`, with a
    warning: such a checkpoint is not loaded without them.
    """

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Saves how to make the module again, and makes plain data of NumPy's numbers in the checkpoint."""
        if CLASS_PATH not in checkpoint.get("hyper_parameters", {}):
            checkpoint["hyper_parameters"] = self._description()
        for place, kind in make_plain(checkpoint):
            rank_zero_warn(f"checkpoints of this run cannot be read again: {place} is a {kind}, which is no plain data")

    def _description(self) -> dict[str, Any]:
        described: dict[str, Any] = {CLASS_PATH: path_of(self._made_with[0]), MISSING: {}}
        for name, value in arguments(self).items():
            try:
                described[name] = describe(value)
            except Indescribable as error:
                described[MISSING][name] = str(error)
        if lost := {name: kind for name, kind in described[MISSING].items() if name not in MAKERS}:
            rank_zero_warn(
                f"checkpoints of this run lack a setting ({_list(lost)}, which is no plain data): load them by "
                "ebmlab.load(path, learner)"
            )
        return described

    @classmethod
    def load_from_checkpoint(  # type: ignore[override]
        cls,
        checkpoint_path: str | Path,
        map_location: Any = "cpu",
        weights_only: Literal[True] = True,
        **changes: Any,
    ) -> Self:
        """Makes the module of a checkpoint again, with its parameters, but without optimizer states and chains.

        Nothing in the file is executed, and only classes of ebmlab, torch and imported modules are made.

        Args:
            checkpoint_path: a file that a trainer saved.
            map_location: the device.
            weights_only: the file is always read as plain data.
            **changes: arguments that replace the checkpoint's.

        Raises:
            UserError: the file cannot be read, or it does not say how to make the module.
        """
        path = Path(checkpoint_path)
        checkpoint = load_checkpoint(path)
        learner = cls.from_content(path, checkpoint, changes)
        fill(learner, checkpoint, path)
        return learner.to(map_location)

    @classmethod
    def from_content(cls, path: Path, checkpoint: dict[str, Any], changes: dict[str, Any] | None = None) -> Self:
        """Makes the module that a checkpoint describes, with new parameters; errors as in `load_from_checkpoint`."""
        given, changes = checkpoint.get("hyper_parameters"), changes or {}
        saved = dict(given) if isinstance(given, dict) else {}
        mend = "build it as for its training, and call ebmlab.load(path, learner)"
        kept, lost = (current_settings(str(saved.get(CLASS_PATH)), part) for part in (saved, saved.pop(MISSING, {})))
        missing = {name: kind for name, kind in lost.items() if name not in changes}
        makers = {name: partial(_not_saved, name, missing.pop(name)) for name in MAKERS if name in missing}
        saved = {name: value for name, value in kept.items() if name != "_instantiator"} | changes
        if CLASS_PATH not in saved or missing:
            reason = f"its {_list(missing)}" if missing else "it has no settings"
            raise UserError(f"{path} cannot be rebuilt as a learner ({reason}, which no checkpoint describes): {mend}")
        try:
            kind = find(saved.pop(CLASS_PATH))
            if not isinstance(kind, type) or not issubclass(kind, cls):
                raise UserError(f"it was trained by {kind.__qualname__}, which is no {cls.__name__}")
            return kind(**{name: rebuild(value) for name, value in saved.items()}, **makers)
        except (TypeError, ValueError, AttributeError, RuntimeError, UserError) as error:
            raise UserError(f"{path} cannot be rebuilt as a learner ({one_line(error)}): {mend}") from error


def fill(learner: pl.LightningModule, checkpoint: dict[str, Any], path: Path) -> None:
    """Loads the parameters of a checkpoint; raises `UserError` if they do not fit, or are not finite."""
    require_finite(checkpoint["state_dict"], path, dict(learner.named_parameters()))
    try:
        learner.load_state_dict(checkpoint["state_dict"])
    except (RuntimeError, AttributeError, TypeError) as error:
        reason = one_line(error).partition("Error(s) in loading state_dict for ")[2] or one_line(error)
        raise UserError(
            f"{path} cannot be rebuilt as a learner ({reason}): its parameters are of another model"
        ) from error


def _not_saved(name: str, kind: str, *_: Any) -> None:
    """Stands for an optimizer or schedule that the checkpoint does not describe, and refuses to be one."""
    raise UserError(
        f"the checkpoint does not describe its {name}, a {kind}: give load_from_checkpoint(..., {name}=...)"
    )


def _list(missing: dict[str, str]) -> str:
    return ", ".join(f"{name} is a {kind}" for name, kind in missing.items())
