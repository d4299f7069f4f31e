"""A long run of persistent CD, whose memory and open files must not grow."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.robust.server import ROOT, SMALL, Outcome, kill, last_line, last_step, start

STEPS = 100_000
GROWTH = 1.02  # of the memory, from a fifth of the steps to the end
OPTIONS = [
    *("--data=datamodules.Digits", "--data.binarize=true", "--data.batch_size=20", "--model.energy.num_hidden=16"),
    *("--model.num_steps=1", "--trainer.max_epochs=-1", "--trainer.log_every_n_steps=50", "--name=long"),
    *("--callbacks.AIS=false", "--callbacks.SampleGrid=false", "--trainer.limit_val_batches=0"),
    "--callbacks.ModelCheckpoint.every_n_epochs=20",
]


def endurance(steps: int = STEPS) -> Outcome:
    """Trains so many steps, and looks at the process ten times a second."""
    folder = Path(tempfile.mkdtemp(prefix="ebmlab-endurance-"))
    small = [option for option in SMALL if "limit" not in option and "max_epochs" not in option and "log" not in option]
    config = str(ROOT / "configs" / "rbm_mnist.yaml")
    child = start(["fit", "--config", config, *small, *OPTIONS, f"--trainer.max_steps={steps}"], folder)
    seen: list[tuple[int, int, int]] = []  # step, bytes of memory, open files
    begin, code = time.monotonic(), None
    while time.monotonic() - begin < 3600:
        finished, status = os.waitpid(child, os.WNOHANG)
        if finished:
            code = os.waitstatus_to_exitcode(status)
            break
        if (step := last_step(folder / "runs" / "rbm_mnist" / "long")) is not None:
            size = _size(child)
            seen += [(step, *size)] if size else []
        time.sleep(0.1)
    else:
        kill(child)
    late = [entry for entry in seen if entry[0] >= steps / 5]
    fault = (None if code == 0 else f"exit code {code}") or grows(late)
    text = last_line(folder)
    if late and code == 0:
        (first, memory, files), (_, memory_then, files_then) = late[0], late[-1]
        text = (
            f"{steps:,} steps in {time.monotonic() - begin:.0f} s: {memory / 2**20:.1f} MiB and {files} open files at "
            f"step {first:,}, {memory_then / 2**20:.1f} MiB and {files_then} at the end"
        )
    shutil.rmtree(folder)
    return Outcome("endurance", code, text, fault)


def grows(seen: Sequence[tuple[int, float, int]]) -> str | None:
    """Compares the last quarter of what was seen, of step, memory and open files, with the first quarter."""
    if len(seen) < 10:
        return "the run was too short to tell"
    quarter = len(seen) // 4
    first, last = seen[:quarter], seen[-quarter:]
    if max(memory for _, memory, _ in last) > GROWTH * max(memory for _, memory, _ in first):
        return "memory grows"
    return "open files grow" if max(f for _, _, f in last) > max(f for _, _, f in first) else None


def _size(process: int) -> tuple[int, int] | None:
    """Resident memory of a process in bytes, and the number of its open files; None if it has ended."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
        if not pages:
            return None
        return pages * os.sysconf("SC_PAGE_SIZE"), len(os.listdir(f"/proc/{process}/fd"))
    except (OSError, IndexError):
        return None
