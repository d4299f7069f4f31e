"""The kernel that redraws sites of Potts models: exact laws of sweeps, independent chains, no values without weight."""

from __future__ import annotations

import copy
import itertools
import pickle
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from helpers_family import drawn_potts
from helpers_native import replace, unchecked
from helpers_spins import chi_square_p
from helpers_sweeps import number, transitions
from helpers_tier import cases
from torch import Tensor, nn
from torch.nn.functional import one_hot

from ebmlab.domains import Categorical
from ebmlab.energies import Bridge, Clamped, Energy, Frequencies, Potts, Scaled, TemperedEnergy, Uniform
from ebmlab.errors import UserError
from ebmlab.native import site_sweeps
from ebmlab.native.site_sweeps import kernel
from ebmlab.samplers import GibbsSweep
from ebmlab.samplers import gibbs_sweep as module

pytestmark = pytest.mark.skipif(kernel() is None, reason="needs a C++ compiler, Linux, and AVX2 or AVX-512")
CHAINS = 4096


def potts(d: int, q: int, pairs: Any = None) -> Potts:
    return drawn_potts(d, q, pairs, seed=2).float()


def frequencies(d: int, q: int) -> Frequencies:
    return Frequencies(torch.randn(d, q, generator=torch.Generator().manual_seed(1)).softmax(-1))


SIX, STATE = potts(6, 3), one_hot(torch.tensor([0, 2, 1, 0, 0, 1]), 3).float()
MODELS: dict[str, Energy] = {
    "all pairs": potts(4, 3),
    "two values": potts(5, 2),
    "some pairs": potts(4, 3, [[0, 2], [2, 3]]),
    "no pairs": potts(3, 3, []),
    "tempered": Scaled(potts(4, 3), 0.4),
    "from uniform": Bridge(Uniform(Categorical(4, 3)), potts(4, 3), beta=0.3),
    "from frequencies": Bridge(frequencies(4, 3), potts(4, 3), beta=0.3),
    "given some sites": Clamped(SIX, STATE, mask=[False, True, False, False, False, True]),
}


def least_p(energy: Energy, scan: Any = "systematic") -> float:
    """Of one sweep from each of up to 27 states, against the exact transitions."""
    domain = cast(Categorical, energy.domain)
    each = range(domain.size)
    orders = [tuple(each)] if scan == "systematic" else list(itertools.permutations(each))
    matrix, states = transitions(energy, orders), domain.enumerate().float()
    least = 1.0
    for s in range(0, len(states), -(-len(states) // 27)):
        last = GibbsSweep(scan).last_states(energy, states[s].expand(CHAINS, *states.shape[1:]), 1)
        counts = torch.bincount(number(energy, last), minlength=len(states))
        least = min(least, chi_square_p(counts, matrix[s]))
    return least


@pytest.fixture
def only_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "embedding_bag", None)


@pytest.mark.usefixtures("only_the_kernel")
@pytest.mark.parametrize("name", MODELS)
def test_a_sweep_has_the_exact_law(name: str) -> None:
    assert least_p(MODELS[name]) > 1e-5


@pytest.mark.usefixtures("only_the_kernel")
@pytest.mark.parametrize("name", ["no pairs", "all pairs", "some pairs"])
def test_a_sweep_in_random_order_has_the_exact_law(name: str) -> None:
    least = 1.0
    for _ in range(16):  # one order a call
        energy = MODELS[name]
        states = energy.domain.enumerate().float()
        order = torch.randperm(energy.domain.size).tolist()
        laws = module.GibbsSweep("random").init(energy, states[5].expand(CHAINS, *states.shape[1:])).laws
        assert laws is not None and laws.rows is not None
        domain = cast(Categorical, energy.domain)
        firsts = torch.arange(domain.size) * domain.num_values
        places = (domain.to_index(states[5]) + firsts).expand(CHAINS, -1).contiguous()
        laws.rows.redraw(places, order)
        found = (places - firsts) @ (domain.num_values ** torch.arange(domain.size).flip(0))
        law = transitions(energy, [tuple(order)])[5]
        least = min(least, chi_square_p(torch.bincount(found, minlength=len(states)), law))
    assert least > 1e-5


@pytest.mark.usefixtures("only_the_kernel")
@pytest.mark.parametrize("q", [7, 8, 16, 17, 21, 33, 70])
@pytest.mark.parametrize("chains", [1, 3, 9, 21])
def test_any_number_of_values_and_chains(q: int, chains: int) -> None:
    """Of two sites the second given the first, over many calls."""
    energy, firsts = potts(2, q), torch.tensor([0, q])
    x = one_hot(torch.tensor([q - 1, 2]), q).float().expand(chains, -1, -1)
    laws = GibbsSweep().init(energy, x).laws
    assert laws is not None and laws.rows is not None
    places = (torch.tensor([q - 1, 2]) + firsts).expand(6000 // chains * chains, 2).contiguous()
    for part in places.split(chains):
        laws.rows.redraw(part, range(len(laws.tables)))
    first, second = (places - firsts).T
    with torch.no_grad():
        law = energy.local_field(x[:1])[0, 0].double().softmax(0)
        states = torch.stack([torch.arange(q), torch.zeros(q, dtype=torch.long)], 1)
        second_law = law @ energy.local_field(one_hot(states, q).float())[:, 1].double().softmax(1)
    assert chi_square_p(torch.bincount(first, minlength=q), law) > 1e-4
    assert chi_square_p(torch.bincount(second, minlength=q), second_law) > 1e-4


def pairs_p(chains: int = 2**15) -> float:
    """Of chains side by side, of the halves of all, and of sites that do not interact, against products of laws."""
    energy = potts(2, 3, [])
    last = number(energy, GibbsSweep().last_states(energy, energy.random(1).expand(chains, -1, -1), 1))
    p = energy.field.detach().double().softmax(1)
    law = torch.outer(p[0], p[1]).flatten()
    least, both = chi_square_p(torch.bincount(last, minlength=9), law), torch.outer(law, law).flatten()
    for one, two in ((last[::2], last[1::2]), (last[: chains // 2], last[chains // 2 :]), (last[:-8], last[8:])):
        least = min(least, chi_square_p(torch.bincount(9 * one + two, minlength=81), both))
    return least


def test_chains_and_sites_are_independent() -> None:
    assert pairs_p() > 1e-4


@pytest.mark.parametrize("chains", [3, 100])
def test_the_number_of_threads_changes_no_bit_and_a_seed_repeats(chains: int) -> None:
    energy, found = potts(12, 21), []
    x = energy.random(chains)
    for threads in (1, 3, 1):
        torch.set_num_threads(threads)
        torch.manual_seed(1)
        found.append(GibbsSweep().sample(energy, x, 5))
    assert torch.equal(found[0][0], found[1][0]) and torch.equal(found[0][0], found[2][0])
    assert torch.equal(found[0][1].hops, found[1][1].hops) and not torch.equal(found[0][0], x)


def test_chains_at_temperatures_of_their_own() -> None:
    """Every second one has all values alike."""
    energy = potts(3, 4)
    betas = torch.tensor([1.0, 0.0]).repeat(CHAINS)
    x = energy.random(1).expand(2 * CHAINS, -1, -1)
    last = number(energy, GibbsSweep().last_states(TemperedEnergy(energy, betas), x, 1))
    cold = transitions(energy, [(0, 1, 2)])[int(number(energy, x[:1]))]
    assert chi_square_p(torch.bincount(last[::2], minlength=64), cold) > 1e-4
    assert chi_square_p(torch.bincount(last[1::2], minlength=64), torch.full((64,), 1 / 64.0).double()) > 1e-4


def several_p() -> float:
    """The least p of chains of which every third is given other states of two sites, each against its exact law."""
    others = one_hot(torch.tensor([[0, 2, 1, 0, 0, 1], [0, 0, 1, 0, 0, 2], [0, 1, 1, 0, 0, 0]]), 3).float()
    mask = [False, True, False, False, False, True]
    x = MODELS["given some sites"].random(1)
    last = GibbsSweep().last_states(Clamped(SIX, others, mask=mask), x.expand(3 * CHAINS, -1, -1), 1)
    least = 1.0
    for given, part in zip(others, last.chunk(3), strict=True):
        one = Clamped(SIX, given, mask=mask)
        law = transitions(one, [(0, 1, 2, 3)])[int(number(one, x))]
        least = min(least, chi_square_p(torch.bincount(number(one, part), minlength=81), law))
    return least


def test_chains_that_are_given_other_states(only_the_kernel: None) -> None:
    assert several_p() > 1e-4


def test_chains_that_are_given_other_states_without_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "is_possible", lambda *numbers: False)
    assert several_p() > 1e-4


def test_a_value_without_weight_is_never_drawn() -> None:
    energy = potts(3, 20)
    with torch.no_grad():
        energy.field[:, ::2] = -torch.inf
        energy.field[:, 15:] -= 60.0
    x = one_hot(torch.ones(40_000, 3, dtype=torch.long), 20).float()
    last = GibbsSweep().last_states(energy, x, 3)
    assert not last[:, :, ::2].any() and bool((last.sum(2) == 1).all())


@pytest.mark.parametrize("wrong", [torch.nan, torch.inf])
def test_a_law_that_is_none_is_reported_as_by_torch(wrong: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chain in which it appears stays where it was."""
    energy = potts(3, 4, [[0, 1]])
    with torch.no_grad():
        energy.coupling[0, 2] = wrong
    x = one_hot(torch.tensor([[2, 0, 0], [1, 1, 1]]), 4).float()
    with torch.no_grad():
        energy.field[0, 2] = -torch.inf  # so that the second chain never gets there
    found = []
    for possible in (True, False):
        if not possible:
            monkeypatch.setattr(module, "is_possible", lambda *numbers: False)
        try:
            last, info = GibbsSweep().sample(energy, x, 2)
            found.append((last[0].tolist(), info.acceptance.isnan().tolist()))
        except UserError as error:
            found.append((str(error), []))
    assert found[0] == found[1]


def test_what_it_cannot_read_goes_another_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def rows(energy: Energy) -> Any:
        laws = GibbsSweep().init(energy, energy.random(2)).laws
        return None if laws is None else laws.rows

    class Own(Potts):
        def forward(self, x: Tensor) -> Tensor:
            return 2 * super().forward(x)

    assert rows(potts(3, 4)) is not None
    assert rows(potts(3, 4).double()) is None and rows(Own(3, 4)) is None
    mixed = potts(3, 4)
    mixed.coupling = nn.Parameter(mixed.coupling.double())
    assert rows(mixed) is None
    monkeypatch.setattr(site_sweeps, "kernel", lambda: None)
    assert rows(potts(3, 4)) is None


@pytest.mark.parametrize("name", ["all pairs", "some pairs"])
def test_copies_and_pickles_of_a_state_go_on_as_it(name: str) -> None:
    energy, sampler = MODELS[name], GibbsSweep()
    state, found = sampler.init(energy, energy.random(20)), []
    for like in (state, copy.deepcopy(state), pickle.loads(pickle.dumps(state))):
        assert like.laws is not None and like.laws.rows is not None
        torch.manual_seed(5)
        found.append(sampler.step(energy, like)[0].x)
    assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])


def test_neighbours_that_do_not_exist_are_an_error() -> None:
    """Such as those of a stranger's file; nothing beyond the states is read."""
    for wrong in (-3, 4, 2**40):
        rows = site_sweeps.SiteRows(3)
        for site in range(4):
            near = torch.tensor([site, wrong if site == 1 else 0])
            rows.append(torch.zeros(6, 3), within=None, neighbours=near)
        with pytest.raises(IndexError, match="neighbours must be sites from 0 to 3"):
            rows.redraw(torch.zeros(5, 4, dtype=torch.long), range(4))
    with pytest.raises(IndexError, match="a state has 3 sites, but the model has 4"):
        rows.redraw(torch.zeros(5, 3, dtype=torch.long), range(4))


def test_sites_without_neighbours_have_all_values_alike_and_chains_may_be_none() -> None:
    rows, places = site_sweeps.SiteRows(3), torch.zeros(3000, 1, dtype=torch.long)
    rows.append(torch.zeros(0, 3), within=None, neighbours=torch.zeros(0, dtype=torch.long))
    assert rows.redraw(places[:0], [0]).shape == (0,)
    rows.redraw(places, [0])
    assert chi_square_p(torch.bincount(places[:, 0], minlength=3), torch.full((3,), 1 / 3).double()) > 1e-4


MUTANTS = {
    "sites of a table ignore each other": ("table.within && m < table.sites", "false && m < table.sites"),
    "without a factor": ("factors && a < values", "false && factors"),
    "others of the first site": ("added[site * values + a]", "added[site * 0 + a]"),
    "others of the first chain": ("(b + c) * apart", "0 * apart"),
    "rows of all sites": ("table.others ? table.others[m] : m", "m"),
    "the last value is never drawn": ("a + 1 < values; ++a) value +=", "a + 2 < values; ++a) value +="),
    "one number for all chains": ("words[i * WORDS + b + c - begin]", "words[i * WORDS]"),
    "one number for all sites": ("words[i * WORDS + b + c - begin]", "words[b + c - begin]"),
    "one stream for all chains": ("random.emplace_back(seed, g)", "random.emplace_back(seed, 0)"),
    "half the digits": ("word >> 12", "word >> 13"),
}


@cases("name", {name: name for name in MUTANTS}, fast=["without a factor", "one number for all sites"])
def test_a_wrong_law_is_seen(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    right = kernel()
    replace(*MUTANTS[name], tmp_path, monkeypatch)
    library = unchecked("site_sweeps", right)
    monkeypatch.setattr(site_sweeps, "kernel", lambda: library)
    names = ["all pairs", "some pairs", "from frequencies"]
    assert min(pairs_p(), several_p(), *(least_p(MODELS[name]) for name in names)) < 1e-6


@pytest.mark.parametrize(("sign", "right"), [("<", True), (">", False)])  # the former has the same law
def test_a_kernel_that_draws_other_values_is_not_used(
    sign: str, right: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    replace("value += sums[a] <= level", f"value += sums[a] {sign} level", tmp_path, monkeypatch)
    assert (kernel.__wrapped__() is not None) is right
