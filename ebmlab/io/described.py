"""What a trainer's checkpoint says of the learner that wrote it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from ebmlab.errors import UserError, one_line
from ebmlab.io.old_names import current_settings
from ebmlab.io.plain import require_finite

CLASS_PATH, MISSING = "_class_path", "_missing"  # keys of a checkpoint's hyper-parameters; the first is Lightning's
MAKERS = ("optimizer", "lr_scheduler")  # of which a model that is not trained again has no use
MEND = "build it as for its training, and call ebmlab.load(path, learner)"


def described(
    path: Path, checkpoint: Mapping[str, Any], changes: Mapping[str, Any] | None = None
) -> tuple[str, dict[str, Any]]:
    """The class path of the learner, and its settings under today's names, as plain data.

    Args:
        path: of the checkpoint, for errors.
        checkpoint: its content.
        changes: settings that replace the checkpoint's.

    Raises:
        UserError: the checkpoint does not say how to make the learner.
    """
    given, changes = checkpoint.get("hyper_parameters"), changes or {}
    saved = dict(given) if isinstance(given, dict) else {}
    kept, lost = (current_settings(str(saved.get(CLASS_PATH)), part) for part in (saved, saved.pop(MISSING, {})))
    missing = {name: kind for name, kind in lost.items() if name not in changes}
    makers = {name: partial(_not_saved, name, missing.pop(name)) for name in MAKERS if name in missing}
    if CLASS_PATH not in saved or missing:
        reason = f"its {listed(missing)}" if missing else "it has no settings"
        raise UserError(f"{path} cannot be rebuilt as a learner ({reason}, which no checkpoint describes): {MEND}")
    settings = {name: value for name, value in kept.items() if name not in ("_instantiator", CLASS_PATH)}
    return saved[CLASS_PATH], settings | makers | dict(changes)


@contextmanager
def rebuilding(path: Path) -> Iterator[None]:
    """Makes a `UserError` that names the checkpoint of what goes wrong while its learner is made."""
    try:
        yield
    except UserError as error:
        if not error.option:
            raise UserError(f"{path} cannot be rebuilt as a learner ({error}): {MEND}") from error
        raise UserError(f"{path}: {error}", option=error.option) from error  # the option mends it
    except (TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise UserError(f"{path} cannot be rebuilt as a learner ({one_line(error)}): {MEND}") from error


def fill(model: nn.Module, checkpoint: Mapping[str, Any], path: Path) -> None:
    """Loads the parameters of a checkpoint; raises `UserError` if they do not fit, or are not finite."""
    require_finite(checkpoint["state_dict"], path, dict(model.named_parameters()))
    try:
        model.load_state_dict(checkpoint["state_dict"])
    except (RuntimeError, AttributeError, TypeError) as error:
        reason = one_line(error).partition("Error(s) in loading state_dict for ")[2] or one_line(error)
        raise UserError(
            f"{path} cannot be rebuilt as a learner ({reason}): its parameters are of another model"
        ) from error


def listed(missing: Mapping[str, str]) -> str:
    """Settings and the types that no checkpoint describes, as words."""
    return ", ".join(f"{name} is a {kind}" for name, kind in missing.items())


def _not_saved(name: str, kind: str, *_: Any) -> None:
    """Stands for an optimizer or schedule that the checkpoint does not describe, and refuses to be one."""
    raise UserError(
        f"the checkpoint does not describe its {name}, a {kind}: give load_from_checkpoint(..., {name}=...)"
    )
