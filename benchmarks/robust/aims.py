"""Moments at which a run is killed or its disk is full: during each kind of write."""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

OTHER_DISK = Path("/dev/shm")
When = Literal["before", "after", "torn"]


@dataclass(frozen=True)
class Aim:
    """Where a run is stopped.

    Attributes:
        spoil: prepares the process that is to be stopped.
        code: the exit code that it must have.
        on_tmpfs: the run is in a file system of its own, of so many MiB.
    """

    spoil: Callable[[], None]
    code: int = -signal.SIGKILL
    on_tmpfs: int = 0


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def at_rename(pattern: str, when: When, count: int = 3) -> Callable[[], None]:
    """Kills the process at one rename to a path that matches: before, after, or before with the file cut in half."""

    def spoil() -> None:
        replace, seen = os.replace, [0]

        def spoiled(source: Any, target: Any) -> None:
            seen[0] += bool(re.search(pattern, str(target)))
            if not re.search(pattern, str(target)) or seen[0] != count:
                return replace(source, target)
            if when == "torn":
                os.truncate(source, os.path.getsize(source) // 2)
            if when == "after":
                replace(source, target)
            _die()

        os.replace = spoiled

    return spoil


def in_a_row(count: int = 4) -> None:
    """Kills the process when a part of a row has been added to metrics.csv."""
    from ebmlab.app.loggers import MetricsCSV

    flush, seen = MetricsCSV.flush, [0]

    def spoiled(self: MetricsCSV) -> None:
        file, size = (self._path.stat().st_ino, self._path.stat().st_size) if self._path.exists() else (0, 0)
        flush(self)
        seen[0] += self._path.stat().st_ino == file and self._path.stat().st_size > size  # added, not written anew
        if seen[0] == count:
            os.truncate(self._path, self._path.stat().st_size - 7)
            _die()

    MetricsCSV.flush = spoiled  # type: ignore[method-assign]


def at_removal(count: int = 2) -> None:
    """Kills the process before an older checkpoint is removed."""
    from pytorch_lightning.callbacks import ModelCheckpoint

    remove, seen = ModelCheckpoint._remove_checkpoint, [0]

    def spoiled(self: Any, *args: Any) -> None:
        seen[0] += 1
        if seen[0] == count:
            _die()
        remove(self, *args)

    ModelCheckpoint._remove_checkpoint = spoiled  # type: ignore[method-assign]


def no_space_for(pattern: str, count: int = 3) -> Callable[[], None]:
    """Makes the `count`-th file of a name fail as on a full disk."""

    def spoil() -> None:
        replace, seen = os.replace, [0]

        def spoiled(source: Any, target: Any) -> None:
            if re.search(pattern, str(target)):
                seen[0] += 1
                if seen[0] >= count:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))
            replace(source, target)

        os.replace = spoiled

    return spoil


def fill_the_disk(pattern: str = "last.ckpt", count: int = 2) -> None:
    """Fills the run's file system to the last byte after some checkpoints."""
    replace, seen = os.replace, [0]

    def spoiled(source: Any, target: Any) -> None:
        replace(source, target)
        seen[0] += pattern in str(target)
        if seen[0] == count:
            seen[0] += 1
            with open("ballast", "wb", buffering=0) as file:
                for size in (2**20, 2**10, 1):
                    try:
                        while True:
                            file.write(b"x" * size)
                    except OSError:
                        pass

    os.replace = spoiled


def from_another_disk() -> None:
    """Temporary files are on another file system than the run, and the process dies in the middle of a checkpoint."""
    tempfile.tempdir = str(OTHER_DISK)
    at_rename(r"last\.ckpt$", "torn")()


AIMS = {
    "killed in the middle of last.ckpt": Aim(at_rename(r"last\.ckpt$", "torn")),
    "killed before last.ckpt has its name": Aim(at_rename(r"last\.ckpt$", "before")),
    "killed between epoch=N.ckpt and last.ckpt": Aim(at_rename(r"epoch=.*\.ckpt$", "after")),
    "killed before the first checkpoint": Aim(at_rename(r"epoch=.*\.ckpt$", "before", 1)),
    "killed before an old checkpoint is removed": Aim(at_removal),
    "killed within a row of metrics.csv": Aim(in_a_row),
    "killed while metrics.csv is rewritten": Aim(at_rename(r"metrics\.csv$", "torn", 2)),
    "killed while fid.csv is rewritten": Aim(at_rename(r"fid\.csv$", "before")),
    "killed in the middle of a picture": Aim(at_rename(r"\.png$", "torn", 4)),
    "killed in a checkpoint, temporary files on another disk": Aim(from_another_disk),
    "no space for a checkpoint": Aim(no_space_for(r"\.ckpt$"), 2),
    "no space for a picture": Aim(no_space_for(r"\.png$", 5), 2),
} | ({"a disk of 24 MiB that is full": Aim(fill_the_disk, 2, 24)} if os.geteuid() == 0 else {})


@contextmanager
def room(mib: int) -> Iterator[Path]:
    """A temporary folder, in a file system of its own of so many MiB if that is not 0 (for root only)."""
    folder = Path(tempfile.mkdtemp(prefix="ebmlab-kills-"))
    if mib:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mib}m", "ebmlab", str(folder)], check=True)
    try:
        yield folder
    finally:
        if mib:
            subprocess.run(["umount", "-l", str(folder)], check=True)
        shutil.rmtree(folder)
