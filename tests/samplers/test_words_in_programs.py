"""Chains in words by compiled programs: the exact law, reports bit by bit, blocks of chains; mutants."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest
import torch
from helpers_finite import Exact
from helpers_grbm import FAIL, PASS
from helpers_mutants import mutant
from torch import Tensor

from ebmlab.energies import Ising
from ebmlab.numerics import bit_planes
from ebmlab.samplers import ChromaticGibbs, ChromaticMetropolis
from ebmlab.samplers import words_in_programs as module
from ebmlab.samplers.multi_spin import Rule, heat_bath, metropolis, multi_spin

RING = torch.diag(torch.tensor([0.25, -0.25, 0.25, 0.25, 0.25]), 1)
RING[0, 5] = 0.25
LATTICE = Ising(RING + RING.T, torch.tensor([0.25, 0.0, -0.25, 0.5, 0.25, 0.0]))
SAMPLERS = {"Gibbs": ChromaticGibbs(), "Metropolis": ChromaticMetropolis()}
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
every_rule = pytest.mark.parametrize("rule", [heat_bath, metropolis])


def swept(rule: Rule, x: Tensor, steps: int) -> tuple[Tensor, Tensor]:
    """What a program does, as it is written."""
    coded = multi_spin(LATTICE)
    assert coded is not None
    last, hops = module.swept_by_programs(module.sweeps, coded, rule, x, steps, report=True)
    assert hops is not None
    return last, hops


def p_value(move: Callable[[Tensor], Tensor], alike: bool = False) -> float:
    torch.manual_seed(0)
    exact = Exact(LATTICE)
    x = torch.ones(40_000, 6) if alike else exact.sample(40_000).to(LATTICE.dtype)
    return exact.p_value(move(x).to(LATTICE.dtype))


@needs_compiler
@pytest.mark.parametrize("sampler", [SAMPLERS["Gibbs"], pytest.param(SAMPLERS["Metropolis"], marks=pytest.mark.slow)])
def test_reported_chains_have_the_exact_law_and_report_their_flips(sampler: ChromaticGibbs) -> None:
    exact = Exact(LATTICE)
    torch.manual_seed(0)
    x = exact.sample(40_000).to(LATTICE.dtype)
    last, info = sampler.sample(LATTICE, x, 9, compile=True)
    other = sampler.sample(LATTICE, x, 9)[1]
    assert exact.p_value(last) > PASS and last.dtype == x.dtype and last.is_contiguous() and info.evaluations == 1
    for mine, theirs in ((info.hops, other.hops), (info.acceptance, other.acceptance)):
        error = (mine.var() + theirs.var()).div(len(x)).sqrt() + 1e-9
        assert (mine.mean() - theirs.mean()).abs() / error < 4.5


@needs_compiler
@pytest.mark.parametrize("sampler", [SAMPLERS["Metropolis"], pytest.param(SAMPLERS["Gibbs"], marks=pytest.mark.slow)])
def test_exact_draws_stay_exact_and_others_get_there(sampler: ChromaticGibbs) -> None:
    assert p_value(lambda x: sampler.last_states(LATTICE, x, 9, compile=True)) > PASS
    assert p_value(lambda x: sampler.last_states(LATTICE, x, 40, compile=True), alike=True) > PASS


MUTANTS = {
    "another temperature": ("group.total, coded.quantum", "group.total, 0.8 * coded.quantum"),
    "random numbers twice": ("begin += math.prod(shape)", "begin = math.prod(shape)"),
}


@every_rule
def test_a_sweep_has_the_exact_law(rule: Rule) -> None:
    assert p_value(lambda x: swept(rule, x, 2)[0]) > PASS
    assert p_value(lambda x: swept(rule, x, 40)[0], alike=True) > PASS


@every_rule
@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_law_is_seen(name: str, rule: Rule, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = mutant(module.sweeps, *MUTANTS[name])
    monkeypatch.setattr(module, "sweeps", wrong)
    monkeypatch.setattr(module, "swept_by_programs", wrong.__globals__["swept_by_programs"])
    assert p_value(lambda x: swept(rule, x, 40)[0], alike=True) < FAIL


@every_rule
def test_blocks_of_chains_report_their_own_flips(rule: Rule, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AT_ONCE", 15)
    x = LATTICE.random(300)
    last, hops = swept(rule, x, 1)
    assert torch.equal(hops, (last != x).sum(1))
    assert last.shape == x.shape and len({tuple(row) for row in last.tolist()}) > 30


@pytest.mark.parametrize("steps", [8, 254, 255, 257, 601])
def test_each_flip_is_counted(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The chains with odd numbers flip three sites in each sweep, the others none."""

    def flip(groups: object, words: Tensor, *others: object) -> None:
        words[:3] ^= -0x5555555555555556  # binary 1010...10

    monkeypatch.setattr(module, "sweep", flip)
    assert torch.equal(swept(heat_bath, LATTICE.random(100), steps)[1], 3 * steps * (torch.arange(100) % 2))


def test_numbers_below_a_threshold_are_as_many_as_it_says() -> None:
    """Of 256 numbers of 8 digits, each once, in four words."""
    planes = [((torch.arange(256).view(4, 64) >> level & 1) << torch.arange(64)).sum(1) for level in range(8)]
    changes, drawn = bit_planes.digit_changes(range(256), 8), iter(256 * planes)
    for threshold in range(256):
        found = bit_planes.below_by_changes([], (1, 4), changes, [threshold], lambda *shape: next(drawn).view(shape))
        assert int((found.unsqueeze(-1) >> torch.arange(64) & 1).sum()) == threshold


def test_programs_are_for_many_spins_and_few_thresholds() -> None:
    sampler, x = ChromaticGibbs(), LATTICE.random(1000)
    assert sampler._in_words(LATTICE, x, 8, compile=True) is not None
    assert sampler._in_words(LATTICE, x[:100], 8, compile=True) is None
    assert sampler._in_words(LATTICE, x, 7, compile=True) is None
    weights = torch.zeros(40, 40)
    weights[0, 1:] = weights[1:, 0] = 1.0  # a star: one site has forty different fields
    star = Ising(weights)
    assert multi_spin(star) is not None and sampler._in_words(star, star.random(1000), 8, compile=True) is None


def test_a_coded_energy_is_kept_until_its_numbers_change() -> None:
    energy = Ising.lattice(3, 0.25, field=0.5)
    coded = multi_spin(energy)
    assert multi_spin(energy) is coded
    energy.field.fill_(-0.25)
    changed = multi_spin(energy)
    x = energy.random(64)
    assert changed is not coded and changed is not None
    energies = changed.energies(changed.packed(x))[:64]
    torch.testing.assert_close(energies - energies[0], (energy(x) - energy(x)[0]).double())
    assert multi_spin(energy.double()) is not changed
