"""Modules whose checkpoints say how to make them again, which `load_from_checkpoint` does."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Self

import pytorch_lightning as pl
from pytorch_lightning.utilities import rank_zero_warn

from ebmlab.errors import UserError
from ebmlab.io.described import CLASS_PATH, MAKERS, MISSING, described, fill, listed, rebuilding
from ebmlab.io.files import load_checkpoint
from ebmlab.io.plain import make_plain
from ebmlab.io.rebuilding import Indescribable, Recorded, arguments, describe, find, path_of, rebuild


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
        found: dict[str, Any] = {CLASS_PATH: path_of(self._made_with[0]), MISSING: {}}
        for name, value in arguments(self).items():
            try:
                found[name] = describe(value)
            except Indescribable as error:
                found[MISSING][name] = str(error)
        if lost := {name: kind for name, kind in found[MISSING].items() if name not in MAKERS}:
            rank_zero_warn(
                f"checkpoints of this run lack a setting ({listed(lost)}, which is no plain data): load them by "
                "ebmlab.load(path, learner)"
            )
        return found

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
        class_path, settings = described(path, checkpoint, changes)
        with rebuilding(path):
            kind = find(class_path)
            if not isinstance(kind, type) or not issubclass(kind, cls):
                raise UserError(f"it was trained by {kind.__qualname__}, which is no {cls.__name__}")
            return kind(**{name: rebuild(value) for name, value in settings.items()})
