"""One error line for all processes of a distributed run, that of the process which failed first."""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ebmlab.numerics.launch import RANKS, launched_rank

_LAUNCH = "EBMLAB_LAUNCH"
_WORLDS = ("WORLD_SIZE", "SLURM_NTASKS", "JSM_NAMESPACE_SIZE")
_PATIENCE = 3.0  # seconds in which the process that failed first has said why
_DAY = 86400.0
_begun: list[Path] = []  # what this process made before it said why the run ends
_LOST_PEER = re.compile(
    r"Connection (closed|reset) by peer|Broken pipe|Timed out waiting|gloo|NCCL|DistBackendError|TCPStore",
    re.IGNORECASE,
)


def name_launch() -> None:
    """Marks the processes that this one may launch as belonging together."""
    if not any(name in os.environ for name in RANKS):
        os.environ[_LAUNCH] = f"{os.getpid()}-{time.time_ns()}"


def speaks(line: str) -> str | None:
    """The line that this process should print; None if another process of the run has said why it ends.

    Args:
        line: what this process would say. Of a lost connection to another process, that one knows the reason.
    """
    alone = all(os.environ.get(name, "1") == "1" for name in _WORLDS)  # Lightning forgets it when it is torn down
    if launched_rank() is None or (alone and _LAUNCH not in os.environ):
        return line
    said = Path(tempfile.gettempdir(), f"ebmlab-{os.getuid()}-{_launch()}.said")
    if _LOST_PEER.search(line):
        _wait(said.exists)
        line = "error: another process of this run has ended without a word: it was killed, or its memory was used up"
    try:
        _remove_old(said)
        os.close(os.open(said, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:  # the process that made it may have been killed before its line was out
        if _wait(lambda: said.exists() and said.stat().st_size > 0):
            return None
    except OSError:
        return line
    _begun.append(said)
    return line


def has_spoken() -> None:
    """The line that `speaks` gave is out: no other process of the run needs to say anything."""
    for said in _begun:
        with suppress(OSError):
            said.write_text("said")


def _wait(happens: Callable[[], bool]) -> bool:
    """Waits until something happens, for no longer than the first process to fail needs to say why; whether it has."""
    end = time.monotonic() + _PATIENCE
    while not happens():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def _launch() -> str:
    """A name that the processes of one launch share: of Lightning's, or of torchrun's and SLURM's parent process."""
    if own := os.environ.get(_LAUNCH):
        return own
    parent = os.getppid()
    try:
        begun = Path(f"/proc/{parent}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        begun = "0"
    return f"{parent}-{begun}"


def _remove_old(said: Path) -> None:
    for path in said.parent.glob(f"ebmlab-{os.getuid()}-*.said"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > _DAY:
                path.unlink()
