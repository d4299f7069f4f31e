"""Independent sets and cliques on random graphs, by annealing: the tables of docs/results/annealers.md.

    python -m benchmarks.sets

One seed each, on one thread; seconds are those of the processor.
"""

from __future__ import annotations

import time

import torch

from ebmlab.problems import Clique, Geometric, IndependentSet, Problem, erdos_renyi, minimise
from ebmlab.samplers import ChromaticGibbs, PathAuxiliary, Sampler

CLIQUES = {"ER-250, p = 0.9": (250, 0.9), "ER-500, p = 0.5": (500, 0.5), "ER-700, p = 0.15": (700, 0.15)}
MOVERS: dict[str, tuple[Sampler, int]] = {
    "ChromaticGibbs": (ChromaticGibbs(), 100),
    "PathAuxiliary": (PathAuxiliary(), 300),
}


def row(problem: Problem, sampler: Sampler, num_chains: int, num_steps: int, betas: Geometric | None = None) -> str:
    """The largest set, the mean over chains, and the seconds, after one annealing."""
    torch.manual_seed(0)
    begin = time.process_time()
    found = minimise(problem.energy, sampler, betas, num_chains=num_chains, num_steps=num_steps)
    values = problem.decode(found.x).value.double()
    seconds = time.process_time() - begin
    return f"{float(values.max()):.0f} | {float(values.mean()):.1f} | {seconds:.1f} |"


def main() -> None:
    torch.set_num_threads(1)
    print("| graph | chains | sweeps | largest | mean | processor time, s |\n|---|---|---|---|---|---|")
    problem = IndependentSet(erdos_renyi(700, 0.15, seed=0))
    for chains, sweeps in ((32, 200), (32, 2000), (300, 200)):
        found = row(problem, ChromaticGibbs(), chains, sweeps, Geometric(1.0, 8.0))
        print(f"| ER-700, p = 0.15 | {chains} | {sweeps} | {found}", flush=True)
    print("\n| graph | sampler | sweeps or steps | largest | mean | processor time, s |\n|---|---|---|---|---|---|")
    for name, (nodes, p) in CLIQUES.items():
        clique = Clique(erdos_renyi(nodes, p, seed=0))
        for who, (sampler, steps) in MOVERS.items():
            print(f"| {name} | {who} | {steps} | {row(clique, sampler, 50, steps)}", flush=True)


if __name__ == "__main__":
    main()
