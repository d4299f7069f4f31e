"""`python -m benchmarks`: ebmlab beside its peers and beside the floor.

    python -m benchmarks                          # every race, with as many threads as there are cores
    python -m benchmarks dmala gwg-100            # races by name, or by the part before the hyphen; the results of
                                                  # others, from earlier runs, stay
    python -m benchmarks --threads 1 2            # one process for each, on that many cores
    python -m benchmarks --threads 1 --clock processor   # on a machine that others share
    python -m benchmarks --list

Install the peers by `pip install -e ".[bench]"`; tables say which of them are not installed. They
go to the screen, `results-N.json` and `results-N.png` for N threads to `--output`. `python -m benchmarks.tables` writes
them into docs/appendix/races.md.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import subprocess
import sys
import warnings
from pathlib import Path

from ebmlab.numerics.allocator import keep_freed_memory


def main() -> None:
    parser = argparse.ArgumentParser(
        "python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--rounds", type=positive, default=7, help="how often each contestant's turn comes")
    parser.add_argument("--threads", type=positive, nargs="+", default=[os.cpu_count() or 1])
    parser.add_argument(
        "--clock",
        choices=("wall", "processor"),
        default="wall",
        help="`processor` counts the processor's time of one thread, which other programs on the machine change less",
    )
    parser.add_argument("--output", type=Path, default=Path("runs/benchmarks"))
    parser.add_argument("--list", action="store_true", help="names the races")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)  # set in the processes started here
    options = parser.parse_args()
    if options.here or options.list:
        measure(options)
        return
    for threads in options.threads:
        arguments = [*options.names, "--here", "--rounds", str(options.rounds), "--output", str(options.output)]
        arguments += ["--clock", options.clock]
        environment = os.environ | {
            "OMP_NUM_THREADS": str(threads),
            "JAX_PLATFORMS": "cpu",
            "JSONARGPARSE_DEPRECATION_WARNINGS": "off",  # Lightning 2.6 calls jsonargparse by older names
        }
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks", *arguments, "--threads", str(threads)], env=environment
        )
        if done.returncode:
            sys.exit(done.returncode)


def positive(text: str) -> int:
    """A whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def measure(options: argparse.Namespace) -> None:
    """Runs the races in this process and writes their results."""
    threads = options.threads[0]
    if options.here and hasattr(os, "sched_setaffinity"):  # JAX and thrml use all cores that the process may use
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    warnings.filterwarnings("ignore")
    keep_freed_memory()  # as `python -m ebmlab` does; for every contestant
    from benchmarks import cases, harness, tables

    assert cases.__doc__  # importing it registers the races
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    names = harness.chosen(options.names)
    if options.list:
        print("\n".join(names))
        return
    data = {"machine": harness.machine(), "rounds": options.rounds, "clock": options.clock, "races": {}}
    earlier = options.output / f"results-{threads}.json"
    kept = json.loads(earlier.read_text())["races"] if options.names and earlier.exists() else {}
    print(f"{data['machine']}\n\n{tables.HEAD}", flush=True)
    for name in names:
        contest = harness.RACES[name]()
        results = harness.run_race(contest, options.rounds, options.clock)
        kept[name] = harness.as_data(contest, results)
        data["races"] = {race: kept[race] for race in harness.RACES if race in kept}
        print("\n".join(tables.rows(name, kept[name])), flush=True)
        harness.write(options.output, data)


if __name__ == "__main__":
    main()
