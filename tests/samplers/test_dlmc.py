"""DLMC: the law of a jump process by matrix exponentials, exact transition matrices, mutants."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers_finite import DOMAINS, MOSTLY_CUBIC, MOSTLY_TWO_DOMAINS, Linear, Target, bias, density
from helpers_mutants import mutant

from ebmlab.domains import Binary, Finite, Ordinal, Spin
from ebmlab.errors import UserError
from ebmlab.samplers import DLMC, BlockGibbs
from ebmlab.samplers.dlmc import propose
from ebmlab.studies import trained_energy

every_domain = pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)


@pytest.mark.parametrize("solver", ["flow", "euler"])
@pytest.mark.parametrize("time", [0.5, 20.0])
@MOSTLY_CUBIC
@MOSTLY_TWO_DOMAINS
def test_the_law_is_invariant(domain: Finite, kind: Any, time: float, solver: Any) -> None:
    assert bias(DLMC(time, solver), Target(domain, kind)) < 1e-10


@pytest.mark.parametrize("time", [0.05, 0.7, 30.0])
@pytest.mark.parametrize("domain", [Binary(1), Spin(1)], ids=["binary", "spin"])
def test_two_values_follow_the_jump_process(domain: Finite, time: float) -> None:
    """By the exponential of its generator, whose rates are sqrt(p(y) / p(x))."""
    energy = Linear(domain)
    x = domain.enumerate().double()
    value, grad = energy.value_and_grad(x)
    rates = ((value.unsqueeze(1) - value) / 2).exp().fill_diagonal_(0)
    expected = torch.matrix_exp(time * (rates - rates.sum(1).diag()))
    law = propose(energy, x, grad, (time,), "flow")
    torch.testing.assert_close(density(law, x).exp(), expected.diagonal())
    torch.testing.assert_close(density(law, x.flip(0)).exp(), expected.flip(1).diagonal())


@pytest.mark.parametrize("solver", ["flow", "euler"])
def test_more_values_have_the_rates_of_the_process_at_first_and_its_law_in_the_end(solver: Any) -> None:
    domain = Ordinal(1, 5)
    energy, x = Linear(domain), domain.enumerate().double()
    value, grad = energy.value_and_grad(x)
    for k in range(1, 5):
        y = (x + k) % 5
        jump = (value - energy(y)) / 2
        soon = density(propose(energy, x, grad, (1e-6,), solver), y).exp()
        torch.testing.assert_close(soon / 1e-6, jump.exp(), rtol=1e-4, atol=0)
        late = density(propose(energy, x, grad, (1e6,), solver), y)
        torch.testing.assert_close(late, (-value).log_softmax(0)[y.squeeze(1).long()])


@pytest.mark.parametrize("solver", ["flow", "euler"])
@every_domain
def test_no_proposal_is_rejected_on_linear_energies(domain: Finite, solver: Any) -> None:
    torch.manual_seed(0)
    energy = Linear(domain)
    _, info = DLMC(0.4, solver).sample(energy, domain.random(500).double(), 5)
    assert info.acceptance.min() > 1 - 1e-10 and info.hops.max() > 0


RATIO = "state.energy - new.energy + state.proposal.log_ratio(draw, new.proposal)"
MUTANTS = {
    "no reverse term": (RATIO, "state.energy - new.energy"),
    "no Metropolis": (RATIO, "0 * new.energy"),
    "stale gradient": (
        "new = start(energy, draw.y, settings, solver)",
        "new = start(energy, draw.y, settings, solver); new.proposal = "
        "propose(energy, draw.y, energy.value_and_grad(state.x)[1], settings, solver)",
    ),
}


@pytest.mark.parametrize(("old", "new"), MUTANTS.values(), ids=MUTANTS)
def test_mutants_are_caught(old: str, new: str) -> None:
    assert bias(mutant(DLMC, old, new)(0.5), Target(DOMAINS["binary"], "cubic")) > 1e-3


def test_other_solvers_are_refused() -> None:
    with pytest.raises(UserError, match='DLMC: solver is "heun"'):
        DLMC(0.1, "heun")  # type: ignore[arg-type]


@pytest.mark.slow
def test_large_steps_leave_most_random_states_of_a_trained_rbm_where_they_are() -> None:
    """Its acceptance does not fall with the step: the same step moves states of the model well."""
    energy, sampler = trained_energy("zoo/rbm-digits"), DLMC(4.3)
    torch.manual_seed(0)
    x = energy.random(25)
    after, _ = sampler.sample(energy, x, 600)
    assert int((after == x).all(1).sum()) >= 20
    states = BlockGibbs().last_states(energy, energy.random(25), 2000)
    _, info = sampler.sample(energy, states, 200)
    assert float(info.acceptance.mean()) > 0.6
