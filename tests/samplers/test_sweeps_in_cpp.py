"""Ising and Potts models swept by kernels in C++: the exact law, reports, NaN, and what is torch's."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers_finite import Exact
from helpers_grbm import FAIL, PASS
from helpers_mutants import mutant
from torch import Tensor

import ebmlab.samplers.sampler as base
from ebmlab.energies import Energy, Ising, Potts
from ebmlab.energies.pairwise import pairwise
from ebmlab.energies.pairwise.scalar_potts import ScalarPotts
from ebmlab.energies.paths.tempering import Scaled, tempered
from ebmlab.errors import UserError
from ebmlab.native import potts_sweeps
from ebmlab.native.ising_sweeps import kernels
from ebmlab.samplers import ChromaticGibbs, ChromaticMetropolis, chromatic_gibbs, chromatic_metropolis, sweeps_in_cpp

needs_kernels = pytest.mark.skipif(kernels() is None, reason="needs a C++ compiler, Linux, and AVX2 or AVX-512")
SAMPLERS = {"Gibbs": ChromaticGibbs(), "Metropolis": ChromaticMetropolis()}
every_sampler = pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS)
Last = Callable[[ChromaticGibbs, Energy, Tensor], Tensor]
LAST: dict[str, Last] = {
    "sample": lambda sampler, energy, x: sampler.sample(energy, x, 60)[0],
    "last_states": lambda sampler, energy, x: sampler.last_states(energy, x, 60),
    "annealed": lambda sampler, energy, x: sampler.annealed(energy, x, betas=[1.0] * 60),
    "steps": lambda sampler, energy, x: [state.x for state, _ in sampler.chain(energy, x, 60)][-1],
}


def glass(sparse: bool = False) -> Ising:
    """A ring of nine spins with a chord: Gaussian couplings and fields."""
    generator = torch.Generator().manual_seed(4)
    coupling = torch.zeros(9, 9)
    for i, j in [*((k, (k + 1) % 9) for k in range(9)), (2, 6)]:
        coupling[i, j] = coupling[j, i] = 0.6 * torch.randn((), generator=generator)
    energy = Ising(coupling, 0.3 * torch.randn(9, generator=generator))
    assert energy.sparse is sparse
    return energy


@pytest.fixture(params=["sparse", "dense"])
def energy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Ising:
    monkeypatch.setattr(pairwise, "SPARSE", 1.0 if request.param == "sparse" else 0.0)
    return glass(request.param == "sparse")


@pytest.fixture
def by_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch's sweeps are out of reach."""
    for module in (chromatic_gibbs, chromatic_metropolis):
        monkeypatch.setattr(module, "sweep", None)


def p_value(last: Last, sampler: ChromaticGibbs, energy: Energy, law: Energy, alike: bool = False) -> float:
    torch.manual_seed(1)
    exact = Exact(law)
    x = torch.ones(40_000, 9) if alike else exact.sample(40_000).float()
    return exact.p_value(last(sampler, energy, x))


@needs_kernels
@every_sampler
@pytest.mark.parametrize("last", LAST.values(), ids=LAST)
def test_exact_draws_stay_exact_and_others_get_there(
    last: Last, sampler: ChromaticGibbs, energy: Ising, by_kernel: None
) -> None:
    assert p_value(last, sampler, energy, energy) > PASS
    assert p_value(last, sampler, energy, energy, alike=True) > PASS


@needs_kernels
@every_sampler
def test_temperatures(sampler: ChromaticGibbs, energy: Ising, by_kernel: None) -> None:
    """Of an energy, those of an annealing, and both."""
    half, quarter = tempered(energy, 0.5), tempered(energy, 0.25)
    assert p_value(LAST["last_states"], sampler, half, half) > PASS
    assert p_value(LAST["sample"], sampler, Scaled(half, 2.0), quarter) > PASS
    cooled: Last = lambda sampler, energy, x: sampler.annealed(energy, x, betas=[2.0, 1.0] + [0.25] * 60)  # noqa: E731
    assert p_value(cooled, sampler, energy, quarter, alike=True) > PASS
    assert p_value(cooled, sampler, tempered(energy, 2.0), half, alike=True) > PASS
    assert p_value(cooled, sampler, energy, energy, alike=True) < FAIL


@needs_kernels
@every_sampler
@pytest.mark.parametrize("last", ["last_states", "steps"])
def test_chains_have_temperatures_of_their_own(
    last: str, sampler: ChromaticGibbs, energy: Ising, by_kernel: None
) -> None:
    """Chains of three, in blocks of up to 32."""
    torch.manual_seed(1)
    betas = torch.tensor([1.0, 0.2, 0.6])
    x = LAST[last](sampler, tempered(energy, betas.repeat(13_000)), torch.ones(39_000, 9))
    for k, beta in enumerate(betas.tolist()):
        assert Exact(tempered(energy, beta)).p_value(x[k::3]) > PASS
        assert Exact(tempered(energy, beta)).p_value(x[(k + 1) % 3 :: 3]) < FAIL


@needs_kernels
def test_a_wrong_temperature_is_seen(energy: Ising, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = mutant(sweeps_in_cpp.swept, "float(factor) * beta", "beta")
    monkeypatch.setattr(chromatic_gibbs, "swept_by_kernel", wrong)
    half = tempered(energy, 0.5)
    assert p_value(LAST["last_states"], ChromaticGibbs(), half, half) < FAIL


@needs_kernels
@every_sampler
def test_reports_are_those_of_the_states(sampler: ChromaticGibbs, energy: Ising, by_kernel: None) -> None:
    torch.manual_seed(2)
    x = energy.random(500)
    last, info = sampler.sample(energy, x, 1)
    assert torch.equal(info.hops, (last != x).sum(1).float()) and info.evaluations == 1
    expected = torch.ones(500) if type(sampler) is ChromaticGibbs else info.hops / 9
    torch.testing.assert_close(info.acceptance, expected)
    assert last.dtype == x.dtype and last.shape == x.shape


@every_sampler
def test_reports_agree_with_torchs(sampler: ChromaticGibbs, energy: Ising, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(3)
    x, found = energy.random(4000), []
    for _ in range(2):
        found.append(sampler.sample(energy, x, 60)[1].hops.double())
        monkeypatch.setattr(sweeps_in_cpp.ising_sweeps, "sweep", lambda *_, **__: None)
    error = math.sqrt(sum(float(hops.var()) for hops in found) / 4000)
    assert abs(float(found[0].mean() - found[1].mean())) < 5 * error


@needs_kernels
@every_sampler
def test_seeds_repeat_the_chains(sampler: ChromaticGibbs, energy: Ising) -> None:
    x, found = energy.random(70), []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        found.append(sampler.last_states(energy, x, 5))
    assert torch.equal(found[0], found[1]) and not torch.equal(found[0], found[2])


@every_sampler
@pytest.mark.parametrize("name", ["field", "coupling"])
def test_nan_is_told_of_each_chain_and_ends_an_annealing(name: str, sampler: ChromaticGibbs, energy: Ising) -> None:
    numbers = energy.field if name == "field" else energy.neighbours.weights if energy.sparse else energy.coupling
    numbers[(numbers != 0).nonzero()[0].split(1)] = math.nan
    last, info = sampler.sample(energy, energy.random(40), 3)
    assert bool(info.acceptance.isnan().all()) and bool((last.abs() == 1).all())
    with pytest.raises(UserError, match="Ising: the law of a site given the others is NaN"):
        sampler.annealed(energy, energy.random(40), betas=[1.0, 2.0])


@every_sampler
def test_infinite_couplings_hold_spins_together(sampler: ChromaticGibbs, energy: Ising) -> None:
    """A chain whose field is inf - inf is NaN; the others are not."""
    coupling = energy.edges().matrix()
    coupling[0, 1] = coupling[1, 0] = math.inf
    stiff = glass(energy.sparse)
    numbers = stiff.neighbours.weights if stiff.sparse else stiff.coupling
    numbers.copy_(coupling[coupling != 0] if stiff.sparse else coupling)
    last, info = sampler.sample(stiff, stiff.random(300), 20)
    assert bool((last[:, 0] == last[:, 1]).all()) and bool(info.acceptance.isfinite().all())
    numbers = stiff.neighbours.weights if stiff.sparse else stiff.coupling
    stiff.field[0] = -math.inf
    x = torch.ones(20, 9)
    x[:10, 1] = -1
    assert sampler.sample(stiff, x, 1)[1].acceptance.isnan().tolist() == [False] * 10 + [True] * 10


@needs_kernels
@every_sampler
def test_programs_are_not_needed(sampler: ChromaticGibbs, energy: Ising, monkeypatch: pytest.MonkeyPatch) -> None:
    """`compile=True` gives what the kernel gives, on graphs of many colours, too."""
    monkeypatch.setattr(base.engine, "run_compiled", None)
    x, found = energy.random(50), []
    for compile in (False, True):
        torch.manual_seed(0)
        last, info = sampler.sample(energy, x, 9, compile=compile)
        found.append([last, info.acceptance, info.hops, sampler.last_states(energy, x, 9, compile=compile)])
    assert all(map(torch.equal, *found))
    with monkeypatch.context() as patch:
        patch.setattr(sweeps_in_cpp.ising_sweeps, "LARGE", 8)  # less than 8 chains would be torch's
        sampler.last_states(energy, x, 9, compile=True)
    full = torch.randn(10, 10, generator=torch.Generator().manual_seed(0)).triu(1)
    sampler.last_states(Ising(full + full.T), torch.ones(5, 10), 2, compile=True)
    sampler.last_states(tempered(energy, torch.ones(50)), x, 9, compile=True)


@needs_kernels
def test_couplings_that_change_are_seen(energy: Ising, by_kernel: None) -> None:
    """In place, too, as where a chain follows a training; and those of a checkpoint."""
    x = energy.random(50)
    ChromaticGibbs().last_states(energy, x, 2)
    numbers = energy.neighbours.weights if energy.sparse else energy.coupling
    numbers.fill_(0)
    energy.field.fill_(-100)
    assert bool((ChromaticGibbs().last_states(energy, x, 2) == -1).all())
    other = glass(energy.sparse)
    other.field.fill_(100)
    energy.load_state_dict(other.state_dict())
    assert bool((ChromaticGibbs().last_states(energy, x, 2) == 1).all())


class Ones(ChromaticGibbs):
    """Its own sweep sets all spins to 1."""

    def _sweep(self, energy: Energy, table: Tensor, x: Tensor) -> Tensor:
        return table.fill_(1).sum(0)


class OnesByMetropolis(ChromaticMetropolis):
    def _sweep(self, energy: Energy, table: Tensor, x: Tensor) -> Tensor:
        return table.fill_(1).sum(0)


class Renamed(ChromaticMetropolis):
    """What it inherits is that of its base."""


class Up(Ising):
    def conditional(self, x: Tensor, sites: Tensor) -> Tensor:
        return torch.full((len(x), len(sites)), 100.0)


def test_laws_of_subclasses_are_their_own(energy: Ising) -> None:
    x = -torch.ones(50, 9)
    for sampler in (Ones(), OnesByMetropolis()):
        assert bool((sampler.last_states(energy, x, 1) == 1).all())
        assert bool((sampler.annealed(energy, x, betas=[1.0]) == 1).all())
    up: Any = Up(energy.edges(), energy.field)
    for target in (up, tempered(up, 1.0)):
        assert bool((ChromaticGibbs().last_states(target, x, 2) == 1).all())


@needs_kernels
def test_what_the_kernel_sweeps(energy: Ising, by_kernel: None) -> None:
    """Plain models in float32 with one temperature, and all others not."""
    x = energy.random(50)
    Renamed().last_states(energy, x, 2)
    by_chain = tempered(energy, torch.linspace(0.5, 1.0, 50))
    for target in (energy.double(), by_chain, Up(energy.edges(), energy.field)):
        with pytest.raises(TypeError, match="NoneType"):
            ChromaticGibbs().last_states(target, x, 2)


@needs_kernels
def test_searches_are_swept_by_it(energy: Ising, by_kernel: None) -> None:
    from ebmlab.problems import minimise

    found = minimise(energy, ChromaticMetropolis(), num_chains=30, num_steps=100)
    lowest = energy(energy.domain.enumerate().float()).min()
    torch.testing.assert_close(found.energy.min().float(), lowest.float())


def classes() -> ScalarPotts:
    """A ring of five sites of three values with a chord, Gaussian couplings and fields."""
    generator, coupling = torch.Generator().manual_seed(6), torch.zeros(5, 5)
    for i, j in [*((k, (k + 1) % 5) for k in range(5)), (1, 3)]:
        coupling[i, j] = coupling[j, i] = 0.8 * torch.randn((), generator=generator)
    return ScalarPotts(coupling, 0.4 * torch.randn(5, 3, generator=generator))


@pytest.fixture(params=["sparse", "dense"])
def potts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ScalarPotts:
    monkeypatch.setattr(pairwise, "SPARSE", 1.0 if request.param == "sparse" else 0.0)
    energy = classes()
    assert energy.sparse is (request.param == "sparse")
    return energy


def potts_p(last: Last, energy: Energy, law: Energy, alike: bool = False) -> float:
    torch.manual_seed(1)
    exact = Exact(law)
    x = exact.states[:1].expand(30_000, -1, -1) if alike else exact.sample(30_000)
    return exact.p_value(last(ChromaticGibbs(), energy, x.float()))


@needs_kernels
@pytest.mark.parametrize("last", LAST.values(), ids=LAST)
def test_potts_models_have_their_law(last: Last, potts: ScalarPotts, by_kernel: None) -> None:
    assert potts_p(last, potts, potts) > PASS
    assert potts_p(last, potts, potts, alike=True) > PASS
    if last is not LAST["annealed"]:
        half = tempered(potts, 0.5)
        assert potts_p(last, half, half) > PASS
        assert potts_p(last, half, potts) < FAIL


def test_reports_of_potts_models_agree_with_torchs(potts: ScalarPotts, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(2)
    x, found = potts.random(4000), []
    last, info = ChromaticGibbs().sample(potts, x, 1)
    assert torch.equal(info.hops, (last != x).any(2).sum(1).float()) and bool((info.acceptance == 1).all())
    for _ in range(2):
        found.append(ChromaticGibbs().sample(potts, x, 60)[1].hops.double())
        monkeypatch.setattr(potts_sweeps, "sweep", lambda *_, **__: None)
    error = math.sqrt(sum(float(hops.var()) for hops in found) / 4000)
    assert abs(float(found[0].mean() - found[1].mean())) < 5 * error


def test_nan_of_potts_models_is_told(potts: ScalarPotts) -> None:
    potts.field[2, 1] = math.nan
    last, info = ChromaticGibbs().sample(potts, potts.random(40), 3)
    assert bool(info.acceptance.isnan().all()) and bool((last.sum(2) == 1).all())
    with pytest.raises(UserError, match="ScalarPotts: the law of a site given the others is NaN"):
        ChromaticGibbs().annealed(potts, potts.random(40), betas=[1.0, 2.0])


class Second(ScalarPotts):
    def conditional(self, x: Tensor, sites: Tensor) -> Tensor:
        return torch.tensor([0.0, 200.0, 0.0]).expand(len(x), len(sites), 3)


@needs_kernels
def test_which_potts_models_the_kernel_sweeps(potts: ScalarPotts, by_kernel: None) -> None:
    ChromaticGibbs().last_states(Potts.lattice(3, 4, coupling=0.3), torch.eye(4)[torch.zeros(5, 9).long()], 2)
    for energy in (Second(potts.edges(), potts.field), classes().double()):
        with pytest.raises(TypeError, match="NoneType"):
            ChromaticGibbs().last_states(energy, energy.random(50), 2)


def test_a_subclass_of_a_potts_model_has_its_own_law(potts: ScalarPotts) -> None:
    last = ChromaticGibbs().last_states(Second(potts.edges(), potts.field), potts.random(50), 2)
    assert bool((last.argmax(2) == 1).all())
