"""One run of a sweep, in a process of its own: a run that fails or dies does not take the study with it."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ebmlab.app.finished_run import Score, read_run
from ebmlab.errors import UserError
from ebmlab.io.folders import make_folder

FIT = [sys.executable, "-m", "ebmlab", "fit"]
PATIENCE = 6.0  # seconds for a run to end when it is told to; then it is killed
PAUSE = 0.5  # seconds between looks at the run's metrics


class TrialFailed(Exception):
    """The run has no score that counts; the message is one line that says why."""


def run_fit(
    options: Sequence[str], folder: Path, log: Path, objective: str, hear: Callable[[Score], bool]
) -> Score | None:
    """Runs `fit`, and follows its scores.

    Args:
        options: of `fit`.
        folder: the run's folder, which `fit` makes.
        log: the file for what it prints.
        objective: the metric to follow.
        hear: called with each trusted score as it appears; says whether to end the run.

    Returns:
        The last score; None if `hear` has ended the run.

    Raises:
        TrialFailed: the run failed, or its last score is missing, not finite or not to be trusted.
    """
    make_folder(log.parent)
    heard, seen = 0, 0
    with log.open("w") as file:
        process = subprocess.Popen([*FIT, *options], stdin=subprocess.DEVNULL, stdout=file, stderr=file)
        try:
            while process.poll() is None:
                time.sleep(PAUSE)
                changed = _changed(folder)
                if changed == seen:
                    continue
                seen = changed
                scores = [score for score in _scores(folder, objective) if _counts(score)]
                for score in scores[heard:]:
                    if hear(score):
                        return None
                heard = len(scores)
        finally:
            _end(process)
    if process.returncode:
        raise TrialFailed(_last_words(log) or f"fit ended with exit code {process.returncode}: see {log}")
    last = next(reversed(_scores(folder, objective)), None)
    if last is None:
        raise TrialFailed(f"{objective} was not logged")
    if not _counts(last):
        raise TrialFailed(f"{objective} is {last}" if last.trusted else f"{objective} is not to be trusted: see {log}")
    return last


def _counts(score: Score) -> bool:
    return score.trusted and math.isfinite(score.value)


def _changed(folder: Path) -> int:
    try:
        return os.stat(folder / "metrics.csv").st_mtime_ns
    except OSError:
        return 0


def _scores(folder: Path, objective: str) -> list[Score]:
    try:
        return read_run(folder).logged.get(objective, [])
    except UserError:  # it has written nothing yet
        return []


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _last_words(log: Path) -> str | None:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.startswith("error: ")]
    return lines[-1].removeprefix("error: ") if lines else None
