"""GibbsSweep on Ising and scalar Potts models: exact transitions by torch and by the kernel, reports, NaN, mutants."""

from __future__ import annotations

import itertools
from typing import Any, cast

import pytest
import torch
from helpers_mutants import mutant
from helpers_spins import chi_square_p
from helpers_sweeps import number, transitions
from torch import Tensor

from ebmlab.domains import Finite
from ebmlab.energies import Energy, Ising, ScalarPotts, Scaled, TemperedEnergy
from ebmlab.native.ising_sweeps import kernels
from ebmlab.samplers import GibbsSweep
from ebmlab.samplers import gibbs_sweep as module
from ebmlab.testing import assert_invariant, transition_matrix

needs_kernels = pytest.mark.skipif(kernels() is None, reason="needs a C++ compiler, Linux, and AVX2 or AVX-512")
GENERATOR = torch.Generator().manual_seed(3)
MATRIX = torch.randn(4, 4, generator=GENERATOR).triu(1)
MATRIX = MATRIX + MATRIX.T
SPARSE = torch.zeros(5, 5)
SPARSE[0, 4] = SPARSE[4, 0] = -0.8
SPARSE[1, 3] = SPARSE[3, 1] = 0.6
FIELDS = torch.randn(4, 3, generator=GENERATOR)
CHAINS = 8192


def learnt() -> Ising:
    return Ising(MATRIX, FIELDS[:, 0], learn=True)


MODELS: dict[str, Energy] = {
    "learnt": learnt(),
    "given": Ising(SPARSE, [0.3, -0.5, 0.1, 0.7, 0.0]),
    "hotter": Scaled(learnt(), 2.5),
    "classes": ScalarPotts(MATRIX, FIELDS),
}
BY = ["torch", pytest.param("C++", marks=needs_kernels)]


@pytest.fixture(params=BY)
def both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Whatever is not meant is out of reach."""
    if request.param == "torch":
        monkeypatch.setattr(module, "swept", lambda *args, **settings: None)
    else:
        monkeypatch.setattr(module, "sweep", None)
    return str(request.param)


def least_p(sampler: GibbsSweep, energy: Energy, orders: list[tuple[int, ...]]) -> float:
    """Of one sweep from each of up to 27 states, against the exact transitions."""
    torch.manual_seed(0)
    matrix, states = transitions(energy, orders), cast(Finite, energy.domain).enumerate().float()
    least = 1.0
    for s in range(0, len(states), -(-len(states) // 27)):
        last = sampler.last_states(energy, states[s].expand(CHAINS, *states.shape[1:]), 1)
        least = min(least, chi_square_p(torch.bincount(number(energy, last), minlength=len(states)), matrix[s]))
    return least


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("name", MODELS)
def test_a_sweep_has_the_exact_transitions(name: str) -> None:
    energy = MODELS[name]
    assert least_p(GibbsSweep(), energy, [tuple(range(cast(Finite, energy.domain).size))]) > 1e-5


@pytest.mark.parametrize("name", MODELS)
def test_its_matrix_by_torch_is_the_product_of_the_conditionals(name: str) -> None:
    energy = MODELS[name]
    expected = transitions(energy, [tuple(range(cast(Finite, energy.domain).size))])
    torch.testing.assert_close(transition_matrix(GibbsSweep(), energy.double()), expected, rtol=1e-10, atol=1e-13)
    energy.float()


def test_random_orders_leave_the_law_invariant() -> None:
    found = assert_invariant(GibbsSweep("random"), Ising(MATRIX[:3, :3], FIELDS[:3, 0], learn=True).double())
    assert found.exact and found.error < 1e-12


@pytest.mark.usefixtures("both_ways")
def test_each_sweep_has_an_order_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both orders of two spins are as likely: steps of one sweep over many calls, and sweeps of one call."""
    energy = Ising([[0.0, 1.2], [1.2, 0.0]], [0.3, -0.4], learn=True)
    both = [transitions(energy, [order]) for order in ((0, 1), (1, 0))]
    torch.manual_seed(0)
    x = torch.tensor([[1.0, -1.0]]).expand(CHAINS, 2)
    for _ in range(8):
        last = number(energy, GibbsSweep("random").last_states(energy, x, 1))
        assert max(chi_square_p(torch.bincount(last, minlength=4), matrix[2]) for matrix in both) > 1e-4
    twice = [a @ b for a, b in itertools.product(both, both)]
    for _ in range(8):
        last = number(energy, GibbsSweep("random").last_states(energy, x, 2))
        assert max(chi_square_p(torch.bincount(last, minlength=4), matrix[2]) for matrix in twice) > 1e-4


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("scan", ["systematic", "random"])
@pytest.mark.parametrize("name", ["learnt", "classes"])
def test_reports_are_those_of_the_states(name: str, scan: Any) -> None:
    energy = MODELS[name]
    x = energy.random(50)
    last, info = GibbsSweep(scan).sample(energy, x, 1)
    assert torch.equal(info.hops, energy.domain.hops(last, x)) and info.evaluations == 1
    assert bool((info.acceptance == 1).all()) and last.dtype == x.dtype and last.shape == x.shape
    state = GibbsSweep(scan).init(energy, x)
    for _ in range(3):
        before, (state, step) = state.x, GibbsSweep(scan).step(energy, state)
        assert torch.equal(step.hops, energy.domain.hops(state.x, before)) and step.hops.sum() > 0
        assert step.evaluations == 1 and bool((step.acceptance == 1).all())


def test_chains_at_temperatures_of_their_own() -> None:
    """Every second one has both values alike."""
    energy, betas = learnt(), torch.tensor([1.0, 0.0]).repeat(CHAINS)
    torch.manual_seed(0)
    x = torch.ones(2 * CHAINS, 4)
    last = number(energy, GibbsSweep().last_states(TemperedEnergy(energy, betas), x, 1))
    cold = transitions(energy, [(0, 1, 2, 3)])[15]
    assert chi_square_p(torch.bincount(last[::2], minlength=16), cold) > 1e-4
    assert chi_square_p(torch.bincount(last[1::2], minlength=16), torch.full((16,), 1 / 16.0).double()) > 1e-4


@pytest.mark.usefixtures("both_ways")
def test_a_chain_without_a_law_stays_where_it_was() -> None:
    energy = learnt()
    with torch.no_grad():
        energy.field[1] = torch.nan
    x = energy.random(5)
    last, info = GibbsSweep().sample(energy, x, 2)
    assert info.acceptance.isnan().all() and torch.equal(last, x)


def test_a_subclass_has_its_own_law() -> None:
    class Free(Ising):
        def forward(self, x: Tensor) -> Tensor:
            return 0 * super().forward(x)

    energy = Free(90 * MATRIX)
    torch.manual_seed(0)
    last = GibbsSweep().last_states(energy, energy.random(1000), 2)
    assert last.mean(0).abs().max() < 0.2


MUTANTS = {
    "the other way round": ("torch.tensor(order, device=x.device)", "torch.tensor(order, device=x.device).flip(0)"),
    "one site is left out": ("torch.tensor(order, device=x.device)", "torch.tensor(order[:-1], device=x.device)"),
}


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("name", MUTANTS)
def test_wrong_orders_are_seen(name: str) -> None:
    wrong = mutant(GibbsSweep, *MUTANTS[name])
    assert least_p(wrong(), learnt(), [(0, 1, 2, 3)]) < 1e-9


@pytest.mark.skipif(kernels() is None, reason="needs a compiler")
def test_orders_are_drawn_when_they_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of many sweeps over many sites would fill the memory."""
    energy, drawn, seen = Ising(MATRIX, FIELDS[:, 0]), [], []
    order, swept = torch.randperm, module.swept
    monkeypatch.setattr(torch, "randperm", lambda *args: drawn.append(1) or order(*args))
    monkeypatch.setattr(module, "swept", lambda *args, **kwargs: seen.append(len(drawn)) or swept(*args, **kwargs))
    GibbsSweep("random").last_states(energy, energy.random(3), 50)
    assert seen[0] < 10
