"""Simulated annealers side by side: seconds of a sweep of all chains, and the energies that they reach.

    python -m benchmarks.annealers                 # a +-J lattice of 10,000 spins, 1,000 chains
    python -m benchmarks.annealers --side 32 --sweeps 100 --threads 1
    python -m benchmarks.annealers --threads 1 --rows benchmarks/rows/annealers.jsonl --only ebmlab
    python -m benchmarks.sets page                 # writes the kept rows into docs/results/annealers.md

All anneal by the same number of sweeps along the same geometric schedule. Peers that are not installed are named.
dwave-samplers runs with heat-bath acceptance (`Gibbs`) and with `Metropolis`; openjij with its plain single-spin flips.
Both share the reads among one thread a core; torch shares out single operations. Energies are per spin.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.kept_rows import KeptRows
from ebmlab.energies import Ising
from ebmlab.numerics.allocator import keep_freed_memory
from ebmlab.problems import Geometric, minimise, plus_minus_j
from ebmlab.problems.chains import States
from ebmlab.samplers import ChromaticGibbs, ChromaticMetropolis, Sampler

HOT, COLD = 0.1, 3.0

Anneal = Callable[[int], np.ndarray[Any, Any]]
"""Anneals all chains by a number of sweeps, and gives their energies."""


def ours(energy: Ising, chains: int, sampler: Sampler) -> Anneal:
    def anneal(sweeps: int) -> np.ndarray[Any, Any]:
        return minimise(energy, sampler, Geometric(HOT, COLD), num_chains=chains, num_steps=sweeps).energy.numpy()

    return anneal


def ours_in_floats(energy: Ising, chains: int) -> Anneal:
    """The path of couplings that are no multiples of one number."""

    def anneal(sweeps: int) -> np.ndarray[Any, Any]:
        states = States(energy, ChromaticGibbs(), chains)
        for betas in np.array_split(np.geomspace(HOT, COLD, sweeps), -(-sweeps // 10)):
            states.anneal(betas.tolist())
        return states.energy.numpy()

    return anneal


def dwave(energy: Ising, chains: int, criterion: str) -> Anneal:
    from dwave.samplers import SimulatedAnnealingSampler

    problem = quadratic(energy)

    def part(share: int, sweeps: int, seed: int) -> Any:
        return SimulatedAnnealingSampler().sample(
            problem,
            num_reads=share,
            num_sweeps=sweeps,
            beta_range=(HOT, COLD),
            beta_schedule_type="geometric",
            proposal_acceptance_criteria=criterion,
            seed=seed,
        )

    return in_threads(part, chains)


def openjij(energy: Ising, chains: int) -> Anneal:
    from openjij import SASampler

    problem = quadratic(energy)

    def part(share: int, sweeps: int, seed: int) -> Any:  # its seed would make all reads equal
        return SASampler().sample(problem, num_reads=share, num_sweeps=sweeps, beta_min=HOT, beta_max=COLD, sparse=True)

    return in_threads(part, chains)


def quadratic(energy: Ising) -> Any:
    """The energy as dimod's model."""
    import dimod

    edges = energy.edges()
    pairs = zip(edges.rows.tolist(), edges.columns.tolist(), edges.values.tolist(), strict=True)
    return dimod.BinaryQuadraticModel.from_ising(
        dict(enumerate((-energy.field).tolist())), {(i, j): -value for i, j, value in pairs if i < j}
    )


def in_threads(part: Callable[[int, int, int], Any], chains: int) -> Anneal:
    """Divides the reads among as many threads as torch has."""
    threads = torch.get_num_threads()
    shares = [chains * (k + 1) // threads - chains * k // threads for k in range(threads)]

    def anneal(sweeps: int) -> np.ndarray[Any, Any]:
        with ThreadPoolExecutor(threads) as pool:
            found = list(pool.map(part, shares, [sweeps] * threads, range(1, threads + 1)))
        return np.concatenate([each.record.energy for each in found])

    return anneal


def annealers(energy: Ising, chains: int) -> Iterator[tuple[str, str | None, Callable[[], Anneal]]]:
    """Name, package and annealer."""
    yield "ebmlab, Metropolis", None, lambda: ours(energy, chains, ChromaticMetropolis())
    yield "ebmlab, heat bath", None, lambda: ours(energy, chains, ChromaticGibbs())
    yield "ebmlab, heat bath in floats", None, lambda: ours_in_floats(energy, chains)
    yield "Gibbs", "dwave-samplers", lambda: dwave(energy, chains, "Gibbs")
    yield "Metropolis", "dwave-samplers", lambda: dwave(energy, chains, "Metropolis")
    yield "single-spin flips", "openjij", lambda: openjij(energy, chains)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--side", type=int, default=100, help="of the lattice")
    parser.add_argument("--chains", type=int, default=1000)
    parser.add_argument("--sweeps", type=int, default=200)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="annealers whose names hold one")
    parser.add_argument("--rows", type=Path, help="where rows are kept; one that is there is not made again")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    keep_freed_memory()  # as the command line does
    energy = plus_minus_j(options.side)
    kept = KeptRows(options.rows) if options.rows else None
    print("| annealer | a sweep, ms | processor, ms | mean energy | standard deviation | lowest |\n" + 6 * "|---" + "|")
    for who, package, make in annealers(energy, options.chains):
        name = f"{package}, {who}" if package else who
        key = f"sweeps, {options.side}, {options.chains}, {options.sweeps}, {options.threads}, {name}"
        if (kept and key in kept) or (options.only and not any(word in name for word in options.only)):
            continue
        torch.manual_seed(0)
        try:
            about = f"{package} {version(package)}" if package else ""
            anneal = make()
            anneal(1)
        except (ImportError, PackageNotFoundError) as error:
            print(f"| {name} | {error} | | | | |")
            continue
        begin, processor = time.perf_counter(), time.process_time()
        found = anneal(options.sweeps) / energy.domain.size
        times = [1e3 * t / options.sweeps for t in (time.perf_counter() - begin, time.process_time() - processor)]
        laws = [float(x) for x in (found.mean(), found.std(), found.min())]
        print(f"| {name} | {times[0]:.2f} | {times[1]:.2f} | {' | '.join(f'{x:.4f}' for x in laws)} |", flush=True)
        if kept:
            row = {"table": "sweeps", "who": who, "package": about, "sweeps": options.sweeps}
            numbers = dict(zip(("ms", "processor_ms", "mean", "deviation", "lowest"), [*times, *laws], strict=True))
            kept.add(key, row | numbers | {"threads": options.threads})


if __name__ == "__main__":
    main()
