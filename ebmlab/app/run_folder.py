"""The folder of a run, `runs/<config>/<name or timestamp>/`, which one process at a time may use."""

from __future__ import annotations

import fcntl
import os
import re
import shlex
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from ebmlab.app.own_configs import BESIDE, is_text
from ebmlab.app.own_runs import must_be_named
from ebmlab.app.words import options
from ebmlab.errors import UserError
from ebmlab.io.files import remove_temporaries
from ebmlab.io.folders import make_folder
from ebmlab.io.zoo import name_of
from ebmlab.numerics.launch import launched_rank

RUNS = Path("runs")
CONFIG = "config.yaml"
CHECKPOINTS = "checkpoints"
LAST = "last.ckpt"
SOLUTION = "solution.json"  # of `solve`
REQUEUED = "hpc_ckpt_*.ckpt"  # of Lightning on SLURM
_HANDED_DOWN = "EBMLAB_RUN_FOLDER"
_REMAINS = (CONFIG, "wandb", CHECKPOINTS)  # all that a run leaves if it ends before its first step
_held: dict[Path, int] = {}  # folders that this process has locked, and the descriptors that hold the locks
_made: set[Path] = set()  # folders that this process has made


def config_name(args: Sequence[str]) -> str:
    """The name of the experiment: the file name of the first `--config`, without `.yaml`.

    For the resolved config of a run, `runs/<config>/<name>/config.yaml`, it is the name of that run's experiment.
    """
    for option, value in options(args):
        if option in ("-c", "--config"):
            if is_text(text := value.removeprefix(BESIDE)):
                return "unnamed"
            path = Path(text).absolute()
            return path.parent.parent.name if path.name == CONFIG else path.stem
    return "unnamed"


def check_name(name: str) -> None:
    """Raises `UserError` unless the name is safe as the name of a folder."""
    if not name or len(os.fsencode(name)) > 200 or name[0] in ".~" or re.search(r"[/\\\x00-\x1f\x7f]", name):
        shown = name if len(name) < 60 else f"{name[:50]}... ({len(name)} characters)"
        raise UserError(
            f"--name is {shown!r}, but must be the name of a folder: at most 200 characters, without slashes, "
            "not beginning with a dot or tilde"
        )


def new_run(experiment: str, name: str | None, again: bool = False) -> Path:
    """Makes and locks the folder of a new run. Processes that a strategy launches use the first process's folder.

    Args:
        experiment: the config's name.
        name: of the run; None names it after the time.
        again: allow a folder whose run ended before its first checkpoint.

    Raises:
        UserError: a run of that name exists, the name is not valid, or processes launched by torchrun or SLURM have no
            name to agree on.
    """
    if name is not None:
        check_name(name)
    if handed_down := os.environ.get(_HANDED_DOWN, "") if "LOCAL_RANK" in os.environ else "":
        return Path(handed_down)
    rank = launched_rank()  # of torchrun or SLURM; None in a process that launches its own
    if rank is not None and name is None:
        raise UserError("give the run a --name: processes that torchrun or SLURM launches share a folder by it")
    folder = RUNS / experiment / name if name else _timed(RUNS / experiment)
    if not rank:
        claim(folder)
        begun = any(path.name not in _REMAINS for path in folder.iterdir())
        require_no_run(folder, "--name")
        if begun and not again:
            raise UserError(
                f"{folder} exists already and ended before its first checkpoint: choose another --name, delete it, or "
                "begin it again with --resume auto"
            )
    os.environ[_HANDED_DOWN] = str(folder)
    return folder


def require_no_run(folder: Path, option: str = "--trainer.default_root_dir") -> None:
    """Raises `UserError` if a folder that an option has chosen for a new run holds the checkpoints of another one."""
    if checkpoints_of(folder):
        raise UserError(f"{folder} exists already: choose another {option}, or continue that run with --resume auto")


def _timed(parent: Path) -> Path:
    """Makes a folder named after the time; a number is appended if the name is taken."""
    stamp = datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
    for count in range(1, 1000):
        folder = parent / (stamp if count == 1 else f"{stamp}-{count}")
        with suppress(FileExistsError):
            _make(parent)
            _make(folder, again=False)
            return folder
    raise UserError(f"{parent} has a thousand runs of this second: give the run a --name")


def _make(folder: Path, again: bool = True) -> None:
    """Makes a folder and its parents, and remembers which were missing; without `again` it must not exist."""
    _made.update(make_folder(folder.absolute(), again))


def claim(folder: Path) -> None:
    """Makes a folder if it is missing, and locks it against other processes until `release` or the end of this one.

    Raises:
        UserError: another process has locked it.
    """
    folder = folder.absolute()
    while folder not in _held:
        _make(folder)
        try:
            descriptor = os.open(folder, os.O_RDONLY)
        except FileNotFoundError:  # another process has just removed it
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
        else:  # another process has removed it meanwhile
            os.close(descriptor)


def release() -> None:
    """Unlocks all folders, and removes the empty ones that this process has made."""
    while _held:
        folder, descriptor = _held.popitem()
        with suppress(OSError):  # not empty
            for path in (folder, *folder.parents):
                if path not in _made:
                    break
                path.rmdir()
                _made.discard(path)
        os.close(descriptor)


def held() -> Path | None:
    """The folder that this process has locked, if any."""
    return next((_short(folder) for folder in _held), None)


def how_to_go_on(args: Sequence[str], kept: str) -> str:
    """Says how to go on after a signal has ended a command; `kept` says what there is besides the run, or is empty."""
    if (folder := held()) is None:
        ended = "trials that have ended are kept" if args[0] == "sweep" else "nothing was kept"
        return f"{kept or ended}; give the same command again"
    name = shlex.quote(folder.name)
    if args[0] == "solve":
        found = f"the best that was found is in {folder}; go on with the same command and --resume --name {name}"
        return found if (folder / SOLUTION).is_file() else "nothing was found yet; give the same command again"
    kept = kept and f"{kept}; "
    if args[0] == "sample":
        return f"{kept}go on with the same command and --resume true --name {name}"
    return f"{kept}go on with python -m ebmlab {continuation(folder)}"


def continuation(folder: Path) -> str:
    """The command that continues a run, whether or not it has a checkpoint."""
    elsewhere = folder.absolute().parent.parent != RUNS.absolute()
    which = ["--trainer.default_root_dir", str(folder)] if elsewhere else ["--name", folder.name]
    named = f"{shlex.join(which)} --resume auto"
    return f"fit --config {shlex.quote(str(folder / CONFIG))} {named}" if checkpoints_of(folder) else f"fit ... {named}"


def _close_in_child() -> None:
    """Unlocks folders in a child process: a worker that outlives a killed run must not keep the folder locked."""
    while _held:
        os.close(_held.popitem()[1])


os.register_at_fork(after_in_child=_close_in_child)


def checkpoints_of(folder: Path) -> list[Path]:
    """The checkpoints of a run: `last.ckpt` first, then the others from new to old.

    Before `last.ckpt` come those that are newer and that Lightning has saved in the run's folder when SLURM ended it.
    """
    paths = [path for path in (folder / CHECKPOINTS).glob("[!.]*.ckpt") if path.is_file()]
    requeued = [path for path in folder.glob(REQUEUED) if path.is_file()]
    first = [path for path in paths if path.name == LAST] + requeued
    return [*_from_new_to_old(first), *_from_new_to_old([path for path in paths if path not in first])]


def _from_new_to_old(paths: list[Path]) -> list[Path]:
    return sorted(paths, key=lambda path: path.stat().st_mtime_ns, reverse=True)


class Place(NamedTuple):
    """Where a run is.

    Attributes:
        experiment: the config's name.
        name: the run's; None is any.
        folder: the run's own, wherever it is; None is the one of that name.
    """

    experiment: str
    name: str | None
    folder: Path | None = None

    def runs(self) -> list[Path]:
        """The folders of all such runs."""
        if self.folder is not None:
            return [self.folder]
        parent = RUNS / self.experiment
        return [parent / self.name] if self.name else [path for path in parent.glob("*") if path.is_dir()]


def newest_run(place: Place) -> Path:
    """The run in a place that has the newest checkpoint.

    Raises:
        UserError: there is no run to continue.
    """
    runs = place.runs()
    begun = [(max(path.stat().st_mtime_ns for path in found), run) for run in runs if (found := checkpoints_of(run))]
    if not begun:
        where = (place.folder or RUNS / place.experiment / (place.name or "*")) / CHECKPOINTS
        raise UserError(
            f"--ckpt_path last: no checkpoint in {where} to continue from; leave the option out to start a new run"
        )
    return max(begun)[1]


def in_a_run(checkpoint: Path) -> bool:
    """Whether a checkpoint is in a run's folder of checkpoints. A run that continues a copy elsewhere is a new run."""
    folder = checkpoint.absolute().parent
    return folder.name == CHECKPOINTS or (checkpoint.match(REQUEUED) and (folder / CONFIG).is_file())


def run_of(checkpoint: Path) -> Path:
    """The run folder that a checkpoint belongs to: for a copy the folder that it is in, for the zoo `runs/zoo/NAME`."""
    if (name := name_of(checkpoint)) is not None:
        return RUNS / "zoo" / name
    folder = checkpoint.absolute().parent
    return _short(folder.parent if folder.name == CHECKPOINTS else folder)


def continued_run(checkpoint: Path, args: Sequence[str]) -> Path:
    """The run that goes on from a checkpoint in its folder; a `--name` of another run would be in vain.

    Raises:
        UserError: the arguments name another run.
    """
    folder = run_of(checkpoint)
    name = dict(options(args)).get("--name", folder.name)  # the last of several counts
    if name != folder.name:
        raise UserError(
            f"--name {name}: {_short(checkpoint)} is in the folder of the run {folder.name}, which goes on; "
            "leave --name out, or start a new run from a copy elsewhere"
        )
    return folder


def contents(folder: Path) -> list[str]:
    """Lines that say where the run's files are and what to do next."""
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
        config = ["--config", str(folder / CONFIG)] if must_be_named(folder / CONFIG) else []
        words = ["python", "-m", "ebmlab", "predict", *config, "--ckpt_path", str(last)]
        lines.append(f"  sample     {shlex.join(words)}")
    runs = (folder / "wandb").glob("offline-run-*")
    return lines + [f"  upload     {shlex.join(['wandb', 'sync', str(run)])}" for run in runs]


def _short(folder: Path) -> Path:
    return Path(os.path.relpath(folder))
