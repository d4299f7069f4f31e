"""Searches side by side for equal seconds: independent sets, cliques, cuts, and spin glasses whose ground is planted.

    python -m benchmarks.sets sets                  # 16 graphs ER-[700-800], p = 0.15, 60 s each
    python -m benchmarks.sets cliques --graphs 3
    python -m benchmarks.sets cuts                  # graphs like G14 (800 nodes) and G22 (2,000)
    python -m benchmarks.sets loops                 # frustrated loops, 1,024 to 10,000 spins
    python -m benchmarks.sets cuts --seconds 5 --graphs 1 --only ebmlab

All get the same threads. dwave-samplers and openjij share the reads among one thread a core and anneal again, each time
twice as long; tabu search and simulated bifurcation start again so. Each anneals along its own schedule, dwave-samplers
with `Metropolis` in random order, which no graph stops. Simulated bifurcation, whose couplings are a dense matrix, is
left out above 4,096 spins. Peers that are not installed are named. States of all are
decoded alike. `--only` keeps the searches whose names hold a word.

The table has means over graphs: the best value, how often it is the best of all searches (of loops: the planted one),
and seconds to 99 % of it, where a call of a peer counts when it ends.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.annealers import quadratic
from ebmlab.energies import Ising
from ebmlab.graphs import Edges
from ebmlab.numerics.allocator import keep_freed_memory
from ebmlab.problems import (
    Clique,
    IndependentSet,
    MaxCut,
    Minimum,
    Problem,
    erdos_renyi,
    frustrated_loops,
    minimise,
)
from ebmlab.samplers import ChromaticGibbs, ChromaticMetropolis, Sampler

Curve = list[tuple[float, float]]
"""`(seconds, value of the best state of this look)`."""
Value = Callable[[Tensor], float]
"""The best value of some states `(B, d)`, as large as good."""
Search = Callable[[Ising, Value, float], Curve]


@dataclass
class Instance:
    """What is searched, how states count, and the best value if it is known."""

    energy: Any
    value: Value
    known: float | None = None


def ours(sampler: Sampler, chains: int) -> Search:
    def search(energy: Ising, value: Value, seconds: float) -> Curve:
        curve: Curve = []

        def look(found: Minimum) -> bool:
            if len(found.curve) < 2 or found.curve[-1][1] < found.curve[-2][1]:
                lowest = found.x[found.energy == found.energy.min()][:10]
                curve.append((found.seconds, value(lowest.to(energy.dtype))))
            return False

        found = minimise(energy, sampler, num_chains=chains, num_steps=100, seconds=seconds, report=look)
        curve.append((found.seconds, value(found.x.to(energy.dtype))))
        return curve

    return search


def again(call: Callable[[Any, int, int], Any]) -> Search:
    """Calls `call(problem, effort, seed)` in one thread a core, each time with twice the effort."""

    def search(energy: Ising, value: Value, seconds: float) -> Curve:
        problem, curve, effort = quadratic(energy), [], 50
        threads, begin = torch.get_num_threads(), time.perf_counter()
        with ThreadPoolExecutor(threads) as pool:
            while (start := time.perf_counter() - begin) < seconds:
                seeds = [len(curve) * threads + k + 1 for k in range(threads)]
                found = list(pool.map(lambda seed: call(problem, effort, seed), seeds))  # noqa: B023
                now = time.perf_counter() - begin
                curve.append((now, max(value(states(each, energy)) for each in found)))
                effort = max(1, int(effort * min(2.0, (seconds - now) / (now - start))))
        return curve

    return search


def states(found: Any, energy: Ising) -> Tensor:
    order = np.argsort(np.asarray(list(found.variables)))
    return torch.as_tensor(np.asarray(found.record.sample)[:, order]).to(energy.dtype)


READS = 16  # of each call
DENSE = 4096  # spins that simulated bifurcation takes


def dwave(problem: Any, effort: int, seed: int) -> Any:
    from dwave.samplers import SimulatedAnnealingSampler

    return SimulatedAnnealingSampler().sample(
        problem, num_reads=READS, num_sweeps=effort, seed=seed, randomize_order=True
    )


def tabu(problem: Any, effort: int, seed: int) -> Any:
    from dwave.samplers import TabuSampler

    return TabuSampler().sample(problem, num_reads=1, timeout=effort, seed=seed)  # milliseconds


def openjij(problem: Any, effort: int, seed: int) -> Any:  # its seed would make all reads equal
    from openjij import SASampler

    return SASampler().sample(problem, num_reads=READS, num_sweeps=effort, sparse=True)


def bifurcation(energy: Ising, value: Value, seconds: float) -> Curve:
    from simulated_bifurcation import minimize

    coupling = energy.edges().matrix().float()
    curve, effort, begin = [], 20, time.perf_counter()
    while (start := time.perf_counter() - begin) < seconds:
        found, _ = minimize(
            -coupling / 2, -energy.field.float(), domain="spin", agents=64, max_steps=effort, best_only=False,
            verbose=False, early_stopping=False,
        )  # fmt: skip
        now = time.perf_counter() - begin
        curve.append((now, value(found.to(energy.dtype).view(-1, len(coupling)))))
        effort = max(1, int(effort * min(2.0, (seconds - now) / (now - start))))
    return curve


SEARCHES: dict[str, Search] = {
    "ebmlab, Metropolis": ours(ChromaticMetropolis(), 256),
    "ebmlab, heat bath": ours(ChromaticGibbs(), 256),
    "dwave-samplers, annealing": again(dwave),
    "dwave-samplers, tabu": again(tabu),
    "openjij, annealing": again(openjij),
    "simulated-bifurcation": bifurcation,
}


def of_problem(problem: Problem) -> Instance:
    sign = 1.0 if problem.goal == "max" else -1.0
    return Instance(problem.energy, lambda x: float((sign * problem.decode(x).value).max()))


def sets(graphs: int) -> Iterator[tuple[str, list[Instance]]]:
    sizes = np.random.default_rng(0).integers(700, 801, graphs)
    made = [IndependentSet(erdos_renyi(int(n), 0.15, seed=k)) for k, n in enumerate(sizes)]
    yield "independent sets, ER-[700-800]", [of_problem(problem) for problem in made]


def cliques(graphs: int) -> Iterator[tuple[str, list[Instance]]]:
    """As independent sets of the other graph, which every search takes; and as cliques, which only ours does."""
    for nodes, p in ((250, 0.9), (500, 0.5)):
        others = [erdos_renyi(nodes, 1 - p, seed=k) for k in range(graphs)]
        yield f"cliques, ER-{nodes}, p = {p}", [of_problem(IndependentSet(other)) for other in others]
        own = [Clique(erdos_renyi(nodes, p, seed=k)) for k in range(graphs)]
        yield f"cliques by their own energy, ER-{nodes}, p = {p}", [of_problem(problem) for problem in own]


def cuts(graphs: int) -> Iterator[tuple[str, list[Instance]]]:
    """G14 is the union of two nearly maximal planar graphs, 4,694 edges; G22 is random, 19,990 edges."""
    yield "cuts, like G14", [of_problem(MaxCut(two_planar(800, seed=k))) for k in range(graphs)]
    p = 19_990 / (2000 * 1999 / 2)
    yield "cuts, like G22", [of_problem(MaxCut(erdos_renyi(2000, p, seed=k))) for k in range(graphs)]


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


def loops(graphs: int) -> Iterator[tuple[str, list[Instance]]]:
    for side in (32, 64, 100):
        made = [frustrated_loops(side, side * side * 3 // 4, seed=k) for k in range(graphs)]
        yield (
            f"frustrated loops, {side * side:,} spins",
            [Instance(p.energy, lambda x, p=p: float(-p.energy(x).min()), known=-p.ground) for p in made],
        )


KINDS = {"sets": (sets, 16), "cliques": (cliques, 3), "cuts": (cuts, 3), "loops": (loops, 3)}


def searched(search: Search, instances: list[Instance], seconds: float) -> list[Curve]:
    curves = []
    for k, instance in enumerate(instances):
        torch.manual_seed(k)
        curves.append(search(instance.energy, instance.value, seconds))
    return curves


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each search on each graph")
    parser.add_argument("--graphs", type=int, help="of each kind")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="", metavar="WORD")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    keep_freed_memory()  # as the command line does
    make, graphs = KINDS[options.kind]
    for name, instances in make(options.graphs or graphs):
        found: dict[str, list[Curve]] = {}
        for who, search in SEARCHES.items():
            energy = instances[0].energy
            dense = who == "simulated-bifurcation" and energy.domain.size > DENSE
            if options.only not in who or dense or not (who.startswith("ebmlab") or isinstance(energy, Ising)):
                continue
            try:
                found[who] = searched(search, instances, options.seconds)
            except ImportError as error:
                print(f"{who}: {error}")
        bests = [max(value for curves in found.values() for _, value in curves[k]) for k in range(len(instances))]
        best = [b if instance.known is None else instance.known for b, instance in zip(bests, instances, strict=True)]
        print(f"\n{name}: {len(instances)} graph(s), {options.seconds:g} s, {options.threads} threads\n")
        print("| search | mean of the best | the best of all | seconds to 99 % |\n|---|---|---|---|")
        for who, curves in found.items():
            tops = [max(value for _, value in curve) for curve in curves]
            least = [b - 0.01 * abs(b) for b in best]
            times = [min((s for s, v in c if v >= b), default=math.inf) for c, b in zip(curves, least, strict=True)]
            as_good = sum(top >= b for top, b in zip(tops, best, strict=True))
            print(f"| {who} | {np.mean(tops):.2f} | {as_good} of {len(best)} | {np.mean(times):.2f} |", flush=True)


if __name__ == "__main__":
    main()
