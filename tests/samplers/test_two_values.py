"""Chains on two values: those of `step`, number by number, though they are written out; and mutants that differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from helpers_finite import DOMAINS, Target
from helpers_mutants import mutant
from torch import Tensor

from ebmlab.energies import RBM, Energy, Ising, ResNet
from ebmlab.evaluation import ais
from ebmlab.samplers import ACS, DMALA, GWG, AnyScale, MetropolisSampler, Sampler, two_values

KERNELS: list[MetropolisSampler] = [
    DMALA(0.4),
    DMALA(0.6, balance=0.7),
    ACS(2.0, 0.1, 3, step_sizes=[2.0, 0.7, 0.3], balances=[0.9, 0.6, 0.5]),
    AnyScale("first", 0.5, 0.6),
    GWG(),
]


def strong(energy: Energy, weights: Callable[[Any], Tensor], factor: float = 100.0) -> Energy:
    """The energy with weights so large that some moves are rejected."""
    weights(energy).data.mul_(factor)
    return energy


ENERGIES = {
    "binary": lambda: Target(DOMAINS["binary"], "cubic"),
    "spin": lambda: Target(DOMAINS["spin"], "cubic"),
    "lattice": lambda: Ising.lattice(3, 0.3),
    "RBM, many bits": lambda: strong(RBM(200, 10), lambda rbm: rbm.W),  # with 100 chains, the bits are numpy's
    "images": lambda: strong(ResNet((2, 8, 8), channels=4), lambda net: net.linear.weight, 1e5),
}


def step_by_step(sampler: Sampler, energy: Energy, x: Tensor, num_steps: int) -> Iterator[Any]:
    return Sampler.chain(sampler, energy, x, num_steps)


def same(chain: Iterator[Any], other: Iterator[Any]) -> bool:
    """Whether both chains are at the same states, energies, acceptances and distances after every step."""
    equal, moved = True, False
    for (state, info), (expected, report) in zip(chain, other, strict=True):
        equal &= torch.equal(state.x, expected.x) and state.step == expected.step
        equal &= torch.allclose(state.energy, expected.energy, atol=1e-4)
        equal &= torch.allclose(info.acceptance, report.acceptance, atol=1e-4)
        equal &= torch.equal(info.hops, report.hops) and info.evaluations == report.evaluations
        moved |= bool((report.hops > 0).any() and (report.hops == 0).any())
    assert moved, "of the chains made step by step, some must move and others stay"
    return equal


def both(sampler: Sampler, energy: Energy, first: Any = None) -> tuple[list[Any], list[Any]]:
    torch.manual_seed(0)
    x = energy.random(100)
    runs = []
    for chain in (first or sampler.chain, lambda *args: step_by_step(sampler, *args)):
        torch.manual_seed(1)
        runs.append(list(chain(energy, x, 7)))
    return runs[0], runs[1]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: type(kernel).__name__)
@pytest.mark.parametrize("make", ENERGIES.values(), ids=ENERGIES)
def test_a_chain_makes_the_steps_of_step(kernel: MetropolisSampler, make: Any) -> None:
    torch.manual_seed(0)
    energy = make()
    assert two_values.written_out(kernel, type(kernel), energy, energy.domain.random(2))
    assert same(*map(iter, both(kernel, energy)))


@pytest.mark.parametrize("kernel", [DMALA(0.4), KERNELS[2], GWG()], ids=lambda kernel: type(kernel).__name__)
def test_annealing_makes_the_steps_of_step(kernel: MetropolisSampler) -> None:
    """One step at each temperature, from what is known of both ends at x."""
    rbm = strong(RBM(30, 5), lambda rbm: rbm.W)
    by_step = type("ByStep", (type(kernel),), {"step": lambda self, *args: type(kernel).step(self, *args)})
    same_settings = by_step.__new__(by_step)
    same_settings.__dict__.update(kernel.__dict__)
    weights = []
    for sampler in (kernel, same_settings):
        torch.manual_seed(0)
        weights.append(ais(rbm, sampler, 20, 30).log_weights)
    torch.testing.assert_close(*weights)
    assert weights[0].std() > 1


METROPOLIS = "accepted, probability = metropolis(energy_x - at.energy + back_minus_forth)"
LANGEVIN = f".flatten(1).sum(1) - normaliser_y + normaliser\n        {METROPOLIS}"
GIBBS = f"log_law.gather(1, chosen)).squeeze(1)\n        {METROPOLIS}"
BATCH = "; accepted = accepted[:1].expand_as(accepted)"
LANGEVIN_MUTANTS = {
    "no reverse term": (LANGEVIN, f".flatten(1).sum(1) * 0\n        {METROPOLIS}"),
    "one acceptance per batch": (LANGEVIN, LANGEVIN + BATCH),
    "the law of the step before": ("merge(logits_y, logits), merge(normaliser_y, normaliser)", "logits, normaliser"),
    "another step size": ("-half / alpha", "-half / alpha / 2"),
}
GIBBS_MUTANTS = {
    "no reverse term": (GIBBS, f"log_law.gather(1, chosen)).squeeze(1) * 0\n        {METROPOLIS}"),
    "one acceptance per batch": (GIBBS, GIBBS + BATCH),
    "the law of the step before": ("merge(log_law_y, log_law)", "log_law"),
}


@pytest.mark.parametrize(("old", "new"), LANGEVIN_MUTANTS.values(), ids=LANGEVIN_MUTANTS)
def test_mutants_of_langevin_chains_differ(old: str, new: str) -> None:
    wrong = mutant(two_values.langevin_chain, old, new)
    energy = Target(DOMAINS["binary"], "cubic")
    assert not same(*map(iter, both(DMALA(0.4), energy, lambda *args: wrong(*args, [(0.4, 0.5)]))))


@pytest.mark.parametrize(("old", "new"), GIBBS_MUTANTS.values(), ids=GIBBS_MUTANTS)
def test_mutants_of_gibbs_with_gradients_differ(old: str, new: str) -> None:
    wrong = mutant(two_values.gwg_chain, old, new)
    assert not same(*map(iter, both(GWG(), Target(DOMAINS["binary"], "cubic"), wrong)))


@pytest.mark.parametrize("part", ["step", "potential"])
def test_a_subclass_with_steps_of_its_own_is_run_by_them(part: str) -> None:
    calls: list[str] = []

    def counted(self: DMALA, *args: Any) -> Any:
        calls.append(part)
        return getattr(DMALA, part)(self, *args)

    energy, sampler = RBM(6, 3), type("Counted", (DMALA,), {part: counted})(0.4)
    sampler.run(energy, energy.domain.random(4), 5)
    assert len(calls) == (5 if part == "step" else 10)


def test_a_ratio_without_a_value_is_reported_and_rejected() -> None:
    energy = RBM(6, 3)
    with torch.no_grad():
        energy.b_v[0] = torch.nan
    x = energy.domain.random(4)
    for state, info in DMALA(0.4).chain(energy, x, 3):
        assert torch.equal(state.x, x) and info.acceptance.isnan().all()
