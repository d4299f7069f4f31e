"""ChromaticMetropolis: the exact matrix of a sweep, rings that must find their ground states, mutants."""

from __future__ import annotations

from functools import reduce

import pytest
import torch
from helpers_blocks import block_matrix
from helpers_finite import Exact, convergence_distance, invariance_p
from helpers_grbm import FAIL, PASS
from helpers_mutants import mutant
from helpers_tier import cases
from torch import Tensor

from ebmlab.domains import Binary, Categorical, Spin
from ebmlab.energies import RBM, Energy, Ising
from ebmlab.errors import UserError
from ebmlab.graphs import Edges
from ebmlab.problems import Geometric, minimise, plus_minus_j
from ebmlab.problems import chains as problem_chains
from ebmlab.samplers import ChromaticMetropolis, chromatic_gibbs, spin_rules, sweeps_in_cpp
from ebmlab.samplers import chromatic_metropolis as module
from ebmlab.samplers.multi_spin import MultiSpin


def uniform_glass() -> Ising:
    """A cycle of five with a chord: couplings uniform from -1 to 1, and fields."""
    couplings = torch.zeros(5, 5)
    pairs = [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4), (1, 3)]
    generator = torch.Generator().manual_seed(3)
    for i, j in pairs:
        couplings[i, j] = couplings[j, i] = 2 * torch.rand((), generator=generator) - 1
    return Ising(couplings, torch.linspace(-0.4, 0.5, 5))


def ring(size: int, coupling: float = 1.0) -> Ising:
    here = torch.arange(size)
    return Ising(Edges.joining(size, here, (here + 1) % size, coupling), torch.zeros(size))


class Bits(Energy):
    """The uniform glass on bits."""

    def __init__(self) -> None:
        super().__init__()
        self.domain, self.inner = Binary(5), uniform_glass()
        self.colours = self.inner.colours

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(2 * x - 1)

    def conditional(self, x: Tensor, sites: Tensor) -> Tensor:
        return self.inner.conditional(2 * x - 1, sites)


ENERGIES = {
    "+-J": plus_minus_j(2, seed=3),
    "a ring of six": ring(6, 0.6),
    "uniform": uniform_glass(),
    "bits": Bits(),
}
every_energy = pytest.mark.parametrize("energy", ENERGIES.values(), ids=ENERGIES)


def one_flip(energy: Energy, site: int) -> Tensor:
    """P of a Metropolis flip of one site, from the energies alone."""
    exact = Exact(energy)
    states, value = exact.states, exact.probabilities.log()
    flipped = states.clone()
    flipped[:, site] = 1 - states[:, site] if isinstance(energy.domain, Binary) else -states[:, site]
    to = exact.number(flipped)
    gain = value[to] - value
    p = torch.where(gain.abs() < 1e-9, module.TIES, gain.exp().clamp(max=1.0))
    matrix = torch.diag(1 - p)
    matrix[torch.arange(len(p)), to] += p
    return matrix


@every_energy
def test_a_sweep_is_one_metropolis_flip_of_each_site(energy: Energy) -> None:
    sweep, pi = block_matrix(ChromaticMetropolis(), energy), Exact(energy).probabilities
    flips = [one_flip(energy, int(i)) for sites in energy.colours for i in sites]  # type: ignore[union-attr]
    torch.testing.assert_close(sweep, reduce(torch.matmul, flips), rtol=1e-6, atol=1e-7)
    assert float((pi @ sweep - pi).abs().max()) < 1e-6


@every_energy
def test_exact_draws_stay_exact_and_others_get_there(energy: Energy) -> None:
    assert invariance_p(ChromaticMetropolis(), energy) > PASS
    assert convergence_distance(ChromaticMetropolis(), energy, num_steps=30, num_chains=20_000) < 0.04


@every_energy
def test_the_acceptance_is_the_share_that_flips(energy: Energy) -> None:
    torch.manual_seed(0)
    x = energy.domain.random(50).to(torch.get_default_dtype())
    state, info = ChromaticMetropolis().step(energy, ChromaticMetropolis().init(energy, x))
    assert torch.equal(info.acceptance, (state.x != x).to(x.dtype).mean(1)) and 0 < info.acceptance.mean() < 1
    _, total = ChromaticMetropolis().sample(energy, x, 4)
    torch.testing.assert_close(total.acceptance, total.hops / energy.domain.size)


@cases("words", {"in words": True, "in floats": False}, fast=["in floats"])
def test_a_ring_finds_its_ground_states(words: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nearly all chains of 20 spins do; flips that are certain at no cost leave walls that never meet."""
    monkeypatch.setattr(MultiSpin, "pays", lambda *_: words)
    torch.manual_seed(0)

    def found() -> float:
        made = minimise(ring(20), ChromaticMetropolis(), Geometric(0.1, 3.0), num_chains=256, num_steps=500)
        assert isinstance(made.chains, problem_chains.Words) == words
        at_end = made.chains.states()["now"]
        x = made.chains.coded.unpacked(at_end, 256) if words else at_end  # type: ignore[attr-defined]
        return float((x.float().mean(1).abs() == 1).float().mean())

    assert found() > 0.95
    for where in (module, spin_rules):
        monkeypatch.setattr(where, "TIES", 1.0 - 2.0**-20)
    assert found() < 0.8


MUTANTS = {
    "wrong sign": ("(-cost).exp()", "cost.exp()"),
    "stale states": ("graph, total = cast(Coloured, energy), x.new_zeros(len(x))",) * 2,
    "half the cost": ("(-cost).exp()", "(-cost / 2).exp()"),
    "all sites of one colour": ("in graph.colours:", "in [torch.cat(graph.colours)]:"),
}
MUTANTS["stale states"] = (MUTANTS["stale states"][0], f"{MUTANTS['stale states'][0]}\nx = x.clone()")


@pytest.mark.parametrize(("old", "new"), MUTANTS.values(), ids=MUTANTS)
def test_mutants_are_caught(old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for where, name in ((sweeps_in_cpp, "swept"), (chromatic_gibbs, "swept_by_kernel")):
        monkeypatch.setattr(where, name, lambda *args, **settings: None)
    assert invariance_p(mutant(ChromaticMetropolis, old, new)(), uniform_glass()) < FAIL


def test_it_says_what_it_takes() -> None:
    energy = ring(6)
    energy.domain = Categorical(6, 3)
    with pytest.raises(UserError, match=r"ChromaticMetropolis samples Binary or Spin"):
        ChromaticMetropolis().check(energy)
    with pytest.raises(
        UserError, match=r"^ChromaticMetropolis needs an energy over a coloured graph .*, but RBM has no"
    ):
        ChromaticMetropolis().check(RBM(4, 3))
    assert Spin in ChromaticMetropolis.domains
