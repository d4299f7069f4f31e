"""Where a run keeps its files: `runs/<config>/<name or timestamp>/`, made for one process at a time."""

from __future__ import annotations

import fcntl
import os
import re
import shlex
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from lightning_fabric.utilities.rank_zero import _get_rank

from ebmlab.errors import UserError
from ebmlab.files import remove_temporaries

RUNS = Path("runs")
CONFIG = "config.yaml"
CHECKPOINTS = "checkpoints"
LAST = "last.ckpt"
_HANDED_DOWN = "EBMLAB_RUN_FOLDER"
_REMAINS = (CONFIG, "wandb", CHECKPOINTS)  # what a run that never began may have left
_held: dict[Path, int] = {}  # folders that this process has for itself, and the descriptors that lock them


def config_name(args: Sequence[str]) -> str:
    """The name of the experiment: that of the first `--config` among the command's arguments.

    The resolved config of a run, `runs/<config>/<name>/config.yaml`, has the name of that run's experiment.
    """
    for i, argument in enumerate(args):
        option, _, value = argument.partition("=")
        if option in ("-c", "--config"):
            path = Path(value or args[i + 1]).absolute()
            return path.parent.parent.name if path.name == CONFIG else path.stem
    return "unnamed"


def check_name(name: str) -> None:
    """Raises `UserError` unless a folder can have that name without surprises."""
    if not name or len(os.fsencode(name)) > 200 or name[0] in ".~" or re.search(r"[/\\\x00-\x1f\x7f]", name):
        shown = name if len(name) < 60 else f"{name[:50]}... ({len(name)} characters)"
        raise UserError(
            f"--name is {shown!r}, but must be the name of a folder: at most 200 characters, without slashes, "
            "not beginning with a dot or tilde"
        )


def new_run(experiment: str, name: str | None, again: bool = False) -> Path:
    """Makes the folder of a new run, for this process alone; those that a strategy launches get their parent's.

    Args:
        experiment: the config's name.
        name: the run's, or None for the time.
        again: begin again where a run of that name died before its first checkpoint.

    Raises:
        UserError: a run of that name exists, the name is none of a folder, or processes that someone else launched
            cannot agree on one.
    """
    if name is not None:
        check_name(name)
    if handed_down := os.environ.get(_HANDED_DOWN, "") if "LOCAL_RANK" in os.environ else "":
        return Path(handed_down)
    rank = _get_rank()  # of torchrun or SLURM; None in a process that launches its own
    if rank is not None and name is None:
        raise UserError("give the run a --name: processes that torchrun or SLURM launches share a folder by it")
    folder = RUNS / experiment / name if name else _timed(RUNS / experiment)
    if not rank:
        claim(folder)
        begun = any(path.name not in _REMAINS for path in folder.iterdir())
        if checkpoints_of(folder):
            raise UserError(f"{folder} exists already: choose another --name, or continue that run with --resume auto")
        if begun and not again:
            raise UserError(
                f"{folder} exists already and ended before its first checkpoint: choose another --name, delete it, or "
                "begin it again with --resume auto"
            )
    os.environ[_HANDED_DOWN] = str(folder)
    return folder


def _timed(parent: Path) -> Path:
    """A folder that is named after the second, and after its predecessors of the same second; made at once."""
    stamp = datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
    for count in range(1, 1000):
        folder = parent / (stamp if count == 1 else f"{stamp}-{count}")
        with suppress(FileExistsError):
            parent.mkdir(parents=True, exist_ok=True)
            folder.mkdir()
            return folder
    raise UserError(f"{parent} has a thousand runs of this second: give the run a --name")


def claim(folder: Path) -> None:
    """Makes a folder if need be and keeps other processes from training in it, until `release` or this one's end.

    Raises:
        UserError: another process has it.
    """
    folder = folder.absolute()
    while folder not in _held:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(folder, os.O_RDONLY)
        except FileNotFoundError:  # its owner has just removed it
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise UserError(f"{_short(folder)} is in use by another process: choose another --name") from None
        except OSError:  # a file system without locks
            pass
        if folder.exists() and os.path.samestat(os.fstat(descriptor), folder.stat()):
            _held[folder] = descriptor
            remove_temporaries(folder)
        else:  # its owner has removed it meanwhile
            os.close(descriptor)


def release() -> None:
    """Gives all folders back; those in which nothing was written are removed, as if they had never been."""
    while _held:
        folder, descriptor = _held.popitem()
        with suppress(OSError):  # not empty
            for path in (folder, folder.parent, folder.parent.parent):
                path.rmdir()
                if path.name == RUNS.name:
                    break
        os.close(descriptor)


def held() -> Path | None:
    """The folder that this process has for itself."""
    return next((_short(folder) for folder in _held), None)


def how_to_go_on(folder: Path) -> str:
    """The command that goes on with a run, wherever it stopped."""
    named = f"--name {shlex.quote(folder.name)} --resume auto"
    return f"fit --config {shlex.quote(str(folder / CONFIG))} {named}" if checkpoints_of(folder) else f"fit ... {named}"


def _close_in_child() -> None:
    """Workers that outlive a killed run must not keep its folder locked."""
    while _held:
        os.close(_held.popitem()[1])


os.register_at_fork(after_in_child=_close_in_child)


def checkpoints_of(folder: Path) -> list[Path]:
    """The checkpoints of a run: the last one first, then the others from new to old."""
    paths = [path for path in (folder / CHECKPOINTS).glob("[!.]*.ckpt") if path.is_file()]
    return sorted(paths, key=lambda path: (path.name == LAST, path.stat().st_mtime_ns), reverse=True)


def newest_run(experiment: str, name: str | None) -> Path:
    """The run of an experiment, or of that name, whose checkpoint is the newest.

    Raises:
        UserError: there is no run to continue.
    """
    folder = RUNS / experiment
    runs = [folder / name] if name else [path for path in folder.glob("*") if path.is_dir()]
    begun = [(max(path.stat().st_mtime_ns for path in found), run) for run in runs if (found := checkpoints_of(run))]
    if not begun:
        where = folder / (name or "*") / CHECKPOINTS
        raise UserError(
            f"--ckpt_path last: no checkpoint in {where} to continue from; leave the option out to start a new run"
        )
    return max(begun)[1]


def in_a_run(checkpoint: Path) -> bool:
    """Whether it lies where a run put it, and not where someone copied it: what goes on from a copy is a new run."""
    return checkpoint.absolute().parent.name == CHECKPOINTS


def run_of(checkpoint: Path) -> Path:
    """The run folder that a checkpoint belongs to; of a copy, the folder that it lies in."""
    folder = checkpoint.absolute().parent
    return _short(folder.parent if in_a_run(checkpoint) else folder)


def contents(folder: Path) -> list[str]:
    """Where everything is, a line each, and what to do next."""
    last = folder / CHECKPOINTS / LAST
    places = {
        "run": folder,
        "pictures": folder / "images",
        "metrics": folder / "metrics.csv",
        "checkpoint": last,
        "W&B": folder / "wandb",
    }
    lines = [f"  {what:<10} {path}" for what, path in places.items() if path.exists()]
    if last.exists():
        lines.append(f"  sample     python -m ebmlab predict --ckpt_path {last}")
    return lines + [f"  upload     wandb sync {run}" for run in (folder / "wandb").glob("offline-run-*")]


def _short(folder: Path) -> Path:
    return Path(os.path.relpath(folder))
