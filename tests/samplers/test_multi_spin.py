"""Chains in words: the exact law of every redrawn spin, independent chains, exact energies; mutants."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from helpers_mutants import mutant
from helpers_spins import MODELS, chi_square_p, exact, ising, metropolis_up
from torch import Tensor

from ebmlab.energies import Ising
from ebmlab.graphs import Edges, lattice_edges
from ebmlab.numerics import bit_planes
from ebmlab.numerics.bit_planes import added, below
from ebmlab.problems import frustrated_loops, minimise
from ebmlab.samplers import ChromaticGibbs
from ebmlab.samplers import multi_spin as coding
from ebmlab.samplers import spin_rules as module
from ebmlab.samplers.multi_spin import LARGEST, MultiSpin, multi_spin
from ebmlab.samplers.spin_rules import Rule, heat_bath, metropolis

models = pytest.mark.parametrize("energy", MODELS.values(), ids=MODELS)
Make = Callable[[Ising], MultiSpin]


class EveryNumber:
    """In place of random words: over 256 chains the uniform numbers of 8 digits are all there are, each once.

    Each word of 64 chains has all of the first six digits, so that none is decided by three.
    """

    def __init__(self) -> None:
        number = torch.arange(256)
        self.planes = [self._packed(number >> digit & 1) for digit in range(8)]
        self.calls = 0

    @staticmethod
    def _packed(bits: Tensor) -> Tensor:
        places = torch.arange(64)
        return (bits.view(4, 64) << places).sum(1)

    def __call__(self, *shape: int) -> Tensor:
        plane = self.planes[self.calls % 8]
        self.calls += 1
        return plane.repeat(torch.Size(shape).numel() // 4).view(shape)


def conditionals(make: Make, energy: Ising, beta: float, rule: Rule | None, states: Tensor) -> tuple[Tensor, Tensor]:
    """For all sites of states: how many of 256 chains become +1, and the probability of it in float64."""
    coded = copy.copy(make(energy))  # the model is kept
    counts, groups = torch.empty(states.shape, dtype=torch.float64), coded.groups
    for group in groups:
        words, sites = coded.packed(states.repeat_interleave(256, 0)), coded.order[group.begin : group.end]
        coded.groups = [group]
        coded.sweep(words, beta, EveryNumber(), rule or heat_bath)
        x = coded.unpacked(words, 256 * len(states)).view(len(states), 256, -1)
        counts[:, sites] = (x > 0).double().sum(1)[:, sites]
    field = 2 * beta * energy.local_field(states).double()
    return counts, torch.sigmoid(field) if rule is None or rule.__name__ == "heat_bath" else metropolis_up(
        states, field
    )


def law_holds(make: Make, energy: Ising, rule: Rule | None = None, states: Tensor | None = None) -> bool:
    """Whether all counts are 256 times the probability, rounded, at two temperatures; by default of all states."""
    x = energy.domain.enumerate().to(energy.dtype) if states is None else states
    found = [conditionals(make, energy, beta, rule, x) for beta in (0.3, 1.1)]
    return all(float((counts - 256 * p).abs().max()) <= 0.5001 for counts, p in found)


@pytest.fixture(autouse=True)
def by_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel in C++ has tests of its own."""
    monkeypatch.setattr(coding, "by_kernel", lambda device: False)


@pytest.fixture
def eight_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEVELS", 8)
    monkeypatch.setattr(bit_planes, "REST", 5)


@models
@pytest.mark.parametrize("rule", [heat_bath, metropolis])
def test_every_conditional_is_exact_to_half_a_digit(energy: Ising, rule: Rule, eight_digits: None) -> None:
    assert law_holds(coded, energy, rule)


@pytest.mark.parametrize("rule", [heat_bath, metropolis])
def test_the_largest_hub_has_the_exact_law_at_each_of_its_fields(rule: Rule, eight_digits: None) -> None:
    """So many neighbours as are allowed, of which none, one, ... and all are up; the same from weights."""
    size = LARGEST + 1
    star = ising({(0, i): 0.125 * (-1.0) ** i for i in range(1, size)}, [0.0] * size)
    up = torch.tril(torch.ones(size, size))[:, torch.randperm(size)].mul(2).sub(1)
    weights = ising({(0, 1): 31 / 8, (0, 2): -20 / 8, (1, 2): 1 / 8}, [11 / 8, 0.0, 0.0])
    assert law_holds(coded, star, rule, torch.cat([up, -up])) and law_holds(coded, weights, rule)


def coded(energy: Ising, make: Callable[[Ising], MultiSpin | None] = multi_spin) -> MultiSpin:
    found = make(energy)
    assert found is not None
    return found


MUTANTS: dict[str, tuple[Any, str, str]] = {
    "a carry is lost": (added, "a & b | half & c", "a & b"),
    "the rest of the digits turned round": (below, "below(narrowed, where", "~below(narrowed, where"),
    "the rest is left out": (below, "if len(where)", "if False"),
    "and for or": (below, "bitwise_or_(bits)", "bitwise_and_(bits)"),
    "signs of couplings": (multi_spin, "-(pull[some] < 0).long()", "-(pull[some] > 0).long()"),
    "signs of fields": (multi_spin, "-fields[fielded]", "fields[fielded]"),
    "idle pulls": (multi_spin, "torch.full_like(idlers, -1)", "torch.full_like(idlers, 0)"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_law_is_seen(name: str, eight_digits: None, monkeypatch: pytest.MonkeyPatch) -> None:
    function, old, new = MUTANTS[name]
    wrong = mutant(function, old, new)
    make = coded if function is not multi_spin else partial(coded, make=wrong)
    if function is added:
        monkeypatch.setattr(coding, "added", wrong)
    elif function is below:
        monkeypatch.setitem(wrong.__globals__, "REST", 5)
        monkeypatch.setattr(module, "below", wrong)
    assert not all(law_holds(make, energy) for energy in MODELS.values())


WRONG: dict[str, tuple[Rule, str, str]] = {
    "half the field": (heat_bath, "min(2 * beta * h, 700)", "min(beta * h, 700)"),
    "half the cost": (metropolis, "math.exp(-2 * beta * h)", "math.exp(-beta * h)"),
    "ties by chance": (metropolis, "if h else TIES", "if h else 0.5"),
    "all flip against the field": (metropolis, ".bitwise_and_((spins ^ along).bitwise_not_())", ""),
    "ties that always flip": (metropolis, "spins if not h else", "~spins if not h else"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_rule_is_seen(name: str, eight_digits: None, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = mutant(*WRONG[name])
    monkeypatch.setitem(wrong.__globals__, "LEVELS", 8)
    assert not all(law_holds(coded, energy, wrong) for energy in MODELS.values())


def swept(energy: Ising, x: Tensor, betas: list[float], rule: Rule = heat_bath) -> Tensor:
    """The states, by number, of 2^17 chains after sweeps from x."""
    model = coded(energy)
    words = model.packed(x.expand(2**17, -1))
    model.sweeps(words, betas, rule)
    bits = model.unpacked(words, 2**17).gt(0).long()
    return bits @ (2 ** torch.arange(bits.shape[1]).flip(0))


@models
@pytest.mark.parametrize("rule", [heat_bath, metropolis])
def test_two_sweeps_have_the_law_of_sweeps_by_colours(energy: Ising, rule: Rule) -> None:
    torch.manual_seed(0)
    betas, states = [0.4, 1.3], energy.domain.enumerate().to(energy.dtype)
    counts = torch.bincount(swept(energy, states[2], betas, rule), minlength=len(states))
    assert chi_square_p(counts, exact(energy, 2, betas, rule)) > 1e-3


def pairs_p() -> float:
    """Of chains side by side in a word, and of the halves of all words, against the product of their laws."""
    torch.manual_seed(1)
    energy, betas = Ising.lattice(2, 0.7, field=0.7), [0.4, 0.8]
    found = swept(energy, energy.domain.enumerate()[2].to(energy.dtype), betas)
    law, least = exact(energy, 2, betas), 1.0
    for one, two in ((found[::2], found[1::2]), (found[: 2**16], found[2**16 :])):
        counts = torch.bincount(16 * one + two, minlength=256)
        least = min(least, chi_square_p(counts, torch.outer(law, law).flatten()))
    return least


def test_chains_are_independent() -> None:
    assert pairs_p() > 1e-3


@pytest.mark.parametrize("new", ["random(shape[0], 1).expand(shape)", "random(1, *shape[1:]).expand(shape)"])
def test_shared_random_numbers_are_seen(new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between words, and between the sites of a colour."""
    wrong = mutant(below, "bits = random(*shape)", f"bits = {new} if len(shape) == 2 else random(*shape)")
    monkeypatch.setattr(module, "below", wrong)
    energy, betas = Ising.lattice(2, 0.7, field=0.7), [0.4, 0.8]
    counts = torch.bincount(swept(energy, energy.domain.enumerate()[2].to(energy.dtype), betas), minlength=16)
    assert min(pairs_p(), chi_square_p(counts, exact(energy, 2, betas))) < 1e-9


@models
def test_energies_and_states_survive_the_words(energy: Ising) -> None:
    model, x = coded(energy), energy.random(100)
    words = model.packed(x)
    assert torch.equal(model.unpacked(words, 100).to(x), x)
    assert torch.equal(model.energies(words)[:100], energy(x).double())


def test_full_adders_add() -> None:
    generator = torch.Generator().manual_seed(0)
    columns = [torch.randint(-(2**62), 2**62, (n, 3), generator=generator) for n in (7, 1, 4)]
    digits = added([list(column) for column in columns])
    for bit in (0, 17, 61):
        total = sum(2**b * (column >> bit & 1).sum(0) for b, column in enumerate(columns))
        assert torch.equal(torch.as_tensor(total), sum(2**b * (d >> bit & 1) for b, d in enumerate(digits)))


def test_what_does_not_fit_goes_another_way() -> None:
    graph = lattice_edges(4, 1.0)
    odd = Edges(16, graph.rows, graph.columns, graph.values * 0.1 * (1 + 0.5 * (graph.rows + graph.columns == 1)))
    star: Any = ising({(0, i): 1.0 for i in range(1, 64)}, [0.0] * 64)
    for energy in (Ising(odd, 0.04), star, Ising.learnable(3)):
        assert multi_spin(energy) is None


@pytest.mark.slow
def test_a_search_in_words_finds_a_planted_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MultiSpin, "pays", lambda *_: True)
    torch.manual_seed(0)
    planted = frustrated_loops(12, 100, seed=1)
    found = minimise(planted.energy, ChromaticGibbs(), num_chains=64, num_steps=200)
    assert float(found.energy.min()) == planted.ground
    assert torch.equal(planted.energy(found.x.float()), found.energy)
