"""`python -m benchmarks.robust [PART ...] [--resume]`: tries to break the command line.

Outcomes are kept in runs/robust/PART.jsonl. --resume tries again what failed, and what was not reached the last time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

import ebmlab.app.cli  # noqa: F401  imported once, for all children
from benchmarks.robust.configs import mutated
from benchmarks.robust.endurance import endurance
from benchmarks.robust.families import families
from benchmarks.robust.inputs import bad_inputs
from benchmarks.robust.kills import kills
from benchmarks.robust.server import Case, Outcome, run_all, warm_up

KEPT = Path("runs", "robust")
PARTS = ("families", "inputs", "configs", "kills", "endurance")


class Part:
    """The outcomes of one part, kept in a file as they come.

    Args:
        name: of the part.
        keep: which outcomes of the file are kept: "none", those "without fault", or "all".
    """

    def __init__(self, name: str, keep: str) -> None:
        self.name, self._path, self._begin = name, KEPT / f"{name}.jsonl", time.monotonic()
        old = self._path.read_text().splitlines() if keep != "none" and self._path.exists() else []
        self.outcomes = [o for line in old if (o := Outcome(**json.loads(line))).fault is None or keep == "all"]
        KEPT.mkdir(parents=True, exist_ok=True)
        self._path.write_text("".join(json.dumps(asdict(o)) + "\n" for o in self.outcomes))

    def add(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        with self._path.open("a") as file:
            file.write(json.dumps(asdict(outcome)) + "\n")
        if outcome.fault:
            print(f"{self.name}: {outcome.fault}: {outcome.name}\n    {outcome.last}", flush=True)

    def missing(self, cases: Iterator[Case]) -> list[Case]:
        done = {outcome.name for outcome in self.outcomes}
        return [case for case in cases if case.name not in done]

    def row(self) -> str:
        faults = Counter(o.fault for o in self.outcomes if o.fault)
        codes = Counter("hang" if o.code is None else str(o.code) for o in self.outcomes)
        seconds = f"{time.monotonic() - self._begin:.0f} s"
        return f"| {self.name} | {len(self.outcomes)} | {dict(codes)} | {dict(faults) or 'none'} | {seconds} |"


def main() -> int:
    """Runs the parts that are named, by default all; prints faults as they come and a table at the end."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; by default all")
    parser.add_argument("--resume", action="store_true", help="leave out what has been tried without a fault")
    args = parser.parse_args()
    if wrong := sorted({*args.parts} - {*PARTS}):
        parser.error(f"no such part: {', '.join(wrong)}; there are {', '.join(PARTS)}")
    torch.set_num_threads(1)
    os.environ.setdefault("EBMLAB_CACHE", str(Path(tempfile.gettempdir(), f"ebmlab-robust-cache-{os.getuid()}")))
    names, keep = args.parts or list(PARTS), "without fault" if args.resume else "none"
    beside = _endurance_beside(args.resume) if "endurance" in names and len(names) > 1 else None
    warm_up()
    rows, bad = [], 0
    for name in sorted(names, key=PARTS.index):
        if name == "endurance" and beside is not None:
            part = _ended(beside)
        else:
            run(part := Part(name, keep))
        bad += sum(outcome.fault is not None for outcome in part.outcomes)
        rows.append(part.row())
        if name in ("kills", "endurance"):
            rows += [f"|   {o.name} | | {o.code} | {o.fault or 'none'} | {o.last} |" for o in part.outcomes]
    print("| part | cases | exit codes | faults | time |\n|---|---|---|---|---|", *rows, sep="\n")
    return 1 if bad else 0


def _endurance_beside(resume: bool) -> subprocess.Popen[bytes]:
    """Starts the long run, of one process, so that it trains while two others try the rest."""
    if not resume:
        Path(KEPT, "endurance.jsonl").unlink(missing_ok=True)
    command = [sys.executable, "-m", "benchmarks.robust", "endurance", *(["--resume"] if resume else [])]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def _ended(beside: subprocess.Popen[bytes]) -> Part:
    """Waits for the long run, and takes over its outcome."""
    code, part = beside.wait(), Part("endurance", "all")
    if not part.outcomes:
        part.add(Outcome("endurance", code, "the process that starts it has failed", "not run"))
    return part


def run(part: Part) -> None:
    """Runs what a part has not done yet."""
    if part.name == "families":
        run_all(part.missing(families()), part.add)
    elif part.name == "inputs":
        run_all(part.missing(bad_inputs()), part.add)
    elif part.name == "configs":
        run_all(part.missing(mutated()), part.add)
    elif part.name == "endurance":
        if not part.outcomes:
            part.add(endurance())
    else:
        done = {outcome.name for outcome in part.outcomes}
        with ProcessPoolExecutor(2, get_context("fork")) as pool:
            for future in as_completed([pool.submit(attempt, name) for name in kills() if name not in done]):
                part.add(future.result())


def attempt(name: str) -> Outcome:
    """Makes one of the kills."""
    return kills()[name]()


if __name__ == "__main__":
    sys.exit(main())
