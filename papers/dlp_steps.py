"""Figure 2 (left) of Zhang et al. (2022): how many coordinates DMALA proposes to change, and how often it may.

    python papers/dlp_steps.py        # prints the table; the picture goes to docs/pictures/dlp_steps.png

5x5 periodic Ising model, U = 0.1 x'Wx + 0.2'x on spins. A step on bits, as the paper counts, is four times as large on
spins. 100 chains, 500 steps to equilibrium and 2,000 that count, for each seed.
"""

from __future__ import annotations

import statistics
from pathlib import Path

import torch
from matplotlib.figure import Figure
from study_seeds import cell

from ebmlab.energies import Ising
from ebmlab.samplers import DMALA, DULA, GWG, Sampler

STEPS = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0]  # on bits
SEEDS, CHAINS, BURN_IN, COUNTED = (0, 1, 2), 100, 500, 2000


@torch.no_grad()
def run(sampler: Sampler, proposes: Sampler | None, seed: int) -> tuple[float, float, float]:
    """Acceptance; coordinates that a proposal changes; coordinates that a step changes."""
    torch.manual_seed(seed)
    energy = Ising.lattice(5, coupling=0.2, field=0.2)
    x = sampler.last_states(energy, energy.random(CHAINS), BURN_IN)
    acceptance, proposed, made = 0.0, 0.0, 0.0
    for state, info in sampler.chain(energy, x, COUNTED):
        acceptance += float(info.acceptance.mean()) / COUNTED
        made += float(info.hops.mean()) / COUNTED
        if proposes is not None:
            proposed += float((proposes.last_states(energy, state.x, 1) != state.x).sum(1).double().mean()) / COUNTED
    return acceptance, proposed, made


def columns(sampler: Sampler, proposes: Sampler | None) -> list[list[float]]:
    """Each of `run`'s numbers for all seeds."""
    return [list(column) for column in zip(*(run(sampler, proposes, seed) for seed in SEEDS), strict=True)]


def main() -> None:
    print("| sampler | acceptance | proposed changes | changes |\n|---|---|---|---|")
    sweep = []
    for step in STEPS:
        found = columns(DMALA(4 * step), DULA(4 * step))
        print(f"| DMALA {step:g} | {' | '.join(map(cell, found))} |", flush=True)
        sweep.append([statistics.mean(column) for column in found])
    acceptance, _, made = columns(GWG(num_flips=6), None)
    print(f"| GWG-6 | {cell(acceptance)} | - | {cell(made)} |")
    figure = Figure(figsize=(5, 3), layout="constrained")
    axes = figure.subplots()
    axes.plot(STEPS, [means[0] for means in sweep], "o-", color="tab:blue")
    axes.set_xlabel("step size (on bits)")
    axes.set_ylabel("acceptance", color="tab:blue")
    axes.set_ylim(0, 1)
    changes = axes.twinx()
    changes.plot(STEPS, [means[1] for means in sweep], "s-", color="tab:orange", label="proposed")
    changes.plot(STEPS, [means[2] for means in sweep], "s--", color="tab:orange", label="made")
    changes.set_ylabel("coordinates changed a step", color="tab:orange")
    changes.set_ylim(0)
    changes.legend(loc="lower right")
    figure.savefig(Path(__file__).parents[1] / "docs" / "pictures" / "dlp_steps.png", dpi=120)


if __name__ == "__main__":
    main()
