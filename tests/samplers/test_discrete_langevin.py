"""DULA and DMALA: exact transition matrices, the paper's worked examples, mutants."""

from __future__ import annotations

import math

import pytest
import torch
from helpers_finite import (
    DOMAINS,
    KINDS,
    MOSTLY_CUBIC,
    MOSTLY_TWO_DOMAINS,
    Exact,
    Target,
    bias,
    density,
    invariance_p,
)
from helpers_grbm import PASS
from helpers_mutants import mutant
from torch import Tensor

from ebmlab.domains import Finite, Ordinal, Spin
from ebmlab.energies import Energy, Ising
from ebmlab.samplers import ACS, DMALA, DULA, Sampler
from ebmlab.samplers.discrete_langevin import GuidedEnergy

SETTINGS = {
    "plain": {},
    "balance": {"balance": 0.8},
    "large": {"step_size": 50.0},
}


def make(domain: Finite, **settings: object) -> DMALA:
    return DMALA(**{"step_size": 0.8, **settings})


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@MOSTLY_CUBIC
@MOSTLY_TWO_DOMAINS
def test_dmala_leaves_the_law_invariant(domain: Finite, kind: str, settings: dict[str, object]) -> None:
    energy = Target(domain, kind)
    sampler = make(domain, **settings)
    assert bias(sampler, energy) < 1e-10
    assert bias(DMALA(0.8, precondition=torch.linspace(0.3, 3, domain.size)), energy) < 1e-10


@pytest.mark.parametrize("window", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_windowed_edges(kind: str, window: int) -> None:
    energy = Target(Ordinal(2, 5), kind, scale=0.3)
    assert bias(DMALA(3.0, window=window), energy) < 1e-10


RATIO = "state.energy - new.energy + here.log_ratio(draw, new.proposal)"
MUTANTS = {
    "stale gradient": (
        "new = start(energy, draw.y, settings, options)",
        "new = start(energy, draw.y, settings, options); new.proposal = "
        "propose(energy, draw.y, energy.value_and_grad(state.x)[1], settings, options)",
    ),
    "no reverse term": (RATIO, "state.energy - new.energy"),
    "no Metropolis": (RATIO, "0 * new.energy"),
    "one acceptance per batch": (RATIO, f"({RATIO}).mean().expand_as(new.energy)"),
}


@pytest.mark.parametrize(("old", "new"), MUTANTS.values(), ids=MUTANTS)
def test_mutants_are_caught(old: str, new: str) -> None:
    assert bias(mutant(DMALA, old, new)(0.8), Target(DOMAINS["binary"], "cubic")) > 1e-3


class Diagonal(Energy):
    """U = theta' W theta with a diagonal W on spins (Zhang et al. 2022, App. H)."""

    def __init__(self, diagonal: list[float]) -> None:
        super().__init__()
        self.domain, self.diagonal = Spin(len(diagonal)), torch.tensor(diagonal, dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        return -(x * x) @ self.diagonal


def test_a_preconditioner_makes_both_flips_of_appendix_h_fair() -> None:
    """No single step size suits curvatures of 0.001 and 1000; with c = (1000, 0.001) both flip with probability 1/2."""
    energy = Diagonal([-0.001, -1000.0])
    x = energy.domain.enumerate().double()

    def flips(sampler: DMALA) -> Tensor:
        proposal = sampler.init(energy, x).proposal
        both = [x * torch.tensor([-1.0, 1.0]), x * torch.tensor([1.0, -1.0])]
        other = density(proposal, -x).exp()
        return torch.stack([density(proposal, y).exp() + other for y in both], 1)

    scale = torch.tensor([1000.0, 0.001], dtype=torch.float64)
    torch.testing.assert_close(flips(DMALA(1.0, precondition=scale)), torch.full_like(x, 0.5), rtol=0, atol=1e-6)
    assert flips(DMALA(1.0))[:, 0].max() < 0.13 and flips(DMALA(1.0))[:, 1].min() > 0.999


class Guided(Target):
    """Its minibatches have another energy."""

    def minibatch(self) -> Energy:
        return Target(self.domain, "quadratic")


@pytest.mark.parametrize("kernel", [DMALA(0.8, stochastic=True), ACS(4.0, 0.2, stochastic=True)])
def test_a_gradient_of_a_minibatch_leaves_the_law_of_all_data(kernel: Sampler) -> None:
    energy = Guided(Spin(4), "cubic")
    _, info = kernel.sample(energy, energy.random(1000), 20)
    assert invariance_p(kernel, energy, num_steps=2) > PASS and info.acceptance.mean() > 0.1


def test_a_gradient_of_a_minibatch_is_that_of_its_own_energy() -> None:
    energy = Guided(Spin(4), "cubic")
    x = energy.random(5).double()
    value, gradient = GuidedEnergy(energy).value_and_grad(x)
    assert torch.equal(value, energy(x)) and torch.equal(gradient, Target(Spin(4), "quadratic").value_and_grad(x)[1])


def stationary_bias(step_size: float, energy: Energy) -> float:
    """L1 distance between the stationary law of DULA's transition matrix and exp(-E) / Z."""
    exact, sampler = Exact(energy), DULA(step_size)
    n = len(exact.states)
    rows = exact.states.repeat_interleave(n, 0)
    proposal = sampler.proposal(energy, sampler.init(energy, rows))
    matrix = density(proposal, exact.states.repeat(n, 1)).exp().view(n, n)
    law = torch.linalg.lstsq(
        torch.cat([matrix.T - torch.eye(n, dtype=torch.float64), torch.ones(1, n, dtype=torch.float64)]),
        torch.cat([torch.zeros(n, dtype=torch.float64), torch.ones(1, dtype=torch.float64)])[:, None],
    ).solution[:, 0]
    return float((law - exact.probabilities).abs().sum())


def test_dulas_bias_falls_as_theorem_5_1_says() -> None:
    """It falls like exp(-2 / step size) on spins, whose values are 2 apart: exp(-1 / (2 step size)) on bits."""
    ising = Ising.lattice(2, 0.2, field=0.2).double()
    bias = {a: stationary_bias(a, ising) for a in (0.12, 0.15, 0.2, 0.4, 0.8, 1.2, 1.6)}
    assert list(bias.values()) == sorted(bias.values())
    for small, large in ((0.12, 0.15), (0.15, 0.2)):
        slope = math.log(bias[small] / bias[large]) / (1 / small - 1 / large)
        assert abs(slope + 2) < 0.06
    assert bias[0.12] < 1e-6 and bias[1.6] > 0.1
