"""A fork server: the command line is imported once, and every case runs in a child of its own."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import re
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
HANG = 60.0  # seconds
SMALL = [
    *("--trainer.accelerator=cpu", "--trainer.max_epochs=1", "--trainer.limit_train_batches=2"),
    *("--trainer.limit_val_batches=1", "--wandb=disabled", "--trainer.log_every_n_steps=1"),
]


@dataclass
class Case:
    """One start of the command line.

    Attributes:
        name: of the case in the report.
        args: the command line.
        files: put into the working directory first, by name.
        check: what is wrong with the folder after exit code 0, if anything.
    """

    name: str
    args: list[str]
    files: dict[str, bytes] = field(default_factory=dict)
    check: Callable[[Path], str | None] | None = None


@dataclass
class Outcome:
    """How a case ended; `fault` is None if it ended as it should."""

    name: str
    code: int | None
    last: str
    fault: str | None


def warm_up() -> None:
    """Does in this process what every child would do anew: reads three configs and imports what a training imports."""
    import omegaconf  # noqa: F401
    import sklearn.datasets  # noqa: F401

    from ebmlab.app.cli import main

    before, sys.argv = sys.argv, ["ebmlab"]
    for config in ("grbm_digits", "ebm_digits", "rm_2spirals"):
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
            main(["fit", "--config", str(ROOT / "configs" / f"{config}.yaml"), *SMALL, "--print_config"])
    sys.argv = before


def start(args: list[str], folder: Path, spoil: Callable[[], None] | None = None) -> int:
    """Forks a child that runs the command line in `folder`, its output in `folder`/log; returns its process id.

    Args:
        args: the command line.
        folder: the working directory.
        spoil: called in the child first; it may replace functions by ones that fail or kill the process.
    """
    child = os.fork()
    if child:
        os.setpgid(child, child)  # here too: it may be killed before it has run a line
        return child
    code = 70
    try:
        os.setpgid(0, 0)  # a session of its own would also be scheduled by itself
        os.chdir(folder)
        log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.environ.pop("EBMLAB_RUN_FOLDER", None)
        os.environ["PYTHONPATH"] = str(ROOT)
        sys.modules["__main__"].__spec__ = importlib.util.find_spec("ebmlab.__main__")  # what Lightning launches again
        from ebmlab.app.cli import main

        if spoil is not None:
            spoil()
        warnings.resetwarnings()  # within a test they are errors
        warnings.simplefilter("ignore", DeprecationWarning)
        sys.argv = ["ebmlab"]
        main(args)
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def wait(child: int, seconds: float = 10 * HANG) -> int | None:
    """The exit code of a child; None if it had to be killed after that time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        finished, status = os.waitpid(child, os.WNOHANG)
        if finished:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    kill(child)
    return None


def kill(child: int) -> bool:
    """SIGKILL to a child and its group; whether it was still running."""
    if os.waitpid(child, os.WNOHANG)[0]:
        return False
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


def last_step(run: Path) -> int | None:
    """The step of the last row of a run's metrics.csv, None without one."""
    try:
        with (run / "metrics.csv").open("rb") as file:
            file.seek(max(os.fstat(file.fileno()).st_size - 1000, 0))
            first = file.read().rsplit(b"\n", 2)[-2].partition(b",")[0]
    except (OSError, IndexError):
        return None
    return int(first) if first.isdigit() else None


def last_line(folder: Path) -> str:
    """The last line that a run printed."""
    lines = (folder / "log").read_text(errors="replace").splitlines() if (folder / "log").exists() else []
    return lines[-1][:300] if lines else ""


def judge(case: Case, code: int | None, folder: Path) -> Outcome:
    """A case passes if it trains finite numbers, or says in one line why not."""
    log = (folder / "log").read_text(errors="replace") if (folder / "log").exists() else ""
    errors = [line for line in log.splitlines() if line.startswith("error:")]
    fault = None
    if code is None:
        fault = f"hung for {HANG:.0f} s"
    elif "Traceback (most recent call last)" in log:
        fault = "traceback"
    elif code == 2 and (len(errors) != 1 or len(errors[0]) < 15):
        fault = f"{len(errors)} error lines"
    elif code not in (0, 2):
        fault = f"exit code {code}"
    elif code == 0 and any(re.search(r"[,\n](nan|-?inf)\b", p.read_text()) for p in folder.rglob("metrics.csv")):
        fault = "silent NaN"
    elif code == 2 and re.search(r"\.py, line \d+: \w+Error", errors[0]) and "own_" not in errors[0]:
        fault = "an error of the library's own"
    if fault is None and code == 0 and case.check is not None:
        fault = case.check(folder)
    return Outcome(case.name, code, errors[-1][:300] if errors else last_line(folder), fault)


def run_all(cases: Iterable[Case], each: Callable[[Outcome], None], workers: int = 2) -> None:
    """Runs the cases, a few at a time, and hands each outcome to `each`."""
    todo = list(cases)[::-1]
    running: dict[int, tuple[Case, Path, float]] = {}
    while todo or running:
        while todo and len(running) < workers:
            case = todo.pop()
            folder = Path(tempfile.mkdtemp(prefix="ebmlab-robust-"))
            for name, content in case.files.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(content)
            running[start(case.args, folder)] = (case, folder, time.monotonic())
        for child, (case, folder, begin) in list(running.items()):
            finished, status = os.waitpid(child, os.WNOHANG)
            hung = not finished and time.monotonic() - begin > HANG
            if hung:
                kill(child)
            if finished or hung:
                each(judge(case, None if hung else os.waitstatus_to_exitcode(status), folder))
                del running[child]
                shutil.rmtree(folder, ignore_errors=True)
        time.sleep(0.01)
