"""Files that are written whole or not at all, and checkpoints that are read safely."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from ebmlab.errors import UserError


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Yields a temporary path beside `path`, and moves what was written there to `path` if nothing failed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


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
