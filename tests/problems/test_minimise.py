"""Annealing finds ground states that are known, keeps each chain's best, and stops when it should."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from ebmlab.energies import Ising, Potts
from ebmlab.energies.paths.tempering import tempered
from ebmlab.errors import UserError
from ebmlab.problems import (
    Clique,
    Geometric,
    IndependentSet,
    Linear,
    Minimum,
    beta_range,
    erdos_renyi,
    frustrated_loops,
    minimise,
    plus_minus_j,
)
from ebmlab.problems.chains import random_chains
from ebmlab.samplers import (
    ACS,
    DMALA,
    GWG,
    ChromaticGibbs,
    ChromaticMetropolis,
    DiscreteHAMS,
    Gibbs,
    GibbsSweep,
    PathAuxiliary,
    Sampler,
    Tempered,
)


def test_a_planted_ground_state_is_found_and_never_undercut() -> None:
    torch.manual_seed(0)
    planted = frustrated_loops(12, 100, seed=1)
    found = minimise(planted.energy, ChromaticGibbs(), num_chains=50, num_steps=300)
    assert float(found.energy.min()) == planted.ground and found.stopped == "steps" and found.steps == 300
    assert torch.equal(planted.energy(found.x.float()), found.energy), "each state has the energy that is kept for it"


@pytest.mark.parametrize("sampler", [ChromaticGibbs(), GibbsSweep(), PathAuxiliary(), GWG()])
def test_any_sampler_finds_the_minimum_of_a_small_glass(sampler: Sampler) -> None:
    torch.manual_seed(0)
    energy = plus_minus_j(4, seed=2)
    lowest = energy(energy.domain.enumerate().to(energy.dtype)).min()
    assert minimise(energy, sampler, num_chains=20, num_steps=50).energy.min() == lowest


@pytest.mark.parametrize("sampler", [ChromaticGibbs(), PathAuxiliary()])
def test_a_clique_is_found(sampler: Sampler) -> None:
    torch.manual_seed(0)
    problem = Clique(erdos_renyi(12, 0.6, seed=4))
    x = problem.energy.domain.enumerate().to(problem.energy.dtype)
    found = minimise(problem.energy, sampler, num_chains=20, num_steps=200)
    assert found.energy.min() == problem.energy(x).min()


def test_a_sweep_of_the_fast_path_has_the_law_of_chromatic_gibbs() -> None:
    """Two sweeps at two temperatures, from one state: the frequencies of all 16 states against the exact law."""
    torch.manual_seed(0)
    energy, betas = Ising.lattice(2, 0.7, field=0.3), [0.4, 1.3]
    states = energy.domain.enumerate().to(energy.dtype)
    law = torch.zeros(16, dtype=torch.float64)
    law[5] = 1
    for beta in betas:
        for sites in energy.colours:
            law = _redrawn(law, tempered(energy, beta)(states).double(), states, sites)
    x = ChromaticGibbs().annealed(energy, states[5].repeat(100_000, 1), betas=betas)
    counts = torch.bincount(((x > 0).long() * torch.tensor([8, 4, 2, 1])).sum(1), minlength=16)
    chi_square = ((counts - 1e5 * law) ** 2 / (1e5 * law)).sum()
    assert chi_square < 40, "15 degrees of freedom"


def _redrawn(law: Tensor, energies: Tensor, states: Tensor, sites: Tensor) -> Tensor:
    """The law after an exact draw of some sites given the others."""
    rest = [i for i in range(4) if i not in sites.tolist()]
    same = (states[:, None, rest] == states[None, :, rest]).all(2).double()
    weight = same * (-energies).exp()
    return law @ (weight / weight.sum(1, keepdim=True))


def test_it_stops_at_a_target_in_time_and_when_told() -> None:
    torch.manual_seed(0)
    energy = Ising.lattice(6, 1.0)
    assert minimise(energy, ChromaticGibbs(), num_chains=20, target=-72.0).stopped == "target"
    found = minimise(energy, ChromaticGibbs(), num_chains=5, num_steps=2, seconds=1.0)
    assert found.stopped == "seconds" and found.steps > 2, "annealings follow each other"
    seen: list[int] = []

    def third(found: Minimum) -> bool:
        seen.append(found.steps)
        return len(seen) == 3

    assert minimise(energy, ChromaticGibbs(), num_chains=5, report=third).stopped == "target"
    assert seen == [10, 20, 30]
    curve = [lowest for _, lowest, _ in found.curve]
    assert curve == sorted(curve, reverse=True)


class Seen:
    """A schedule that notes how far it was asked to go."""

    def __init__(self) -> None:
        self.progress: list[float] = []

    def beta(self, progress: float) -> float:
        self.progress.append(progress)
        return 0.1 + progress


def test_an_annealing_that_has_too_little_time_still_ends_cold() -> None:
    """It stopped where it was: 60 s of 1,000 chains on a dense graph ended hot, with sets of 33 nodes, not 42."""
    torch.manual_seed(0)
    seen = Seen()
    found = minimise(Ising.lattice(6, 1.0), ChromaticGibbs(), seen, num_chains=50, num_steps=10**7, seconds=0.5)
    assert found.stopped == "seconds" and max(seen.progress) > 0.95
    assert found.steps < 10**7


@pytest.mark.parametrize("num_steps", [1, 2, 9, 10, 11, 25])
def test_an_annealing_takes_its_steps_from_one_end_to_the_other(num_steps: int) -> None:
    seen = Seen()
    found = minimise(Ising.lattice(3, 1.0), ChromaticGibbs(), seen, num_chains=2, num_steps=num_steps)
    assert found.steps == num_steps and seen.progress[0] == 0
    assert num_steps == 1 or seen.progress[-1] == pytest.approx(1, abs=1e-8)


def test_the_last_beta_freezes_what_is_cheap_near_a_minimum() -> None:
    """Random sets have 20 conflicts a node, which say nothing of what a flip costs at the end."""
    torch.manual_seed(0)
    first, last = beta_range(IndependentSet(erdos_renyi(200, 0.2, seed=1)).energy)
    assert last == pytest.approx(math.log(20_000)) and first > 0.1


def test_schedules_and_settings_that_are_not_valid() -> None:
    energy = Ising.lattice(3, 1.0)
    for bad in (
        lambda: Geometric(0.0, 1.0),
        lambda: Linear(2.0, 1.0),
        lambda: Geometric(1.0, float("inf")),
        lambda: minimise(energy, ChromaticGibbs(), num_chains=0),
        lambda: minimise(energy, ChromaticGibbs(), seconds=-1.0),
        lambda: minimise(Potts.lattice(3, 3, coupling=1.0), ChromaticGibbs()),
        lambda: minimise(Ising(torch.zeros(3, 3)), ChromaticGibbs()),
    ):
        with pytest.raises(UserError):
            bad()


def test_replicas_have_the_laws_of_their_rungs() -> None:
    """20,000 ladders of two rungs at a beta that stays, after 15 steps from random states, against all 16 states."""
    torch.manual_seed(0)
    energy, rungs, beta = Ising.lattice(2, 0.4, field=0.3), [1.0, 0.3], 1.2
    states = energy.domain.enumerate().to(energy.dtype)
    sampler = Tempered(ChromaticGibbs(), rungs)
    found = minimise(energy, sampler, Linear(beta, beta), num_chains=40_000, num_steps=15)
    x = found.chains.states()["now"].view(-1, 2, 4)
    assert torch.equal(energy(found.x.float()), found.energy)
    for k, rung in enumerate(rungs):
        law = (-beta * rung * energy(states).double()).softmax(0)
        counts = torch.bincount(((x[:, k] > 0).long() * torch.tensor([8, 4, 2, 1])).sum(1), minlength=16)
        assert ((counts - 2e4 * law) ** 2 / (2e4 * law)).sum() < 40, "15 degrees of freedom"


def test_replicas_cross_what_cold_chains_do_not() -> None:
    """Two valleys of a ferromagnet, one of which a weak field lifts: cold chains stay where they fell."""
    torch.manual_seed(0)
    energy, shares = Ising.lattice(4, 1.0, field=0.02), []
    for betas in ([1.0], [1.0, 0.4, 0.2, 0.1, 0.06]):
        sampler = Tempered(ChromaticMetropolis(), betas)
        found = minimise(energy, sampler, Linear(5.0, 5.0), num_chains=30 * len(betas), num_steps=100)
        cold = found.energy[:: len(betas)]
        shares.append(float((cold < -32.3).double().mean()))
    assert shares[0] < 0.85 and shares[1] > 0.95


def test_chains_that_do_not_fill_their_ladders_are_one_line() -> None:
    with pytest.raises(UserError, match="num_chains is 10, but must be a multiple of 8: Tempered has a chain at each"):
        minimise(Ising.lattice(3, 1.0), Tempered(ChromaticGibbs()), num_chains=10)


def test_replicas_at_one_temperature_keep_what_their_kernel_knows() -> None:
    """The kernel begins anew at the start, after each round of swaps, and where the temperature changes."""

    class Counted(GWG):
        begun = 0

        def init(self, *args: Any, **options: Any) -> Any:
            Counted.begun += 1
            return super().init(*args, **options)

    chains = random_chains(Ising.lattice(3, 1.0), Tempered(Counted(), [1.0, 0.5]), 4)
    for betas, begun in (([2.0] * 20, 1 + 20), ([1.0, 1.0, 2.0, 2.0], 1 + 4 + 1)):
        Counted.begun = 0
        chains.anneal(betas)
        assert begun == Counted.begun


class Counting(Ising):
    """Counts its gradients."""

    asked = 0

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        self.asked += 1
        return super().value_and_grad(x)


@pytest.mark.parametrize("sampler", [DMALA(0.5), PathAuxiliary()])
def test_a_new_beta_costs_no_evaluation_and_changes_no_chain(sampler: Sampler) -> None:
    """E and its gradient at x do not depend on beta: one evaluation a step, and one at the start."""
    coupling, betas = torch.randn(6, 6, generator=torch.Generator().manual_seed(0)), [0.1 * k for k in range(1, 11)]
    energy = Counting(((coupling + coupling.T) / 2).fill_diagonal_(0))
    torch.manual_seed(0)
    chains = random_chains(energy, sampler, 30)
    x, energy.asked = chains.present().float(), 0
    torch.manual_seed(1)
    chains.anneal(betas)
    assert energy.asked == len(betas) + 1
    torch.manual_seed(1)
    for beta in betas:
        at = tempered(energy, beta)
        x = sampler.step(at, sampler.init(at, x))[0].x
    assert torch.equal(chains.present().float(), x)


def test_a_cycle_of_step_sizes_goes_on_at_the_next_temperature() -> None:
    """Only the fourth step of four is long enough to move: it came never, as each temperature began the cycle anew."""
    torch.manual_seed(0)
    sampler = ACS(step_sizes=[0.01, 0.01, 0.01, 5.0], balances=[0.5] * 4)
    chains = random_chains(Ising.lattice(4, 0.1), sampler, 20)
    first = chains.present()
    chains.anneal([0.1, 0.2, 0.3])
    assert torch.equal(chains.present(), first)
    chains.anneal([0.4])
    assert not torch.equal(chains.present(), first) and int(chains.states()["step"]) == 4


def test_momenta_and_scans_go_on_at_the_next_temperature() -> None:
    """Steps this short change no spin: each negates u and keeps 0.999 of it. A scan visits all sites in turn."""
    torch.manual_seed(0)
    chains = random_chains(Ising.lattice(4, 0.1), DiscreteHAMS(0.01, persistence=0.999), 200)
    before = chains.states()["momentum"]
    for betas in ([0.5, 1.0], [1.5]):
        chains.anneal(betas)
    after = chains.states()["momentum"]
    assert float((before * after).mean()) == pytest.approx(-(0.999**3), abs=0.1)
    scanned = random_chains(Ising.lattice(4, 0.0), Gibbs(), 40)
    start, first = scanned.present(), int(scanned.states()["first"])
    scanned.anneal([1.0, 2.0])
    changed = (scanned.present() != start).any(0).nonzero().squeeze(1).tolist()
    assert sorted(changed) == sorted([first, (first + 1) % 16])
