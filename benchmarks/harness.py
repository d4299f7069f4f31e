"""Races: the same work done by several implementations in turn, in one process."""

from __future__ import annotations

import gc
import importlib.metadata
import json
import math
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from matplotlib import colormaps
from matplotlib.figure import Figure

OURS, FLOOR = "ebmlab", "floor"
LIMITS = 0.03, 30.0
"""Ratios that the chart shows; longer bars are cut."""
SHORTEST = 0.05
"""Seconds; a shorter run is repeated within its turn until it takes about as long."""
PACKAGES = (
    "torch",
    "numpy",
    "pytorch-lightning",
    "jax",
    "blackjax",
    "numpyro",
    "thrml",
    "peapods",
    "rbms",
    "torchebm",
    "ebmkit",
    "adabmDCA",
    "scikit-learn",
)


@dataclass
class Contestant:
    """One implementation, ready to run.

    Attributes:
        run: does the work once.
        passes: forward and backward passes through the model in a unit of the work, where they are known.
        own_clock: `run` returns the seconds to record, in place of those that passed.
    """

    run: Callable[[], Any]
    passes: str = ""
    own_clock: bool = False


Make = Callable[[], Contestant]
"""Builds a contestant; imports what it needs, so that a package that is not there is reported and left out."""


@dataclass
class Race:
    """One row of the table.

    Args:
        title: the work that is timed.
        units: units of work (steps, epochs) in a run; times are given for one.
        entries: makes each contestant; `ebmlab` is ours, `floor` is the matrix products and random numbers that no
            implementation can do without, all others are peers.
        unit: `ms` or `s`.
        updates: spins that a unit of the work redraws, if it redraws spins.
    """

    title: str
    units: int
    entries: dict[str, Make]
    unit: str = "ms"
    updates: int = 0


@dataclass
class Times:
    """The measurements of one contestant.

    Attributes:
        seconds: for one unit of the work, by round.
        first: seconds of the first run minus those of a later one, spent on compiling and warming up.
        passes: as in `Contestant`.
        missing: the reason why there are no times, if there are none.
    """

    seconds: list[float] = field(default_factory=list)
    first: float = 0.0
    passes: str = ""
    missing: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.seconds) if self.seconds else math.nan


Results = dict[str, Times]
CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "processor": time.process_time}
"""What seconds are: those that pass, or those of the processor that this process has used, in all threads."""
RACES: dict[str, Callable[[], Race]] = {}


def race(name: str, *values: Any) -> Callable[[Callable[..., Race]], Callable[..., Race]]:
    """Registers a function that makes a race under `name`, or for each of its arguments under `name-value`."""

    def register(make: Callable[..., Race]) -> Callable[..., Race]:
        if not values:
            RACES[name] = make
        for value in values:
            RACES[f"{name}-{value}"] = lambda value=value: make(value)
        return make

    return register


def chosen(names: Sequence[str]) -> list[str]:
    """The races with these names, or with these words before a hyphen; all races if there are no names."""
    unknown = [n for n in names if not any(_matches(r, n) for r in RACES)]
    if unknown:
        print(f"error: no race is called {', '.join(unknown)}; there are {', '.join(RACES)}", file=sys.stderr)
        raise SystemExit(2)
    return [r for r in RACES if not names or any(_matches(r, n) for n in names)]


def _matches(name: str, wanted: str) -> bool:
    return name == wanted or name.startswith(f"{wanted}-")


def run_race(contest: Race, rounds: int, clock: str = "wall") -> Results:
    """Times every contestant once per round; each round begins with the next contestant."""
    results: Results = {}
    runs: dict[str, tuple[Contestant, int]] = {}
    for name, make in contest.entries.items():
        torch.manual_seed(0)
        try:
            contestant = make()
            first = _seconds(contestant, CLOCKS[clock])
            second = _seconds(contestant, CLOCKS[clock])
        except Exception as error:
            if name in (OURS, FLOOR):
                raise
            kind = "not installed" if isinstance(error, ImportError) else "failed"
            results[name] = Times(missing=f"{kind}: {str(error).splitlines()[0] if str(error) else type(error)}")
            continue
        runs[name] = contestant, max(1, round(SHORTEST / max(second, 1e-7)))
        results[name] = Times(first=max(0.0, first - second), passes=contestant.passes)
    order = list(runs)
    for k in range(rounds):
        gc.collect()
        for name in order[k % len(order) :] + order[: k % len(order)]:
            contestant, repeats = runs[name]
            seconds = _seconds(contestant, CLOCKS[clock], repeats)
            results[name].seconds.append(seconds / repeats / contest.units)
    return results


def _seconds(contestant: Contestant, clock: Callable[[], float], repeats: int = 1) -> float:
    if contestant.own_clock:
        return sum(contestant.run() for _ in range(repeats))
    begin = clock()
    for _ in range(repeats):
        contestant.run()
    return clock() - begin


def ratios(results: Results, name: str, to: str = OURS) -> list[float]:
    """Time of `name` over that of `to`, round by round."""
    return [a / b for a, b in zip(results[name].seconds, results[to].seconds, strict=True)]


def machine() -> dict[str, Any]:
    """The machine, versions and settings on which the times depend."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "not installed"
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "processor": f"{_processor()} with {torch.backends.cpu.get_cpu_capability()}",
        "cores": cores,
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "packages": versions,
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(": ")[2] for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def as_data(contest: Race, results: Results) -> dict[str, Any]:
    """The race for a JSON file; times in seconds."""
    return {
        "title": contest.title,
        "unit": contest.unit,
        "updates": contest.updates,
        "contestants": {
            who: {"missing": t.missing}
            if t.missing
            else {"median": t.median, "seconds": t.seconds, "first": t.first, "passes": t.passes}
            for who, t in results.items()
        },
    }


def write(folder: Path, data: dict[str, Any]) -> None:
    """`results-N.json` and `results-N.png`, N the number of threads."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"results-{data['machine']['threads']}"
    (folder / f"{stem}.json").write_text(json.dumps(data, indent=1) + "\n")
    chart(data["races"]).savefig(folder / f"{stem}.png", dpi=110)


def chart(races: dict[str, Any]) -> Figure:
    """Bars of each contestant's time over ours, on a logarithmic axis: to the right of 1 it is slower than ebmlab."""
    bars: list[tuple[float, float, str]] = []
    labels, y = [], 0.0
    for contest in races.values():
        times = {who: c["median"] for who, c in contest["contestants"].items() if not c.get("missing")}
        start = y
        for who, seconds in times.items():
            if who != OURS and seconds > 0 and times[OURS] > 0:
                bars.append((y, seconds / times[OURS], who))
                y += 1
        labels.append((start + (y - start - 1) / 2, contest["title"]))
        y += 1
    names = sorted({who for *_, who in bars} - {FLOOR})
    bright = [shade for i, shade in enumerate(colormaps["tab20"].colors) if i not in (14, 15)]  # grey is for the floor
    shades = [*bright, *colormaps["Dark2"].colors]
    colours = {who: shades[i % len(shades)] for i, who in enumerate(names)} | {FLOOR: "0.75"}
    figure = Figure(figsize=(11, 1.2 + 0.17 * y), layout="constrained")
    axes = figure.subplots()
    axes.set_xscale("log")
    for who in [*names, FLOOR]:
        mine = [(at, value) for at, value, name in bars if name == who]
        if mine:
            where, values = zip(*mine, strict=True)
            axes.barh(where, [v - 1 for v in values], left=1, height=0.9, color=colours[who], label=who)
    for at, value, _ in bars:
        place = min(max(value, 1.3 * LIMITS[0]), LIMITS[1] / 1.3)
        side, gap = ("left", 3) if value >= 1 else ("right", -3)
        axes.annotate(
            f"{value:.2g}" if value < 100 else f"{value:.0f}",
            (place, at),
            (gap, 0),
            textcoords="offset points",
            ha=side,
            va="center",
            fontsize=7,
        )
    axes.axvline(1, color="black", linewidth=1)
    axes.set_yticks([at for at, _ in labels], [title for _, title in labels], fontsize=8)
    axes.set_ylim(y, -1)
    axes.margins(x=0.08)
    axes.set_xlabel("time over that of ebmlab: bars to the right are slower than ebmlab, bars to the left faster")
    low, high = axes.get_xlim()
    axes.set_xlim(max(low, LIMITS[0]), min(high, LIMITS[1]))
    axes.xaxis.set_major_formatter("{x:g}")
    figure.legend(fontsize=8, loc="outside upper center", ncols=5)
    return figure
