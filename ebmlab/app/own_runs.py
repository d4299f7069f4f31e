"""Runs of this user's own, and what is checked before results go into a stranger's."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from ebmlab.app.class_paths import LIBRARY, full_names
from ebmlab.errors import UserError
from ebmlab.io import own_files
from ebmlab.io.files import check_regular, read_text

WRITTEN = ("test", "validate", "samples", "images", "checkpoints", "wandb")  # folders of a run


def keep_own(config: Path) -> bool:
    """Remembers that ebmlab has written a config for this user; returns whether that is possible."""
    return own_files.remember(full_names(read_text(config)))


def is_own(config: Path) -> bool:
    """Whether this user's ebmlab has written a config, which nobody has changed since."""
    try:
        return own_files.is_own(full_names(read_text(config)))
    except (OSError, UnicodeDecodeError):
        return False


def must_be_named(config: Path) -> bool:
    """Whether commands on a run must name its config: it is not known as the user's own, or names classes of theirs."""
    if not is_own(config):
        return True
    paths = re.findall(r"^[\s-]*class_path: (\S+)$", read_text(config), re.MULTILINE)
    return any(not f"{path}.".startswith(tuple(f"{entry}." for entry in LIBRARY)) for path in paths)


def check_links(folder: Path) -> None:
    """Raises `UserError` if a stranger's run, into which results go, holds pipes, or links out of its folder."""
    if is_own(folder / "config.yaml"):
        return
    inside = folder.resolve()
    for path in _entries(folder):
        check_regular(path)
        if path.is_symlink() and not path.resolve().is_relative_to(inside) and not _is_log_of_wandb(path):
            raise UserError(
                f"{path} is a link to {os.readlink(path)}, out of the run's folder: remove it, or name the run's "
                "config by --config if you trust it"
            )


def _is_log_of_wandb(link: Path) -> bool:
    """Whether a link leads to a log in W&B's own cache; wandb 0.31 leaves one in each run, beside the run's logs."""
    from wandb.env import get_cache_dir  # here, because hardly any run of a stranger holds such a link

    return link.resolve().parent == (get_cache_dir() / "logs").resolve()


def _entries(folder: Path) -> Iterator[Path]:
    """All of a run's folder; where a checkpoint merely lies in a folder, what evaluations write into it."""
    if (folder / "checkpoints").is_dir():
        yield from sorted(folder.rglob("*"))
    else:
        yield from (folder / name for name in WRITTEN)
