"""The searches of `benchmarks.sets`, each for the seconds that it is given, by one thread a core.

dwave-samplers' annealer and openjij share the reads among the threads and anneal again, each time twice as long; tabu
search and simulated bifurcation begin again so. dwave-samplers runs with `Metropolis` in random order, which no graph
stops, openjij with single-spin flips on a sparse model, and each along its own schedule. The pump of simulated
bifurcation rises along each call: by default it takes 1,000 steps, whatever is given. It is left out of independent
sets: no setting was found that gives sets near the others'. `redumis` of KaMIS searches independent sets alone, and
often takes longer than it is told. Paths along an annealing are the sampler that DISCS recommends (Sun et al. 2023,
iSCO).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.annealers import quadratic
from ebmlab.energies import Ising
from ebmlab.graphs import Edges
from ebmlab.problems import Geometric, Minimum, Reheated, Schedule, beta_range, minimise
from ebmlab.samplers import DMALA, ChromaticGibbs, ChromaticMetropolis, PathAuxiliary, Sampler

Curve = list[tuple[float, float]]
"""`(seconds, value of the best state of this look)`."""

READS = 16  # of each call of an annealer
DENSE = 4096  # spins that simulated bifurcation takes, whose couplings are a dense matrix


@dataclass
class Instance:
    """What is searched.

    Attributes:
        energy: its lowest states are wanted.
        value: the best value of some states `(B, d)`, as large as good.
        chains: of our searches.
        known: the best value, if it is known.
        graph: whose independent sets are searched, if they are.
    """

    energy: Any
    value: Callable[[Tensor], float]
    chains: int
    known: float | None = None
    graph: Edges | None = None

    @property
    def ising(self) -> bool:
        return isinstance(self.energy, Ising)


Search = Callable[[Instance, float, int], Curve]
"""What a search sees of an instance, in so many seconds, by a seed."""


def ours(sampler: Sampler, schedule: Callable[[float, float], Schedule] = Geometric) -> Search:
    def search(instance: Instance, seconds: float, seed: int) -> Curve:
        curve: Curve = []
        energy = instance.energy
        torch.manual_seed(seed)

        def look(found: Minimum) -> bool:
            if len(found.curve) < 2 or found.curve[-1][1] < found.curve[-2][1]:
                lowest = found.x[found.energy == found.energy.min()][:10]
                curve.append((found.seconds, instance.value(lowest.to(energy.dtype))))
            return False

        begin = time.perf_counter()
        law = schedule(*beta_range(energy))
        left = max(0.1, seconds - (time.perf_counter() - begin))
        found = minimise(energy, sampler, law, num_chains=instance.chains, seconds=left, report=look)
        curve.append((found.seconds, instance.value(found.x.to(energy.dtype))))
        return curve

    return search


def again(call: Callable[[Any, int, int], Any]) -> Search:
    """Calls `call(problem, effort, seed)` in one thread a core, each time with twice the effort."""

    def search(instance: Instance, seconds: float, seed: int) -> Curve:
        curve: Curve = []
        energy, effort, threads = instance.energy, 50, torch.get_num_threads()
        problem, begin = quadratic(energy), time.perf_counter()
        with ThreadPoolExecutor(threads) as pool:
            while (start := time.perf_counter() - begin) < seconds:
                seeds = [1000 * seed + len(curve) * threads + k + 1 for k in range(threads)]
                found = list(pool.map(lambda each: call(problem, effort, each), seeds))  # noqa: B023
                now = time.perf_counter() - begin
                curve.append((now, max(instance.value(states(each, energy)) for each in found)))
                effort = max(1, int(effort * min(2.0, (seconds - now) / (now - start))))
        return curve

    return search


def states(found: Any, energy: Ising) -> Tensor:
    order = np.argsort(np.asarray(list(found.variables)))
    return torch.as_tensor(np.asarray(found.record.sample)[:, order]).to(energy.dtype)


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


def bifurcation(instance: Instance, seconds: float, seed: int) -> Curve:
    from simulated_bifurcation import minimize, set_env

    torch.manual_seed(seed)
    energy = instance.energy
    coupling = energy.edges().matrix().float()
    curve, effort, begin = [], 100, time.perf_counter()
    while (start := time.perf_counter() - begin) < seconds:
        set_env(pressure_slope=10 / effort)  # the pump rises along the whole call; by default in 1,000 steps
        found, _ = minimize(
            -coupling / 2, -energy.field.float(), domain="spin", agents=16, max_steps=effort, best_only=False,
            verbose=False, early_stopping=False,
        )  # fmt: skip
        now = time.perf_counter() - begin
        curve.append((now, instance.value(found.to(energy.dtype).view(-1, len(coupling)))))
        effort = max(1, int(effort * min(2.0, (seconds - now) / (now - start))))
    return curve


def redumis(instance: Instance, seconds: float, seed: int) -> Curve:
    from chszlablib import Graph, IndependenceProblems

    graph, size = Graph(instance.energy.domain.size), instance.energy.domain.size
    assert instance.graph is not None
    for a, b in zip(instance.graph.rows.tolist(), instance.graph.columns.tolist(), strict=True):
        if a < b:
            graph.add_edge(a, b)
    graph.finalize()
    begin = time.perf_counter()
    found = IndependenceProblems.redumis(graph, time_limit=seconds, seed=seed)
    chosen = -torch.ones(1, size, dtype=instance.energy.dtype)
    chosen[0, torch.as_tensor(np.asarray(found.vertices, dtype=np.int64))] = 1
    return [(time.perf_counter() - begin, instance.value(chosen))]


Fits = Callable[[Instance], bool]


def any_energy(instance: Instance) -> bool:
    return True


def ising(instance: Instance) -> bool:
    return instance.ising


def dense(instance: Instance) -> bool:
    return instance.ising and instance.energy.domain.size <= DENSE and instance.graph is None


def sets(instance: Instance) -> bool:
    return instance.graph is not None


SEARCHES: dict[str, tuple[Search, Fits, str | None]] = {
    "ebmlab, Metropolis": (ours(ChromaticMetropolis()), ising, None),
    "ebmlab, Metropolis, reheated": (ours(ChromaticMetropolis(), lambda a, b: Reheated(Geometric(a, b))), ising, None),
    "ebmlab, heat bath": (ours(ChromaticGibbs()), any_energy, None),
    "ebmlab, path auxiliary": (ours(PathAuxiliary(5)), sets, None),
    "ebmlab, DMALA": (ours(DMALA(1.0)), sets, None),
    "dwave-samplers, annealing": (again(dwave), ising, "dwave-samplers"),
    "dwave-samplers, tabu": (again(tabu), ising, "dwave-samplers"),
    "openjij, annealing": (again(openjij), ising, "openjij"),
    "simulated-bifurcation": (bifurcation, dense, "simulated-bifurcation"),
    "KaMIS, redumis": (redumis, sets, "chszlablib"),
}
"""Name, search, the instances that it takes, and the package that it needs."""
