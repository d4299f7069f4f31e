"""DiscreteHAMS: generalised detailed balance in exact matrices, what is rejection-free and what is not, mutants."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from helpers_finite import DOMAINS, MOSTLY_TWO_DOMAINS, Exact, Linear, Quadratic, Target, invariance_p
from helpers_mutants import mutant
from helpers_tier import cases
from torch import Tensor
from torch.nn.functional import softplus

from ebmlab.domains import Binary, Categorical, Finite, Spin
from ebmlab.energies import Energy
from ebmlab.errors import UserError
from ebmlab.samplers import DiscreteHAMS
from ebmlab.samplers.discrete_hams import Curvature, HamsState, move
from ebmlab.testing.outcomes import Outcomes
from ebmlab.testing.transitions import filled

Move = Callable[..., Any]
SETTINGS = {
    "plain": (0.9, 0.9, 0.5, 0.8),
    "no correction": (1.4, 0.9, 0.0, 0.8),
    "independent draws": (0.9, 0.9, 0.5, 0.0),
    "large": (6.0, 0.9, 1.0, 0.95),
}
every_domain = pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)


def level(energy: Energy, x: Tensor, settings: tuple[float, ...]) -> Tensor:
    """x / delta - phi delta grad E(x). Its sum with u is kept by a move whose momentum is negated afterwards."""
    return x / settings[0] - settings[2] * settings[0] * energy.value_and_grad(x)[1]


def on_a_fibre(
    energy: Energy, settings: tuple[float, ...], seed: int, step: Move = move, kept: Move = level
) -> tuple[Tensor, ...]:
    """All states (x, u_x) that moves, each followed by a negation, can reach from one: their law and exact matrix."""
    exact = Exact(energy)
    x = filled(exact.states)
    generator = torch.Generator().manual_seed(seed)
    total = kept(energy, x[:1], settings) + torch.randn(x[:1].shape, dtype=torch.float64, generator=generator)
    u = total - kept(energy, x, settings)
    state = HamsState(x=x, energy=energy(x), grad=energy.value_and_grad(x)[1], momentum=u)
    matrix = torch.zeros(len(x), len(exact.states), dtype=torch.float64)

    def run() -> Tensor:
        new, _ = step(energy, state, settings)
        torch.testing.assert_close(-new.momentum, total - kept(energy, new.x, settings), msg="momentum")
        y: Tensor = new.x
        return y

    for y, weight in Outcomes(len(x), 20_000).of(run):
        matrix.index_put_((torch.arange(len(x)), exact.number(y)), weight, accumulate=True)
    n = len(exact.states)
    return (-energy(x[:n]) - u[:n].square().flatten(1).sum(1) / 2).softmax(0), matrix[:n]


def unbalanced(law: Tensor, matrix: Tensor) -> float:
    """How far pi P and P' pi are apart, relative to the largest flow."""
    flow = law.unsqueeze(1) * matrix
    return float((flow - flow.T).abs().max() / flow.max())


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@cases("kind", ["cubic", "flat"], fast=[0])
@MOSTLY_TWO_DOMAINS
def test_generalised_detailed_balance_and_invariance(domain: Finite, kind: Any, settings: tuple[float, ...]) -> None:
    """pi(x, u) K(x, u to y, v) = pi(y, -v) K(y, -v to x, -u), on exact matrices of the kernel's own code."""
    law, matrix = on_a_fibre(Target(domain, kind), settings, seed=0)
    torch.testing.assert_close(matrix.sum(1), torch.ones_like(law))
    assert unbalanced(law, matrix) < 1e-12
    assert (law @ matrix - law).abs().max() < 1e-14
    assert (matrix.diagonal() < 0.99).any()


@MOSTLY_TWO_DOMAINS
def test_a_partly_fresh_momentum_leaves_the_law_invariant_over_many_steps(domain: Finite) -> None:
    assert invariance_p(DiscreteHAMS(0.9), Target(domain, "cubic"), num_steps=6, num_chains=40_000) > 1e-3


RATIO = "state.energy - new.energy + kinetic + here.log_ratio(draw, there)"
MUTANTS = {
    "no kinetic energy": (RATIO, "state.energy - new.energy + here.log_ratio(draw, there)"),
    "way back with the momentum not negated": ("-new.momentum, new.grad", "new.momentum, new.grad"),
    "no reverse term": (RATIO, "state.energy - new.energy + kinetic"),
    "no Metropolis": (RATIO, "0 * kinetic"),
    "stale gradient": ("-new.momentum, new.grad", "-new.momentum, state.grad"),
    "one acceptance per batch": (RATIO, f"({RATIO}).mean().expand_as(kinetic)"),
}


@pytest.mark.parametrize(("old", "new"), MUTANTS.values(), ids=MUTANTS)
def test_mutants_are_caught(old: str, new: str) -> None:
    wrong = mutant(move, old, new)
    assert unbalanced(*on_a_fibre(Target(DOMAINS["binary"], "cubic"), SETTINGS["plain"], 0, wrong)) > 1e-3


def test_a_rejection_that_keeps_the_momentum_is_caught() -> None:
    wrong = mutant(move, "replace(state, momentum=-u)", "state")
    with pytest.raises(AssertionError, match="momentum"):
        on_a_fibre(Target(DOMAINS["binary"], "cubic"), SETTINGS["plain"], 0, wrong)


def test_a_momentum_that_loses_its_variance_is_caught() -> None:
    wrong = mutant(DiscreteHAMS, "root(1 - persistence * persistence)", "(1 - persistence)")
    assert invariance_p(wrong(0.9), Target(DOMAINS["spin"], "cubic"), num_steps=6, num_chains=40_000) < 1e-6


def acceptances(energy: Energy, settings: tuple[float, ...], step: Move = move) -> Tensor:
    """The probability with which a proposal is accepted, for each way in which it is drawn and decided."""
    x = filled(energy.domain.enumerate().double())  # type: ignore[attr-defined]
    u = torch.randn(x.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    state = HamsState(x=x, energy=energy(x), grad=energy.value_and_grad(x)[1], momentum=u)

    def run() -> Tensor:
        rate: Tensor = step(energy, state, settings)[1].acceptance
        return rate

    return torch.stack([rate[weight > 0].min() for rate, weight in Outcomes(len(x), 20_000).of(run)])


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@MOSTLY_TWO_DOMAINS
def test_no_proposal_is_rejected_on_linear_energies(domain: Finite, settings: tuple[float, ...]) -> None:
    """The claim of the paper holds, whatever the settings."""
    assert acceptances(Linear(domain), settings).min() > 1 - 1e-12


@pytest.mark.parametrize("coupling", [0.1, 0.3, 1.0])
def test_proposals_are_rejected_on_a_quadratic_energy(coupling: float) -> None:
    """Of two coupled spins both flip, from (-1, -1) at u = (2, 2) and delta = 1: log of the ratio in closed form."""
    energy = Quadratic(Spin(2), torch.tensor([[0.0, coupling], [coupling, 0.0]], dtype=torch.float64), 0.0)
    x, u = torch.tensor([[-1.0, -1.0]], dtype=torch.float64), torch.full((1, 2), 2.0, dtype=torch.float64)
    state = HamsState(x=x, energy=energy(x), grad=energy.value_and_grad(x)[1], momentum=u)
    rates = []
    for y, _ in Outcomes(1, 100).of(lambda: _moved_and_rate(energy, state)):
        if (y[0, :2] == 1).all():
            rates.append(float(y[0, 2]))
    J = torch.tensor(coupling, dtype=torch.float64)
    expected = float((-4 - 2 * (softplus(-2 - 2 * J) - softplus(2 - 2 * J))).exp())
    assert rates == [pytest.approx(expected, abs=1e-12)] and expected < 0.8


def _moved_and_rate(energy: Energy, state: HamsState) -> Tensor:
    new, info = move(energy, state, (1.0, 0.9, 0.0, 0.0))
    return torch.cat([new.x, info.acceptance.unsqueeze(1)], 1)


def test_an_accepted_move_goes_on_and_does_not_lead_back() -> None:
    """Without refreshment the pair (y, v) never returns to (x, u) in one step: the kernel is irreversible."""
    energy, settings = Target(Binary(4), "cubic"), SETTINGS["plain"]
    torch.manual_seed(0)
    x = energy.domain.random(2000).double()
    start = HamsState(x=x, energy=energy(x), grad=energy.value_and_grad(x)[1], momentum=torch.randn_like(x))
    one, _ = move(energy, start, settings)
    two, _ = move(energy, one, settings)
    back = (two.x == x).all(1) & (one.x != x).any(1)
    away = (two.momentum - start.momentum).abs().amax(1)
    assert back.any() and away[back].min() > 0.1


def test_momentum_of_one_hot_states_has_their_shape() -> None:
    energy = Target(Categorical(2, 3), "cubic")
    state = DiscreteHAMS(0.5).init(energy, energy.domain.random(5))
    assert state.momentum.shape == state.x.shape == (5, 2, 3)


def quadratic(domain: Finite, seed: int = 0) -> Quadratic:
    """W with eigenvalues of both signs."""
    a = torch.randn(domain.size, domain.size, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return Quadratic(domain, 0.7 * (a + a.T), 0.3)


def preconditioned(W: Tensor) -> Curvature:
    sampler = DiscreteHAMS(1.0, curvature=W)
    return Curvature(sampler.vectors, sampler.values, sampler.shift)


NUMBERS = {name: domain for name, domain in DOMAINS.items() if name != "categorical"}
of_numbers = cases("domain", NUMBERS, fast=("ordinal",))


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@of_numbers
def test_the_preconditioned_form_rejects_nothing_on_quadratic_energies(
    domain: Finite, settings: tuple[float, ...]
) -> None:
    """The claim of arXiv:2507.21982, over every proposal from every state, for any settings."""
    energy = quadratic(domain)
    step = partial(move, curvature=preconditioned(energy.W))
    assert acceptances(energy, settings, step=step).min() > 1 - 1e-10
    assert acceptances(energy, settings).min() < 0.9, "the plain form does"
    wrong = partial(move, curvature=preconditioned(0.5 * energy.W))
    assert acceptances(energy, settings, step=wrong).min() < 0.95


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@of_numbers
def test_the_preconditioned_form_is_balanced_with_any_curvature(domain: Finite, settings: tuple[float, ...]) -> None:
    curvature = preconditioned(quadratic(domain, seed=1).W)

    def kept(energy: Energy, x: Tensor, settings: tuple[float, ...]) -> Tensor:
        turn = energy.value_and_grad(x)[1] + curvature.times(x)
        return curvature.root(x, 1 / settings[0] ** 2) - settings[2] * settings[0] * turn

    step = partial(move, curvature=curvature)
    law, matrix = on_a_fibre(Target(domain, "cubic"), settings, seed=0, step=step, kept=kept)
    assert unbalanced(law, matrix) < 1e-11
    assert (law @ matrix - law).abs().max() < 1e-13


class OnSpins(Energy):
    """-x' W x / 2 of a W that is no buffer: states of any precision stay as they are."""

    def __init__(self, W: Tensor) -> None:
        super().__init__()
        self.domain, self.W = Spin(len(W)), W

    def forward(self, x: Tensor) -> Tensor:
        return -((x @ self.W.to(x)) * x).sum(1) / 2


@pytest.mark.parametrize(("dtype", "rounding"), [(torch.float64, 1e-5), (torch.float32, 1e-4), (torch.bfloat16, 0.2)])
def test_the_preconditioned_form_takes_states_in_any_precision(dtype: torch.dtype, rounding: float) -> None:
    energy = OnSpins(quadratic(Spin(4)).W)
    x, info = DiscreteHAMS(0.9, curvature=energy.W).sample(energy, energy.domain.random(500).to(dtype), num_steps=4)
    assert x.dtype == dtype
    assert info.acceptance.min() > 1 - rounding
    assert info.hops.mean() > 0.1


def test_the_preconditioned_sampler_is_exact_and_says_what_does_not_fit() -> None:
    domain = DOMAINS["spin"]
    sampler = DiscreteHAMS(0.9, curvature=quadratic(domain, seed=1).W)
    assert invariance_p(sampler, Target(domain, "cubic"), num_steps=6, num_chains=40_000) > 1e-3
    for fault, message in (
        (lambda: DiscreteHAMS(1.0, curvature=[[0.0, 1.0], [0.5, 0.0]]), r"curvature \(2, 2\) must be a symmetric"),
        (lambda: sampler.check(Target(Spin(3), "cubic")), "curvature has 4 coordinates"),
        (lambda: sampler.check(Target(DOMAINS["categorical"], "cubic")), "these are classes"),
    ):
        with pytest.raises(UserError, match=message):
            fault()
