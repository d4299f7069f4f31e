"""Where a run keeps its files: `runs/<config>/<name or timestamp>/`, and how a later command finds it again."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from lightning_fabric.utilities.rank_zero import _get_rank

from ebmlab.errors import UserError

RUNS = Path("runs")
CONFIG = "config.yaml"
_HANDED_DOWN = "EBMLAB_RUN_FOLDER"


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


def new_run(experiment: str, name: str | None) -> Path:
    """A folder for a new run; processes that a distributed strategy launches get their parent's.

    Raises:
        UserError: a run of that name exists, the name is a path, or processes that someone else launched cannot agree
            on one.
    """
    if name is not None and Path(name).name != name:
        raise UserError(f"--name is {name!r}, but must be the name of a folder, without slashes")
    if handed_down := os.environ.get(_HANDED_DOWN, "") if "LOCAL_RANK" in os.environ else "":
        return Path(handed_down)
    rank = _get_rank()  # of torchrun or SLURM; None in a process that launches its own
    if rank is not None and name is None:
        raise UserError("give the run a --name: processes that torchrun or SLURM launches share a folder by it")
    folder = RUNS / experiment / (name or datetime.now().strftime("%Y-%m-%d_%H-%M-%S"))
    if not rank and folder.exists() and any(path.name not in (CONFIG, "wandb") for path in folder.iterdir()):
        started = (folder / "checkpoints" / "last.ckpt").exists()
        mend = (
            "continue that run with --ckpt_path last" if started else "delete it (it ended before its first checkpoint)"
        )
        raise UserError(f"{folder} exists already: choose another --name, or {mend}")
    os.environ[_HANDED_DOWN] = str(folder)
    return folder


def in_a_run(checkpoint: Path) -> bool:
    """Whether it lies where a run put it, and not where someone copied it: what goes on from a copy is a new run."""
    return checkpoint.absolute().parent.name == "checkpoints"


def run_of(checkpoint: Path) -> Path:
    """The run folder that a checkpoint belongs to; of a copy, the folder that it lies in."""
    folder = checkpoint.absolute().parent
    return Path(os.path.relpath(folder.parent if in_a_run(checkpoint) else folder))


def find_checkpoint(ckpt_path: str, experiment: str, name: str | None) -> Path:
    """Resolves `--ckpt_path`: a file, or `last` for the newest run of the experiment (or the run called `name`).

    Raises:
        UserError: there is no run to continue.
    """
    if ckpt_path != "last":
        return Path(ckpt_path)
    pattern = f"{name or '*'}/checkpoints/last.ckpt"
    found = sorted((RUNS / experiment).glob(pattern), key=lambda p: p.stat().st_mtime)
    if not found:
        raise UserError(
            f"--ckpt_path last: no {RUNS / experiment / pattern} to continue; leave the option out to start a new run"
        )
    return found[-1]


def contents(folder: Path) -> list[str]:
    """Where everything is, a line each, and what to do next."""
    last = folder / "checkpoints" / "last.ckpt"
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
