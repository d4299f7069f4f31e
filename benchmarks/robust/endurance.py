"""A long run of persistent CD, whose memory and open files must not grow."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path

from benchmarks.robust.server import ROOT, SMALL, Outcome, kill, last_line, start

STEPS = 100_000
GROWTH = 1.02  # of the memory, from a fifth of the steps to the end
OPTIONS = [
    *("--model.num_steps=1", "--model.energy.num_hidden=8", "--model.chains=ebmlab.learners.ReplayBuffer"),
    *("--model.chains.size=100", "--data.batch_size=20", "--trainer.max_epochs=-1", "--trainer.log_every_n_steps=500"),
    *("--callbacks.FID=false", "--callbacks.SampleGrid=false", "--callbacks.ParameterImages=false", "--name=long"),
    *("--callbacks.ModelCheckpoint.every_n_epochs=20", "--trainer.limit_val_batches=0", "--model.lr_scheduler=null"),
]


def endurance(steps: int = STEPS) -> Outcome:
    """Trains so many steps, and looks at the process ten times a second."""
    folder = Path(tempfile.mkdtemp(prefix="ebmlab-endurance-"))
    small = [option for option in SMALL if "limit" not in option and "max_epochs" not in option and "log" not in option]
    config = str(ROOT / "configs" / "grbm_digits.yaml")
    child = start(["fit", "--config", config, *small, *OPTIONS, f"--trainer.max_steps={steps}"], folder)
    seen: list[tuple[int, int, int]] = []  # step, bytes of memory, open files
    begin, code = time.monotonic(), None
    while time.monotonic() - begin < 3600:
        finished, status = os.waitpid(child, os.WNOHANG)
        if finished:
            code = os.waitstatus_to_exitcode(status)
            break
        if (step := _step(folder)) is not None:
            seen.append((step, *_size(child)))
        time.sleep(0.1)
    else:
        kill(child)
    late = [entry for entry in seen if entry[0] >= steps / 5]
    fault = None if code == 0 else f"exit code {code}"
    if len(late) < 10:
        fault = fault or "the run was too short to tell"
        return Outcome("endurance", code, last_line(folder), fault)
    quarter = max(1, len(late) // 4)
    first, last = (max(memory for _, memory, _ in part) for part in (late[:quarter], late[-quarter:]))
    files = [max(count for _, _, count in part) for part in (late[:quarter], late[-quarter:])]
    if last > GROWTH * first or files[1] > files[0]:
        fault = fault or "memory or open files grow"
    text = (
        f"{steps:,} steps in {time.monotonic() - begin:.0f} s: {first / 2**20:.1f} MiB and {files[0]} open files from "
        f"step {late[0][0]:,} on, {last / 2**20:.1f} MiB and {files[1]} at the end"
    )
    shutil.rmtree(folder)
    return Outcome("endurance", code, text, fault)


def _step(folder: Path) -> int | None:
    """The step of the last row of metrics.csv."""
    path = folder / "runs" / "grbm_digits" / "long" / "metrics.csv"
    try:
        with path.open("rb") as file:
            file.seek(max(path.stat().st_size - 1000, 0))
            first = file.read().rsplit(b"\n", 2)[-2].partition(b",")[0]
    except (OSError, IndexError):
        return None
    return int(first) if first.isdigit() else None


def _size(process: int) -> tuple[int, int]:
    """Resident memory of a process in bytes, and the number of its open files."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE"), len(os.listdir(f"/proc/{process}/fd"))
    except (OSError, IndexError):
        return 0, 0
