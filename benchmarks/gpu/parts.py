"""Runs the parts of a check one after the other, each in a process of its own with its own limit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ebmlab.io.files import write_whole


class Part(NamedTuple):
    """A command and the seconds that it may take.

    Args:
        name: what results call it.
        command: a program and its arguments; exit code 0 says that all is as it should be.
        seconds: after them it is ended, with all that it has started.
    """

    name: str
    command: Sequence[str]
    seconds: float


def run(parts: Sequence[Part], folder: Path, seconds: float) -> bool:
    """Runs parts while there is time, prints what they print, and says at the end what failed or was not reached.

    After each part `results.json` holds, for each part that began, how it ended, its seconds and its last lines. All
    that it printed is in `NAME.txt`. A part that hangs, crashes or is cut loses nothing but itself.

    Args:
        parts: in the order in which they count.
        folder: for both files.
        seconds: of all parts together.

    Returns:
        Whether all parts were run to their ends with exit code 0.
    """
    folder.mkdir(parents=True, exist_ok=True)
    begin, results = time.monotonic(), dict[str, dict[str, object]]()
    for part in parts:
        left = seconds - (time.monotonic() - begin)
        if left <= 0:
            break
        print(f"\n## {part.name}: at most {min(left, part.seconds):.0f} s", flush=True)
        results[part.name] = _result(part, folder / f"{part.name}.txt", min(left, part.seconds))
        write_whole(folder / "results.json", json.dumps(results, indent=1))
    return all([*_summary(parts, results)])


def _result(part: Part, file: Path, seconds: float) -> dict[str, object]:
    begin = time.monotonic()
    with file.open("w") as out:
        process = subprocess.Popen(part.command, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            code = process.wait(seconds)
            ended = "fine" if code == 0 else f"failed with exit code {code}"
        except subprocess.TimeoutExpired:
            ended = "over its time"
        finally:  # also where Ctrl-C ends the check
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    text = file.read_text(errors="replace")
    print(text, flush=True)
    return {"ended": ended, "seconds": round(time.monotonic() - begin, 1), "last": text.splitlines()[-40:]}


def _summary(parts: Sequence[Part], results: dict[str, dict[str, object]]) -> Iterator[bool]:
    print("\n## Summary")
    for part in parts:
        ended = results[part.name]["ended"] if part.name in results else "not reached"
        print(f"- {part.name}: {ended}", flush=True)
        yield ended == "fine"
