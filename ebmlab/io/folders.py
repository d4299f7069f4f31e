"""Folders: those that are made, what is none, and where ebmlab keeps things."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

from ebmlab.errors import UserError, explained


def make_folder(folder: Path, again: bool = True) -> list[Path]:
    """Makes a folder and its parents; returns those that were missing, the innermost first.

    Args:
        folder: to be made.
        again: allow a folder that is there.

    Raises:
        UserError: it is an address, such as `s3://bucket/runs`.
        OSError: it cannot be made. The error names the outermost folder that cannot be made, and why.
    """
    check_is_local(folder)
    lineage = (folder, *folder.parents)
    missing = [path for path in lineage if not path.exists()]
    if missing != [*lineage] and not lineage[len(missing)].is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(lineage[len(missing)]))
    if not (missing or again):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(folder))
    for path in reversed(missing):
        path.mkdir(exist_ok=again or path != folder)
    return missing


def check_is_local(path: Path) -> None:
    """Raises `UserError` for an address, such as `s3://bucket/runs`, which would become a folder called `s3:`."""
    for folder in (path, *path.parents):
        if re.fullmatch(r"[A-Za-z][\w+.-]+:", folder.name) and not folder.exists():
            address = f"{folder.name}//{path.relative_to(folder)}"
            raise UserError(f"{address} is an address, but must be a path of this machine")


def cache_folder() -> Path:
    """Where ebmlab keeps what it computes or fetches once: `$EBMLAB_CACHE`, or `ebmlab` in the user's cache folder.

    That is the one under `$XDG_CACHE_HOME` or `~/.cache`.

    Raises:
        UserError: none of them is known, because the user has no home.
    """
    if folder := os.environ.get("EBMLAB_CACHE"):
        return Path(folder)
    with explained("this user has no home folder: set EBMLAB_CACHE to a folder for what is kept", RuntimeError):
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ebmlab"


def private_folder(name: str) -> Path:
    """Where programs are kept that this user has compiled, on a system that knows users; see `is_private`.

    Raises:
        UserError: see `cache_folder`.
    """
    return cache_folder() / f"{name}-{os.getuid()}"


def is_private(status: os.stat_result) -> bool:
    """Whether nobody but the user can write a file or a folder of this status."""
    return status.st_uid == os.getuid() and not status.st_mode & 0o022
