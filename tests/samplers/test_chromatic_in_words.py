"""`sample` and `last_states` of Ising models whose chains share words: the exact law, and reports bit by bit."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from helpers_finite import Exact
from helpers_grbm import FAIL, PASS
from torch import Tensor

from ebmlab.energies import Ising
from ebmlab.errors import UserError
from ebmlab.numerics import bit_planes
from ebmlab.samplers import ChromaticGibbs, ChromaticMetropolis
from ebmlab.samplers import chromatic_gibbs as module
from ebmlab.samplers import multi_spin as coding
from ebmlab.samplers.multi_spin import MultiSpin, multi_spin

LATTICE = Ising.lattice(3, 0.25, field=0.5)
SAMPLERS = {"Gibbs": ChromaticGibbs(), "Metropolis": ChromaticMetropolis()}
every_sampler = pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS)
Last = Callable[[ChromaticGibbs, Tensor, int], Tensor]
LAST: dict[str, Last] = {
    "sample": lambda sampler, x, steps: sampler.sample(LATTICE, x, steps)[0],
    "last_states": lambda sampler, x, steps: sampler.last_states(LATTICE, x, steps),
}


@pytest.fixture
def in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """By torch; the kernel in C++ has tests of its own."""
    monkeypatch.setattr(MultiSpin, "pays", lambda *_: True)
    for where in (module, coding):
        monkeypatch.setattr(where, "by_kernel", lambda device: False)


def p_value(sampler: ChromaticGibbs, last: Last, steps: int, alike: bool = False) -> float:
    """Of the last states of 40,000 chains, from exact draws or from one state."""
    torch.manual_seed(0)
    exact = Exact(LATTICE)
    x = torch.ones(40_000, 9) if alike else exact.sample(40_000).to(LATTICE.dtype)
    return exact.p_value(last(sampler, x, steps))


@every_sampler
@pytest.mark.parametrize("last", LAST.values(), ids=LAST)
def test_exact_draws_stay_exact_and_others_get_there(sampler: ChromaticGibbs, last: Last, in_words: None) -> None:
    assert p_value(sampler, last, 8) > PASS
    assert p_value(sampler, last, 40, alike=True) > PASS


@every_sampler
def test_another_temperature_is_seen(sampler: ChromaticGibbs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "multi_spin", lambda energy: multi_spin(Ising.lattice(3, 0.2, field=0.4)))
    assert p_value(sampler, LAST["last_states"], 8) < FAIL


@every_sampler
def test_reports_count_each_flip(sampler: ChromaticGibbs, in_words: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The chains with odd numbers flip three sites in each sweep, the others none."""

    def flip(self: MultiSpin, words: Tensor, beta: float, random: object, rule: object) -> None:
        words[:3] ^= -0x5555555555555556  # binary 1010...10

    monkeypatch.setattr(MultiSpin, "sweep", flip)
    x = LATTICE.random(100)
    last, info = sampler.sample(LATTICE, x, 11)
    odd = torch.arange(100) % 2
    torch.testing.assert_close(info.hops, 3.0 * odd)
    assert torch.equal((last != x).sum(1), 3 * odd) and last.is_contiguous() and last.dtype == x.dtype
    torch.testing.assert_close(info.acceptance, torch.ones(100) if type(sampler) is ChromaticGibbs else odd / 3)
    assert info.evaluations == 1


def test_a_subclass_of_the_energy_keeps_its_own_law_and_float64_its_digits(in_words: None) -> None:
    class Free(Ising):
        def conditional(self, x: Tensor, sites: Tensor) -> Tensor:
            return torch.full((len(x), len(sites)), 100.0)

    energy = Free(LATTICE.edges(), field=0.5)
    x = energy.random(100)
    assert (ChromaticGibbs().last_states(energy, x, 8) == 1).all()
    wide = Ising.lattice(3, 0.25, field=0.5).double()
    last, info = ChromaticGibbs().sample(wide, wide.random(100), 8)
    assert last.dtype == info.hops.dtype == info.acceptance.dtype == torch.float64


def test_bad_starts_are_one_line(in_words: None) -> None:
    x = LATTICE.random(100)
    for start, steps, message in ((x[:, :4], 8, "shape"), (x * 0, 8, "not in Spin"), (x, "8", "num_steps is 8")):
        with pytest.raises(UserError, match=message):
            ChromaticGibbs().sample(LATTICE, start, steps)  # type: ignore[arg-type]


def test_planes_are_counted() -> None:
    torch.manual_seed(0)
    planes, columns = torch.randint(-(2**62), 2**62, (21, 5, 2)), list[bit_planes.Planes]()
    for plane in planes:
        bit_planes.count(plane, columns)
    assert all(len(column) < 3 for column in columns)
    bits = planes.unsqueeze(-1) >> torch.arange(64) & 1
    assert torch.equal(bit_planes.counted(columns), bits.sum((0, 1)).flatten())


def test_words_are_for_many_chains_and_some_sweeps_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where they are slower, and where a subclass sees each step, states are what they were."""

    class Watching(ChromaticGibbs):
        def chain(self, *args, **settings):  # type: ignore[no-untyped-def]
            return super().chain(*args, **settings)

    for where in (module, coding):
        monkeypatch.setattr(where, "by_kernel", lambda device: False)
    large = Ising.lattice(20, 0.4)
    x = large.random(1000)
    assert ChromaticGibbs()._in_words(large, x, 8) is not None
    assert ChromaticGibbs()._in_words(large, x, 8, compile=True) is None
    assert ChromaticGibbs()._in_words(large, x, 7) is None and ChromaticGibbs()._in_words(large, x[:100], 8) is None
    assert ChromaticMetropolis()._in_words(large, x[:200], 8) is not None
    assert Watching()._in_words(large, x, 8) is None
    large.neighbours.weights[0] += 0.1  # no multiple of the others
    assert ChromaticGibbs()._in_words(large, x, 8) is None


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
