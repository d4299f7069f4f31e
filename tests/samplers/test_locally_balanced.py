"""LocallyBalanced: exact transition matrices, the proposal by enumeration, what is cached, mutants."""

from __future__ import annotations

from typing import Any, Literal

import pytest
import torch
from helpers_blocks import Sum, Table
from helpers_errors import refused
from helpers_finite import (
    DOMAINS,
    MOSTLY_CUBIC,
    MOSTLY_TWO_DOMAINS,
    Exact,
    Target,
    bias,
    convergence_distance,
    invariance_p,
)
from helpers_grbm import PASS, last_state
from helpers_mutants import mutant
from helpers_tier import cases
from torch import Tensor

from ebmlab.domains import Binary, Categorical, Finite, Ordinal, Real, Spin
from ebmlab.energies import Energy
from ebmlab.samplers import MetropolisSampler
from ebmlab.samplers.locally_balanced import LocallyBalanced

Weight = Literal["sqrt", "barker", "min", "max"]
G = {
    "sqrt": lambda t: t.sqrt(),
    "barker": lambda t: t / (1 + t),
    "min": lambda t: t.clamp(max=1),
    "max": lambda t: t.clamp(min=1),
}
every_weight = pytest.mark.parametrize("weight", G)
every_domain = pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)


@every_weight
@MOSTLY_CUBIC
@every_domain
def test_the_law_is_invariant(domain: Finite, kind: str, weight: Weight) -> None:
    assert bias(LocallyBalanced(weight), Target(domain, kind)) < 1e-12


@every_weight
@every_domain
def test_the_proposal_is_the_papers(domain: Finite, weight: Weight) -> None:
    """q(y | x) = g(p(y) / p(x)) / Z(x) where y differs in one coordinate."""
    energy = Target(domain, "cubic")
    exact = Exact(energy)
    digits = domain.to_index(exact.states).flatten(1)
    near = (digits.unsqueeze(1) != digits).sum(2) == 1
    expected = torch.where(near, G[weight](exact.probabilities / exact.probabilities.unsqueeze(1)), 0)
    expected = expected / expected.sum(1, keepdim=True)
    sampler = LocallyBalanced(weight)
    for start, row in zip(exact.states, expected, strict=True):
        state = sampler.init(energy, start.expand_as(exact.states))
        torch.testing.assert_close(
            sampler.proposal(energy, state).log_prob(exact.states).exp(), row, rtol=1e-9, atol=1e-14
        )


@every_weight
@MOSTLY_TWO_DOMAINS
def test_the_law_is_reached(domain: Finite, weight: Weight) -> None:
    sampler = LocallyBalanced(weight)
    assert convergence_distance(sampler, Table(Target(domain, "cubic")), num_steps=60, num_chains=2_000) < 0.08


@MOSTLY_TWO_DOMAINS
def test_exact_draws_stay_exact(domain: Finite) -> None:
    assert invariance_p(LocallyBalanced(), Table(Target(domain, "cubic"))) > PASS


@every_domain
def test_the_differences_at_y_are_reused_by_the_next_step(domain: Finite) -> None:
    """A step evaluates the neighbours once, and the cached differences belong to x."""
    calls: list[int] = []

    class Counting(Target):
        def value_differences(self, x: Tensor, index: Tensor | None = None) -> Tensor:
            calls.append(len(x))
            return super().value_differences(x, index)

        def flip_differences(self, x: Tensor, index: Tensor | None = None) -> Tensor:
            calls.append(len(x))
            return super().flip_differences(x, index)

    energy, sampler = Counting(domain, "cubic"), LocallyBalanced()
    torch.manual_seed(0)
    state = last_state(sampler, energy, domain.random(9).double(), 7)
    assert calls == [9] * 8
    fresh = sampler.init(energy, state.x)
    torch.testing.assert_close(state.energy, fresh.energy, rtol=1e-12, atol=1e-12)  # type: ignore[attr-defined]
    law: Any = sampler.proposal(energy, fresh)
    torch.testing.assert_close(state.proposal.log_probs, law.log_probs, rtol=1e-12, atol=1e-12)  # type: ignore[union-attr]
    _, info = sampler.step(energy, fresh)
    assert info.evaluations == domain.size * (domain.num_values - 1) + 1


@cases("dtype", [torch.float32, torch.float64], fast=[0])
@every_weight
@MOSTLY_TWO_DOMAINS
def test_extreme_energies_of_one_chain(domain: Finite, weight: Weight, dtype: torch.dtype) -> None:
    """Chains with bounded weights end where no change of one coordinate lowers the energy.

    With the other weights Z(x) / Z(y) is 0 for a y that has a steeper descent than x, so that such moves are rejected.
    """
    torch.manual_seed(0)
    energy = Target(domain, "cubic", scale=1e4)
    x, info = LocallyBalanced(weight).sample(energy, domain.random(1).to(dtype), 60)
    domain.validate(x)
    assert x.dtype == info.acceptance.dtype == dtype and info.acceptance.isfinite().all()
    assert weight in ("sqrt", "max") or energy.value_differences(x).min() >= 0


@every_weight
def test_one_state(weight: Weight) -> None:
    x, info = LocallyBalanced(weight).sample(Sum(Ordinal(3, 1)), torch.zeros(2, 3), 4)
    assert not x.any() and not info.hops.any() and (info.acceptance == 1).all() and info.evaluations == 1


class Walled(Target):
    """The energy is `bad` where the first coordinate is +1; if `island` is set, at all other states but one too."""

    bad, island = float("inf"), False

    def forward(self, x: Tensor) -> Tensor:
        wall = (x[:, 0] > 0) | (self.island & (x > 0).any(1))
        return torch.where(wall, self.bad, super().forward(x))


@every_weight
def test_infinite_energies_are_not_entered(weight: Weight) -> None:
    torch.manual_seed(0)
    energy, x = Walled(Spin(4), "cubic"), -torch.ones(50, 4, dtype=torch.float64)
    for state, info in LocallyBalanced(weight).chain(energy, x, 30):
        assert (state.x[:, 0] < 0).all() and info.acceptance.isfinite().all()
    assert not torch.equal(state.x, x)
    energy.island = True
    last, info = LocallyBalanced(weight).sample(energy, x, 3)
    assert torch.equal(last, x) and (info.acceptance == 1).all()


@cases("weight", {name: name for name in G}, fast=("sqrt",))
def test_chains_leave_a_forbidden_start(weight: Weight) -> None:
    torch.manual_seed(0)
    energy = Walled(Spin(4), "cubic")
    x = torch.ones(8_000, 4, dtype=torch.float64)
    y, info = LocallyBalanced(weight).sample(energy, x, 1)
    assert (y[:, 0] < 0).all() and (info.acceptance == 1).all() and (info.hops == 1).all()
    near = energy.domain.enumerate().double()[:8]  # -1 comes first
    law = (-energy(near)).softmax(0)
    found = LocallyBalanced(weight).last_states(energy, y, 60)
    shares = torch.bincount(energy.domain.to_index(found) @ torch.tensor([8, 4, 2, 1]), minlength=8) / len(found)
    torch.testing.assert_close(shares.double(), law, atol=0.02, rtol=0)


def test_a_chain_among_forbidden_states_stays_and_says_so() -> None:
    energy, x = Walled(Spin(4), "cubic"), torch.ones(5, 4, dtype=torch.float64)
    energy.island = True
    last, info = LocallyBalanced().sample(energy, x, 3)
    assert torch.equal(last, x) and info.acceptance.isnan().all()


def test_nan_is_not_entered_and_stays_visible() -> None:
    torch.manual_seed(0)
    energy, x = Walled(Spin(4), "cubic"), -torch.ones(50, 4, dtype=torch.float64)
    energy.bad = float("nan")
    last, info = LocallyBalanced().sample(energy, x, 3)
    assert torch.equal(last, x) and info.acceptance.isnan().all()


MUTANTS = {
    "not balanced": ("lambda log_t: log_t / 2", "lambda log_t: log_t"),
    "other direction": ("log_t = -change_differences", "log_t = change_differences"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_caught(name: str) -> None:
    """With Metropolis any positive weight is exact, so that the proposal itself is compared with the right one."""
    old, new = MUTANTS[name]
    energy, right, wrong = Target(Spin(4), "cubic"), LocallyBalanced(), mutant(LocallyBalanced, old, new)()
    states = Exact(energy).states
    one = states[:1].expand_as(states)
    densities = [s.proposal(energy, s.init(energy, one)).log_prob(states).exp() for s in (right, wrong)]
    assert (densities[0] - densities[1]).abs().max() > 1e-2


def test_stale_differences_are_caught() -> None:
    """In this mutant the proposal at y uses the differences at x."""
    line = "there = self.proposal(energy, new)"
    wrong = mutant(MetropolisSampler, line, f"{line}; there.log_probs = here.log_probs")
    sampler = type("Wrong", (LocallyBalanced,), {"step": wrong.step})()
    assert bias(sampler, Target(Spin(4), "cubic")) > 1e-3


def test_no_reverse_term_is_caught() -> None:
    wrong = mutant(
        MetropolisSampler,
        "self.potential(state) - self.potential(new) + back - forth",
        "self.potential(state) - self.potential(new)",
    )
    sampler = type("Wrong", (LocallyBalanced,), {"step": wrong.step})()
    assert bias(sampler, Target(Spin(4), "cubic")) > 1e-3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LocallyBalanced("root"), 'LocallyBalanced: weight is "root", but must be "sqrt", "barker"'),  # type: ignore[arg-type]
        (lambda: LocallyBalanced().check(Sum(Real(4))), r"LocallyBalanced samples Binary or Spin or"),
    ],
)
def test_errors_name_what_is_wrong(make: Any, message: str) -> None:
    with refused(message):
        make()


def test_of_structured_energies_only_flip_differences_are_used() -> None:
    class Independent(Energy):
        domain = Spin(6)

        def forward(self, x: Tensor) -> Tensor:
            assert len(x) == 7, "materialised"
            return x.sum(1)

        def flip_differences(self, x: Tensor, index: Tensor | None = None) -> Tensor:
            assert index is None
            return -2 * x

    _, info = LocallyBalanced().sample(Independent(), Spin(6).random(7), 5)
    assert info.hops.min() > 0


@pytest.mark.parametrize(("domain", "rows"), [(Binary(6), 7), (Ordinal(3, 4), 10), (Categorical(2, 3), 5)])
def test_the_report_counts_the_states_that_are_evaluated(domain: Finite, rows: int) -> None:
    seen: list[int] = []

    class Counting(Energy):
        def __init__(self) -> None:
            super().__init__()
            self.domain = domain

        def forward(self, x: Tensor) -> Tensor:
            seen.append(len(x))
            return x.flatten(1).cumsum(1).sin().sum(1)

    energy, sampler = Counting(), LocallyBalanced()
    state, _ = sampler.step(energy, sampler.init(energy, domain.random(5)))
    for _ in range(4):
        seen.clear()
        state, info = sampler.step(energy, state)
        assert sum(seen) == 5 * rows and info.evaluations == rows
        torch.testing.assert_close(state.energy, energy(state.x))
