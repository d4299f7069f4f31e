"""Gibbs: exact transition matrices, conditionals by enumeration, draws, mutants."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers_blocks import Sum, Table, block_bias, block_matrix
from helpers_errors import refused
from helpers_finite import (
    DOMAINS,
    MOSTLY_CUBIC,
    MOSTLY_TWO_DOMAINS,
    Exact,
    Target,
    convergence_distance,
    invariance_p,
)
from helpers_grbm import FAIL, PASS
from helpers_mutants import mutant
from helpers_tier import cases
from torch import Tensor

from ebmlab.domains import Binary, Categorical, Finite, Ordinal, Real, Spin
from ebmlab.energies import Energy
from ebmlab.samplers import blocks as module
from ebmlab.samplers.blocks import place, random_block, redraw
from ebmlab.samplers.gibbs import Gibbs
from ebmlab.testing import chi_square_p

every_domain = pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)
SETTINGS: dict[str, dict[str, Any]] = {
    "1": {},
    "1 random": {"scan": "random"},
    "2": {"block_size": 2},
    "3 random": {"block_size": 3, "scan": "random"},
    "whole": {"block_size": 9},
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@MOSTLY_CUBIC
@MOSTLY_TWO_DOMAINS
def test_every_step_leaves_the_law_invariant(domain: Finite, kind: str, settings: dict[str, Any]) -> None:
    alike = settings.get("scan") == "random" or settings.get("block_size") == 9  # all steps are
    for k in range(1 if alike else domain.size):
        assert block_bias(Gibbs(**settings), Target(domain, kind), at=k) < 1e-12


@every_domain
def test_one_coordinate_has_its_enumerated_conditional(domain: Finite) -> None:
    """P(x, y) = p(y) / (sum of p over the states that agree with x but for coordinate k)."""
    energy = Target(domain, "cubic")
    exact = Exact(energy)
    digits = domain.to_index(exact.states).flatten(1)
    for k in range(domain.size):
        others = torch.arange(domain.size) != k
        agree = (digits[:, None, others] == digits[None, :, others]).all(-1)
        reference = torch.where(agree, exact.probabilities, 0)
        reference = reference / reference.sum(1, keepdim=True)
        torch.testing.assert_close(block_matrix(Gibbs(), energy, at=k), reference, rtol=1e-10, atol=1e-14)
        torch.testing.assert_close(block_matrix(Gibbs(), energy, at=k + domain.size), reference, rtol=1e-10, atol=1e-14)


@every_domain
def test_a_block_of_all_coordinates_gives_independent_draws(domain: Finite) -> None:
    energy = Target(domain, "cubic")
    for row in block_matrix(Gibbs(domain.size), energy):
        torch.testing.assert_close(row, Exact(energy).probabilities, rtol=1e-10, atol=1e-14)
    assert convergence_distance(Gibbs(domain.size), Table(energy), num_steps=1) < 0.05


@pytest.mark.parametrize("name", ["1 random", "2"])
@MOSTLY_TWO_DOMAINS
def test_exact_draws_stay_exact(domain: Finite, name: str) -> None:
    energy, sampler = Table(Target(domain, "cubic")), Gibbs(**SETTINGS[name])
    assert invariance_p(sampler, energy) > PASS
    assert convergence_distance(sampler, energy, num_steps=40, num_chains=2_000) < 0.08


def test_systematic_blocks_are_consecutive_and_disjoint() -> None:
    """Of 5 coordinates in blocks of 2 the third block has one; `init` draws the first block."""
    energy, x = Target(Binary(5), "flat", scale=0.0), torch.zeros(500, 5)
    torch.manual_seed(0)
    seen, first = [], Gibbs(2).init(energy, x).first
    torch.manual_seed(0)
    for state, info in Gibbs(2).chain(energy, x, 6):
        seen.append((state.x != x).any(0).nonzero().flatten().tolist())
        assert info.evaluations == (2.0 if seen[-1] == [4] else 4.0)
        x = state.x
    blocks = [[0, 1], [2, 3], [4]] * 3
    assert seen == blocks[first : first + 6]


def test_many_short_runs_reach_every_coordinate() -> None:
    """As in contrastive divergence, where every iteration calls `init` anew."""
    torch.manual_seed(0)
    energy, start = Target(Binary(4), "flat", scale=0.0), torch.zeros(200, 4)
    x, moved = start, torch.zeros(4, dtype=torch.bool)
    for _ in range(30):
        x, _ = Gibbs().sample(energy, x, 1)
        moved |= (x != start).any(0)
    assert moved.all()


@pytest.mark.parametrize("many", [0, 10**9], ids=["member by member", "at once"])
@pytest.mark.parametrize("width", [1, 2, 3, 5])
def test_random_blocks_are_uniform_without_repeats(width: int, many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MANY", many)
    torch.manual_seed(0)
    for domain in (Binary(5), Categorical((5,), 3)):
        blocks = random_block(domain, domain.random(50_000), width)
        members = torch.zeros(50_000, 5).scatter_(1, blocks, 1.0)
        assert blocks.shape == (50_000, width) and (members.sum(1) == width).all()
        counts = torch.bincount((members @ 2.0 ** torch.arange(5)).long(), minlength=32)
        counts = counts[counts > 0]
        assert len(counts) == [0, 5, 10, 10, 5, 1][width]
        assert len(counts) == 1 or chi_square_p(counts, torch.ones(len(counts))) > PASS


def test_one_coordinate_uses_the_energys_own_differences() -> None:
    """No neighbour is evaluated if the energy has differences; a block's configurations are evaluated in one batch."""
    calls = []

    class Independent(Energy):
        domain = Spin(6)

        def forward(self, x: Tensor) -> Tensor:
            calls.append(len(x))
            return x.sum(1)

        def flip_differences(self, x: Tensor, index: Tensor | None = None) -> Tensor:
            assert index is not None and index.shape == (7, 1)
            return -2 * x.gather(1, index)

    Gibbs().sample(Independent(), Spin(6).random(7), 5)
    assert calls == []
    Gibbs(3, scan="random").sample(Independent(), Spin(6).random(7), 2)
    assert calls == [7 * 8, 7 * 8]


def test_chunks_of_settings_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    energy, x = Target(Categorical(3, 3), "cubic"), Categorical(3, 3).random(4).double()
    ends = []
    for size in (2**22, 50, 1):
        monkeypatch.setattr(module, "CHUNK", size)
        torch.manual_seed(0)
        ends.append(Gibbs(3).sample(energy, x, 5)[0])
    assert torch.equal(ends[0], ends[1]) and torch.equal(ends[0], ends[2])


@every_domain
def test_place_sets_the_given_values(domain: Finite) -> None:
    torch.manual_seed(0)
    x = domain.random(6).double()
    block = random_block(domain, x, 2)
    settings = torch.randint(domain.num_values, (6, 3, 2))
    placed = place(domain, x, block, settings)
    domain.validate(placed)
    expected = domain.to_index(x).flatten(1).unsqueeze(1).repeat(1, 3, 1)
    for b in range(6):
        expected[b][:, block[b]] = settings[b]
    assert torch.equal(domain.to_index(placed).flatten(1), expected.flatten(0, 1))


class Walled(Target):
    """The energy is `bad` where the first two coordinates are (1, 1)."""

    bad = float("inf")

    def forward(self, x: Tensor) -> Tensor:
        return torch.where(x[:, :2].flatten(1).all(1), self.bad, super().forward(x))


@pytest.mark.parametrize("block_size", [1, 2])
def test_infinite_energies_are_not_entered_and_a_broken_law_stays_visible(block_size: int) -> None:
    energy, x = Walled(Binary(4), "cubic"), torch.zeros(200, 4, dtype=torch.float64)
    for energy.bad in (float("inf"), float("nan"), -float("inf")):
        torch.manual_seed(0)
        for state, info in Gibbs(block_size, scan="random").chain(energy, x, 40):
            assert not state.x[:, :2].all(1).any()
            assert energy.bad != float("inf") or (info.acceptance == 1).all()
            assert (info.hops[info.acceptance.isnan()] == 0).all()
        assert info.acceptance.isnan().any() == (energy.bad != float("inf"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_extreme_energies_of_one_chain(settings: dict[str, Any], dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    for domain in DOMAINS.values():
        energy = Target(domain, "cubic", scale=1e4)
        x, info = Gibbs(**settings).sample(energy, domain.random(1).to(dtype), 2 * domain.size)
        domain.validate(x)
        assert x.dtype == info.acceptance.dtype == dtype and (info.acceptance == 1).all()
        ground, _ = Gibbs(domain.size).sample(energy, x, 1)
        states = domain.enumerate().to(dtype)
        assert torch.equal(ground[0], states[energy(states).argmin()])


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_one_state(settings: dict[str, Any]) -> None:
    x, info = Gibbs(**settings).sample(Sum(Ordinal(3, 1)), torch.zeros(2, 3), 4)
    assert not x.any() and not info.hops.any() and (info.acceptance == 1).all() and info.evaluations == 1


MUTANTS = {
    "wrong sign": ("(-energies).log_softmax", "energies.log_softmax"),
    "uniform": ("(-energies).log_softmax", "(0 * energies).log_softmax"),
    "evaluated on another chain's block": (
        "energy(place(domain, x, block, part))",
        "energy(place(domain, x, block.roll(1, 0), part))",
    ),
    "other values than those evaluated": ("new.unsqueeze(1)), Info", "new.unsqueeze(1).flip(2)), Info"),
}
TWO_VALUED_MUTANTS = {
    "wrong sign": ("bernoulli(energies[..., 0] - energies[..., 1])", "bernoulli(energies[..., 1] - energies[..., 0])"),
    "another coordinate's difference": ("(energy, at, block).flatten(1)", "(energy, at, (block + 1) % 4).flatten(1)"),
}


def wrong_gibbs(old: str, new: str, **settings: Any) -> Gibbs:
    """Gibbs with a mutant of the function `redraw`."""
    return mutant(Gibbs, "y, info = redraw(", "y, info = wrong(", wrong=mutant(redraw, old, new))(**settings)


@cases(("old", "new"), MUTANTS, fast=list(MUTANTS)[:1])
def test_mutants_are_caught(old: str, new: str) -> None:
    sampler = wrong_gibbs(old, new, block_size=2, scan="random")
    assert invariance_p(sampler, Table(Target(Categorical(3, 3), "cubic"))) < FAIL


@pytest.mark.parametrize(("old", "new"), TWO_VALUED_MUTANTS.values(), ids=TWO_VALUED_MUTANTS)
@pytest.mark.parametrize("name", ["binary", "spin"])
def test_mutants_on_domains_of_two_values_are_caught(name: str, old: str, new: str) -> None:
    assert invariance_p(wrong_gibbs(old, new), Table(Target(DOMAINS[name], "cubic"))) < FAIL


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Gibbs(0), r"Gibbs: block_size is 0, but must be at least 1"),
        (lambda: Gibbs(scan="both"), 'Gibbs: scan is "both", but must be "systematic" or "random"'),  # type: ignore[arg-type]
        (
            lambda: Gibbs(17).check(Target(Binary(20), "quadratic")),
            r"17 coordinates of Binary\(20\) has 2\^17 configurations",
        ),
        (lambda: Gibbs().check(Sum(Real(2))), r"Gibbs samples Binary or Spin or"),
    ],
)
def test_errors_name_what_is_wrong(make: Any, message: str) -> None:
    with refused(message):
        make()
    Gibbs(17).check(Target(Binary(16), "quadratic"))
