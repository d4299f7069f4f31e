"""Two more kernels beside DMALA: several tries a step, and `DiscreteHAMS` with the curvature of the energy.

    python papers/multiple_try.py      # goes on where it stopped, prints the table

`MultipleTry` draws k states a step, which costs 2 k - 1 evaluations. Its step size has an acceptance of 0.574, as
DMALA's, or of 0.75, as more tries are accepted more often. Three groups of 25 chains are tuned together.

The curvature form accepts all proposals on an Ising model at any step, which acceptance hence cannot tune. It takes two
steps here: 1, and one so large that 1 / delta^2 no longer counts.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import torch
from kept import Result, run_missing
from several_tries import MultipleTry, Weights

from ebmlab.energies import Energy, Ising
from ebmlab.evaluation import effective_sample_size, split_r_hat
from ebmlab.samplers import DMALA, DiscreteHAMS, Sampler
from ebmlab.samplers.tuners import TargetAcceptance
from ebmlab.studies.targets import LogisticPosterior

GROUPS, CHAINS, TUNING, BURN_IN, STEPS = 3, 25, 600, 300, 1000
TARGETS: dict[str, Callable[[], Energy]] = {
    "5x5 Ising": lambda: Ising.lattice(5, 0.2, field=0.2),
    "20x20 Ising, J = 0.3": lambda: Ising.lattice(20, 0.3),
    "logistic posterior": LogisticPosterior.synthetic,
}
RATE = 0.574
TRIES: tuple[tuple[int, Weights, float], ...] = (
    (2, "importance", RATE),
    (4, "importance", RATE),
    (4, "importance", 0.75),
    (4, "balanced", RATE),
)
CURVED = (1.0, 100.0)


def kernels(energy: Energy) -> dict[str, tuple[Sampler, float | None]]:
    """Each with the acceptance that its step is tuned to, if it is."""
    found: dict[str, tuple[Sampler, float | None]] = {"DMALA": (DMALA(0.5), RATE)}
    for tries, weights, rate in TRIES:
        found[f"{tries} tries, {weights}, {rate}"] = (MultipleTry(0.5, tries, weights), rate)
    if isinstance(energy, Ising):
        for step in CURVED:
            found[f"DHAMS with curvature, step {step:g}"] = (DiscreteHAMS(step, curvature=energy.coupling), None)
    return found


def run(target: str, kernel: str) -> Result:
    """The ESS of the energy of each group of chains, the worst R-hat and the mean acceptance."""
    torch.manual_seed(0)
    energy = TARGETS[target]()
    sampler, rate = kernels(energy)[kernel]
    x = energy.random(GROUPS * CHAINS)
    if rate is not None:
        sampler, x = TargetAcceptance(rate=rate).tune(sampler, energy, x, num_steps=TUNING)
    state, energies, accepted, evaluations = sampler.init(energy, x), [], 0.0, 1.0
    for k in range(BURN_IN + STEPS):
        state, info = sampler.step(energy, state)
        if k >= BURN_IN:
            energies.append(state.energy.double())  # type: ignore[attr-defined]
            accepted += float(info.acceptance.mean()) / STEPS
            evaluations = info.evaluations
    groups = torch.stack(energies).split(CHAINS, 1)
    found = {f"ess {k}": float(effective_sample_size(chains)) for k, chains in enumerate(groups)}
    r_hat = max(float(split_r_hat(chains)) for chains in groups)
    return found | {"acceptance": accepted, "evaluations": evaluations, "r_hat": r_hat}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("runs/multiple_try"))
    folder = parser.parse_args().folder
    torch.set_num_threads(1)
    jobs = {f"{target}--{name}": (target, name) for target, make in TARGETS.items() for name in kernels(make())}
    run_missing(folder, jobs, lambda job: run(*jobs[job]), "0/1")
    print("\n| target | kernel | evaluations | acceptance | ESS of the energy | by evaluations |\n|" + "---|" * 6)
    for job, (target, name) in jobs.items():
        found = json.loads((folder / f"{job}.json").read_text())
        ess, cost = [found[f"ess {k}"] for k in range(GROUPS)], found["evaluations"]
        cells = [", ".join(f"{value / share:.0f}" for value in ess) for share in (1, cost)]
        print(f"| {target} | {name} | {cost:.0f} | {found['acceptance']:.2f} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
