"""RegularisedLangevin: the expected number of changes at every state, exact transition matrices, mutants."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers_finite import DOMAINS, MOSTLY_CUBIC, Target, bias, density
from helpers_mutants import mutant
from helpers_tier import cases

from ebmlab.domains import Finite, Ordinal, Spin
from ebmlab.energies import Ising
from ebmlab.errors import UserError
from ebmlab.samplers import RegularisedLangevin
from ebmlab.samplers.discrete_langevin import Options
from ebmlab.samplers.discrete_langevin import propose as langevin
from ebmlab.samplers.regularised_langevin import change_logits, propose, threshold

every_domain = pytest.mark.parametrize("domain", [*DOMAINS.values(), Ordinal(2, 5)], ids=[*DOMAINS, "ordinal 5"])
mostly_three = cases("domain", {**DOMAINS, "ordinal 5": Ordinal(2, 5)}, fast=("spin", "categorical", "ordinal 5"))


@MOSTLY_CUBIC
@pytest.mark.parametrize("changes", [0.01, 1.0, 1.7])
@mostly_three
def test_the_law_is_invariant(domain: Finite, kind: Any, changes: float) -> None:
    assert bias(RegularisedLangevin(changes, balance=0.6), Target(domain, kind)) < 1e-10


@pytest.mark.parametrize("changes", [0.01, 1.0, 1.7])
@pytest.mark.parametrize("scale", [0.1, 1.0, 3.0])
@every_domain
def test_the_expected_number_of_changes_is_the_same_at_every_state(
    domain: Finite, scale: float, changes: float
) -> None:
    """By enumeration of the law of proposals at every state."""
    energy, states = Target(domain, "cubic", scale=scale), domain.enumerate().double()
    law = propose(energy, states, energy.value_and_grad(states)[1], (changes, 0.5))
    total = mean = torch.zeros(len(states), dtype=torch.float64)
    for k in range(len(states)):
        y = states[k].expand_as(states)
        probability = density(law, y).exp()
        total, mean = total + probability, mean + probability * domain.hops(y, states)
    torch.testing.assert_close(total, torch.ones_like(total))
    torch.testing.assert_close(mean, torch.full_like(mean, changes), rtol=1e-6, atol=0)


def test_it_is_the_discrete_langevin_proposal_with_a_step_of_each_state() -> None:
    energy = Target(Spin(4), "cubic")
    states = energy.domain.enumerate().double()
    grad = energy.value_and_grad(states)[1]
    c = threshold(change_logits(Spin(4), states, -0.5 * grad), 1.3)
    law = propose(energy, states, grad, (1.3, 0.5))
    for k, x in enumerate(states.split(1)):
        alpha = float(2 / c[k])  # |y_i - x_i|^2 / (2 alpha) = c
        theirs = langevin(energy, x, grad[k : k + 1], (alpha, 0.5), Options())
        torch.testing.assert_close(law.logits[k : k + 1], theirs.logits)  # type: ignore[attr-defined]


def test_a_step_of_400_spins_changes_as_many_as_asked() -> None:
    torch.manual_seed(0)
    ising = Ising.lattice(20, 0.4)
    x = ising.domain.random(50)
    law = propose(ising, x, ising.value_and_grad(x)[1], (20.0, 0.5))
    expected = law.logits.sigmoid().sum(1)  # type: ignore[attr-defined]
    torch.testing.assert_close(expected, torch.full((50,), 20.0), rtol=1e-4, atol=0)


RATIO = "state.energy - new.energy + state.proposal.log_ratio(draw, new.proposal)"
MUTANTS = {
    "no reverse term": (RATIO, "state.energy - new.energy"),
    "no Metropolis": (RATIO, "0 * new.energy"),
}


@pytest.mark.parametrize(("old", "new"), MUTANTS.values(), ids=MUTANTS)
def test_mutants_are_caught(old: str, new: str) -> None:
    assert bias(mutant(RegularisedLangevin, old, new)(0.9), Target(DOMAINS["binary"], "cubic")) > 1e-3


def test_a_way_back_with_the_step_of_x_is_caught() -> None:
    """The constant of y belongs into the ratio, not that of x."""
    back = (
        "state.energy - new.energy + factorised(energy.domain, new.x, energy.value_and_grad(new.x)[1], "
        "stiffness=2 * threshold(change_logits(energy.domain, state.x, -0.5 * energy.value_and_grad(state.x)[1]), "
        "settings[0]), weight=-0.5).log_prob(draw.reverse) - draw.log_prob"
    )
    assert bias(mutant(RegularisedLangevin, RATIO, back)(0.9), Target(DOMAINS["binary"], "cubic")) > 1e-3


def test_more_changes_than_nine_tenths_of_the_coordinates_count_as_these() -> None:
    energy = Target(Spin(4), "cubic")
    states = energy.domain.enumerate().double()
    law = propose(energy, states, energy.value_and_grad(states)[1], (50.0, 0.5))
    expected = law.logits.sigmoid().sum(1)  # type: ignore[attr-defined]
    torch.testing.assert_close(expected, torch.full_like(expected, 3.6), rtol=1e-4, atol=0)
    assert bias(RegularisedLangevin(50.0), energy) < 1e-10
    with pytest.raises(UserError, match="RegularisedLangevin: changes is 0, but must be positive"):
        RegularisedLangevin(0)
