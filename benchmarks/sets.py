"""Searches side by side for equal seconds: independent sets, cliques, cuts, and spin glasses whose ground is planted.

    python -m benchmarks.sets sets                  # 16 graphs ER-[700-800], p = 0.15, 60 s each
    python -m benchmarks.sets cliques --graphs 3
    python -m benchmarks.sets cuts                  # graphs like G14 (800 nodes) and G22 (2,000)
    python -m benchmarks.sets loops                 # frustrated loops, 1,024 to 10,000 spins
    python -m benchmarks.sets cuts --seconds 5 --graphs 1 --only tabu Metropolis --minutes 20
    python -m benchmarks.sets page                  # writes the tables of all rows into docs/results/annealers.md

Each search of a graph is a row of `--rows`, and one that is there is not made again: a race may be cut and taken over
several sittings. `benchmarks/contestants.py` says how each peer is set. Peers that are not installed are named. States
of all are decoded alike.

A table compares on the graphs that all its searches have had: the mean of the best values, how often it is the best of
all searches (of loops: the planted one), and seconds to 99 % of that, where a call of a peer counts when it ends.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
import torch

from benchmarks.contestants import SEARCHES, Instance
from benchmarks.kept_rows import KeptRows, Row
from benchmarks.tables import put
from ebmlab.graphs import Edges
from ebmlab.numerics.allocator import keep_freed_memory
from ebmlab.problems import Clique, IndependentSet, MaxCut, Problem, erdos_renyi, frustrated_loops

ROWS, PAGE = Path("benchmarks/rows/annealers.jsonl"), Path("docs/results/annealers.md")

Graphs = Iterator[tuple[str, int, Instance]]
"""The table, the number of the graph in it, and the graph."""


def of_problem(problem: Problem, chains: int, graph: Edges | None = None) -> Instance:
    sign = 1.0 if problem.goal == "max" else -1.0
    value = lambda x: float((sign * problem.decode(x).value).max())  # noqa: E731
    return Instance(problem.energy, value, chains, graph=graph)


def sets(graphs: int) -> Graphs:
    for k, n in enumerate(np.random.default_rng(0).integers(700, 801, graphs)):
        graph = erdos_renyi(int(n), 0.15, seed=k)
        yield "independent sets", k, of_problem(IndependentSet(graph), 32, graph)


def cliques(graphs: int) -> Graphs:
    """As independent sets of the other graph, which every search takes; and as cliques, which only ours does."""
    for nodes, p in ((250, 0.9), (500, 0.5)):
        for k in range(graphs):
            other = erdos_renyi(nodes, 1 - p, seed=k)
            yield f"cliques {nodes}", k, of_problem(IndependentSet(other), 32, other)
            yield f"cliques {nodes}, own energy", k, of_problem(Clique(erdos_renyi(nodes, p, seed=k)), 32)


def cuts(graphs: int) -> Graphs:
    """G14 is the union of two nearly maximal planar graphs, 4,694 edges; G22 is random, 19,990 edges."""
    p = 19_990 / (2000 * 1999 / 2)
    for k in range(graphs):
        yield "cuts like G14", k, of_problem(MaxCut(two_planar(800, seed=k)), 64)
        yield "cuts like G22", k, of_problem(MaxCut(erdos_renyi(2000, p, seed=k)), 64)


def two_planar(size: int, *, seed: int) -> Edges:
    """The union of two planar triangulations of points in random order, each without 1 % of its edges."""
    from scipy.spatial import Delaunay

    generator, pairs = np.random.default_rng(seed), []
    for _ in range(2):
        corners = Delaunay(generator.random((size, 2))).simplices
        ends = np.unique(
            np.sort(np.concatenate([corners[:, [0, 1]], corners[:, [1, 2]], corners[:, [0, 2]]]), 1), axis=0
        )
        kept = ends[generator.random(len(ends)) > 0.01]
        pairs.append(generator.permutation(size)[kept])
    a, b = torch.from_numpy(np.concatenate(pairs)).T
    return Edges.joining(size, a, b, 1.0)


def loops(graphs: int) -> Graphs:
    for k in range(graphs):
        for side in (32, 100):
            planted = frustrated_loops(side, side * side * 3 // 4, seed=k)
            value = lambda x, planted=planted: float(-planted.energy(x).min())  # noqa: E731
            yield f"loops {side * side}", k, Instance(planted.energy, value, 256, known=-planted.ground)


KINDS = {"sets": (sets, 16), "cliques": (cliques, 3), "cuts": (cuts, 3), "loops": (loops, 3)}
TITLES = {
    "independent sets": "Random graphs of 700 to 800 nodes, p = 0.15, our searches with 32 chains",
    "cliques 250": "ER-250, p = 0.9, as independent sets of the other graph",
    "cliques 250, own energy": "ER-250, p = 0.9, by the energy of a clique",
    "cliques 500": "ER-500, p = 0.5, as independent sets of the other graph",
    "cliques 500, own energy": "ER-500, p = 0.5, by the energy of a clique",
    "cuts like G14": "800 nodes, two planar graphs, our searches with 64 chains",
    "cuts like G22": "2,000 nodes, 19,990 edges, our searches with 64 chains",
    "loops 1024": "1,024 spins, our searches with 256 chains",
    "loops 10000": "10,000 spins, our searches with 256 chains",
}


def race(options: argparse.Namespace) -> None:
    """Makes the rows that are missing, graph by graph."""
    kept, begin = KeptRows(options.rows), time.perf_counter()
    make, graphs = KINDS[options.kind]
    absent: set[str] = set()
    for table, number, instance in make(options.graphs or graphs):
        for who, (search, fits, package) in SEARCHES.items():
            key = f"{table}, {options.seconds:g} s, {options.threads} threads, {who}, {number}"
            if not wanted(who, options.only) or who in absent or key in kept or not fits(instance):
                continue
            if time.perf_counter() - begin > 60 * options.minutes:
                print("the minutes are over: the same command goes on")
                return
            try:
                about = f"{package} {version(package)}" if package else ""
                curve = search(instance, options.seconds, number)
            except (ImportError, PackageNotFoundError) as error:
                absent.add(who)
                print(f"{who}: {error}")
                continue
            row = {"table": table, "graph": number, "who": who, "package": about, "known": instance.known}
            times = {"seconds": options.seconds, "threads": options.threads}
            kept.add(key, row | times | {"curve": risen(curve)})
            print(f"{key}: {max(value for _, value in curve):g} after {curve[-1][0]:.1f} s", flush=True)


def wanted(who: str, words: list[str]) -> bool:
    """Whether a search is one of some names, or its name holds a word that is none."""
    return not words or any(word == who if word in SEARCHES else word in who for word in words)


def risen(curve: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The looks that found a better value, and the last one."""
    kept, best = [], -math.inf
    for seconds, value in curve:
        best, better = max(best, value), value > best
        if better or seconds == curve[-1][0]:
            kept.append((seconds, best))
    return kept


def table(rows: list[Row], title: str) -> str:
    """Rows of one table in Markdown: a block for each number of seconds and threads."""
    blocks = []
    for seconds, threads in sorted({(row["seconds"], row["threads"]) for row in rows}):
        some = [row for row in rows if (row["seconds"], row["threads"]) == (seconds, threads)]
        found = {(row["who"], row["graph"]): row for row in some}
        names = [who for who in SEARCHES if any(row["who"] == who for row in some)]
        graphs = [k for k in sorted({row["graph"] for row in some}) if all((who, k) in found for who in names)]
        known = {k: max(tops(row) for row in some if row["graph"] == k) for k in {row["graph"] for row in some}}
        known |= {row["graph"]: row["known"] for row in some if row["known"] is not None}
        lines = [f"{title}; {many(len(graphs), 'graph')}, {seconds:g} s, {many(threads, 'thread')}:", ""]
        lines += ["| search | mean of the best | graphs with the best | seconds to 99 % |", "|---|---|---|---|"]
        for who in names:
            own = [found[who, k] for k in graphs]
            as_good = sum(tops(row) >= known[row["graph"]] for row in own)
            reached = [reaches(row, known[row["graph"]]) for row in own]
            package = own[0]["package"] if own else ""
            when = f"{np.mean(reached):.2f}" if all(map(math.isfinite, reached)) else "not always"
            mean = np.mean([tops(row) for row in own]) if own else math.nan
            lines.append(f"| {named(who, package)} | {mean:,.2f} | {as_good} of {len(own)} | {when} |")
        for who in names:
            own = [row for row in some if row["who"] == who]
            if len(own) > len(graphs):
                lines += ["", f"{who}, all {len(own)} graphs: {np.mean([tops(row) for row in own]):,.2f}."]
        late = [row for row in some if row["curve"][-1][0] > 1.1 * seconds]
        for who in dict.fromkeys(row["who"] for row in late):
            took = np.mean([row["curve"][-1][0] for row in late if row["who"] == who])
            lines += ["", f"{who} took {took:.0f} s."]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def named(who: str, package: str) -> str:
    """A search with its package's version."""
    name = package.partition(" ")[0]
    if not package:
        return who
    return who.replace(name, package, 1) if who.startswith(name) else f"{who} ({package})"


def many(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def tops(row: Row) -> float:
    return max(value for _, value in row["curve"])


def reaches(row: Row, best: float) -> float:
    """When it has 99 % of the best value."""
    return min((s for s, v in row["curve"] if v >= best - 0.01 * abs(best)), default=math.inf)


def sweeps(rows: list[Row]) -> str:
    """The table of `benchmarks.annealers`."""
    lines = [
        "| annealer | sweeps | a sweep, ms | processor, ms | mean energy of a spin | standard deviation | lowest |"
    ]
    lines.append(7 * "|---" + "|")
    for row in sorted(rows, key=lambda row: row["sweeps"]):
        numbers = " | ".join(f"{row[name]:.4f}" for name in ("mean", "deviation", "lowest"))
        who = f"{row['package']}, {row['who']}" if row["package"] else row["who"]
        lines.append(f"| {who} | {row['sweeps']} | {row['ms']:.1f} | {row['processor_ms']:.1f} | {numbers} |")
    return "\n".join(lines)


def write(rows: Path, page: Path) -> None:
    """Puts all tables that have rows into the page; the others stay as they are."""
    kept, text = KeptRows(rows), page.read_text()
    if there := kept.of("sweeps"):
        text = put(text, "sweeps", sweeps(there))
    for name, title in TITLES.items():
        if there := kept.of(name):
            text = put(text, name, table(there, title))
    page.write_text(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=[*KINDS, "page"])
    parser.add_argument("--seconds", type=float, default=60.0, help="of each search on each graph")
    parser.add_argument("--graphs", type=int, metavar="N", help="the first ones of each kind")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="names, or words in names")
    parser.add_argument("--minutes", type=float, default=math.inf, help="no search begins later")
    parser.add_argument("--rows", type=Path, default=ROWS, help="where rows are kept")
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args()
    if options.kind == "page":
        return write(options.rows, options.page)
    torch.set_num_threads(options.threads)
    keep_freed_memory()  # as the command line does
    race(options)


if __name__ == "__main__":
    main()
