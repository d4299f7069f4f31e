"""Ratio matching and RMwGGIS on 2spirals in Gray code: an iteration of an MLP of 3 layers of 256 units, with Adam."""

from __future__ import annotations

from benchmarks.floors import floor
from benchmarks.harness import Contestant, Make, Race, race
from benchmarks.ratio_matching_cost import HIDDEN, SAMPLES, Iteration

PEERS = {"published": "straightforward", "vectorised": "vectorised"}


def iterations(method: str, dims: int, batch: int) -> Race:
    repeats = 10 if method == "RMwGGIS" else 1

    def entry(implementation: str) -> Make:
        def make() -> Contestant:
            iteration = Iteration(f"{method}, {implementation}", dims, batch, spirals=False)
            return Contestant(lambda: [iteration() for _ in range(repeats)])

        return make

    rows = batch * (1 + (SAMPLES if method == "RMwGGIS" else dims))
    layer = [(rows, HIDDEN, HIDDEN), (rows, HIDDEN, HIDDEN), (HIDDEN, rows, HIDDEN)]  # forward, and two backward
    first = [(batch, dims, HIDDEN), (dims, batch, HIDDEN)]
    entries = {"ebmlab": entry("ebmlab"), **{who: entry(name) for who, name in PEERS.items()}}
    entries["floor"] = lambda: floor([*first, *layer, *layer], times=repeats)
    return Race(f"{method[0].upper()}{method[1:]}, {dims:,} bits, batch {batch}", repeats, entries)


@race("ratio-matching", 32, 2048)
def ratio_matching(dims: int) -> Race:
    return iterations("ratio matching", dims, 256 if dims < 1000 else 64)


@race("rmwggis", 32, 2048)
def rmwggis(dims: int) -> Race:
    return iterations("RMwGGIS", dims, 256)
