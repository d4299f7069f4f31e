"""ACS and its tuner: every step of a cycle by exact transition matrix, the schedule by hand, the search for it."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers_finite import DOMAINS, MOSTLY_CUBIC, MOSTLY_TWO_DOMAINS, Exact, Target, bias, transition_matrix
from helpers_mutants import mutant
from helpers_tier import cases
from torch import Tensor

from ebmlab.domains import Binary, Finite, Ordinal, Spin
from ebmlab.energies import Energy
from ebmlab.errors import UserError
from ebmlab.samplers import DMALA, Info
from ebmlab.samplers.acs import ACS, cyclical
from ebmlab.samplers.kernel import Kernel
from ebmlab.samplers.tuners.acs_search import ACSTuner


class Couplings(Energy):
    """E(x) = -x'Jx / 2 - h'x on 50 spins with random J and h; counts its evaluations."""

    def __init__(self, coupling: float = 0.25) -> None:
        super().__init__()
        self.domain = Spin(50)
        self.calls = 0
        generator = torch.Generator().manual_seed(1)
        noise = torch.randn(50, 50, generator=generator)
        self.register_buffer("J", coupling * torch.triu(noise, 1) / 5)
        self.J += self.J.T.clone()
        self.register_buffer("h", 0.3 * torch.randn(50, generator=generator))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return -((x @ self.J) * x).sum(1) / 2 - x @ self.h

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self(x), -x @ self.J - self.h


class Walk(Energy):
    """An energy of the given scale on any finite domain."""

    def __init__(self, domain: Finite, scale: float) -> None:
        super().__init__()
        self.domain, self.scale = domain, scale

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * (torch.arange(1, x[0].numel() + 1).to(x) * x.flatten(1)).sum(1)


def make(**settings: Any) -> ACS:
    return ACS(**{"alpha_max": 5.0, "alpha_min": 0.4, "cycle_length": 5, "balance_max": 0.9, **settings})


def test_schedule_by_hand() -> None:
    root = math.sqrt(0.5)
    torch.testing.assert_close(cyclical(4, 1, 4), torch.tensor([4, 2 + 2 * root, 2, 1.0]))
    sampler = ACS(4, 0.1, cycle_length=4, balance_max=0.9, balance_min=0.5)
    torch.testing.assert_close(sampler.step_sizes, torch.tensor([4, 2 + 2 * root, 2, 2 - 2 * root]))
    torch.testing.assert_close(sampler.balances, torch.tensor([0.9, 0.45 + 0.45 * root, 0.5, 0.5]))
    for length in (1, 2, 8, 20):
        values = cyclical(1575, 3, length)
        assert len(values) == length and values[0] == 1575 and values.min() >= 3
        assert (values.diff() <= 0).all()
    assert [float(sampler.settings(k)[0]) for k in (0, 4, 8)] == [4, 4, 4]
    assert sampler.settings(7) == sampler.settings(3) != sampler.settings(4)


def test_given_schedules() -> None:
    sampler = ACS(step_sizes=[3, 1], balances=[0.75, 0.5])
    assert [tuple(map(float, sampler.settings(k))) for k in range(3)] == [(3, 0.75), (1, 0.5), (3, 0.75)]
    assert not sampler.state_dict() and set(dict(sampler.named_buffers())) == {"step_sizes", "balances"}


@cases("k", range(5), fast=[0, 2])
@MOSTLY_CUBIC
@MOSTLY_TWO_DOMAINS
def test_every_step_of_the_cycle_leaves_the_law_invariant(domain: Finite, kind: str, k: int) -> None:
    assert bias(make(), Target(domain, kind), at=k) < 1e-10


@pytest.mark.slow
def test_with_the_options_of_dmala() -> None:
    ordinal = Target(Ordinal(2, 5), "cubic", scale=0.3)
    for k in (0, 3):
        assert bias(make(window=2), ordinal, at=k) < 1e-10
        assert bias(make(precondition=[0.5, 2.0]), ordinal, at=k) < 1e-10


@cases("k", [0, 3, 7], fast=[1])
def test_steps_are_dmala_at_their_settings(k: int) -> None:
    energy, sampler = Target(DOMAINS["spin"], "cubic"), make()
    alpha, beta = sampler.settings(k)
    torch.testing.assert_close(
        transition_matrix(sampler, energy, step=k), transition_matrix(DMALA(float(alpha), float(beta)), energy)
    )


@MOSTLY_TWO_DOMAINS
def test_a_cycle_converges(domain: Finite) -> None:
    """From every state, 100 cycles of exact transition matrices end at the law."""
    energy = Target(domain, "cubic")
    cycle = torch.linalg.multi_dot([transition_matrix(make(), energy, step=k) for k in range(5)])
    steps = torch.linalg.matrix_power(cycle, 100)
    assert (steps - Exact(energy).probabilities).abs().sum(1).max() / 2 < 0.02


def test_chains_go_through_the_cycle() -> None:
    energy, sampler, seen = Couplings(), make(), []

    class Spy(ACS):
        def kernel_on(self, energy: Any) -> Kernel:
            kernel = super().kernel_on(energy)
            return kernel._replace(step=lambda e, state, row, *o: seen.append(row) or kernel.step(e, state, row, *o))

    sampler.__class__ = Spy
    sampler.sample(energy, energy.domain.random(3), 12)
    assert seen == [[float(number) for number in sampler.settings(k)] for k in range(12)]
    assert energy.calls == 13


RATIO = "state.energy - new.energy + here.log_ratio(draw, there)"
MUTANTS = {
    "reverse of the next step": (
        "there = propose(energy, new.x, new.grad, settings, options)",
        "there = propose(energy, new.x, new.grad, (settings[0] / 2, settings[1]), options)",
    ),
    "one acceptance per batch": (RATIO, f"({RATIO}).mean().expand_as(new.energy)"),
}


@pytest.mark.parametrize(("old", "new"), MUTANTS.values(), ids=MUTANTS)
def test_mutants_are_caught(old: str, new: str) -> None:
    sampler = make()
    sampler.__class__ = mutant(ACS, old, new)
    assert bias(sampler, Target(DOMAINS["binary"], "cubic"), at=1) > 1e-3


@pytest.mark.parametrize("scale", [0.0, 1e4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_flat_and_steep_energies(scale: float, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    for domain in (*DOMAINS.values(), Ordinal(3, 1)):
        energy = Walk(domain, scale)
        with torch.inference_mode():
            x, info = ACS().sample(energy, domain.random(1).to(dtype), 40)
        domain.validate(x)
        assert x.dtype == info.acceptance.dtype == dtype and info.acceptance.isfinite().all()
        assert info.hops > 0 or scale > 0 or domain.num_values == 1
        assert scale == 0 or torch.equal(domain.to_index(x), torch.zeros(1, *domain.shape).long())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"alpha_max": 0.1, "alpha_min": 0.2}, "alpha_min is 0.2 and alpha_max 0.1"),
        ({"alpha_min": 0.0}, "alpha_min is 0.0"),
        ({"balance_max": 1.5}, "balance_max is 1.5"),
        ({"balance_min": 0.97}, "balance_min is 0.97, but must be at most balance_max, 0.95"),
        ({"cycle_length": 0}, "cycle_length is 0"),
        ({"step_sizes": [1.0, 2.0]}, r"step_sizes \(2,\) and balances \(20,\)"),
        ({"step_sizes": [1.0, 0.0], "cycle_length": 2}, "step_sizes holds other numbers, but each entry must be pos"),
    ],
)
def test_wrong_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        ACS(**settings)


# Tests of the tuner


def acceptance(energy: Energy, x: Tensor, alpha: float, beta: float) -> float:
    """Mean over a run of all chains by DMALA, from x that are in equilibrium."""
    return float(DMALA(alpha, beta).sample(energy, x, 60)[1].acceptance.mean())


def test_tuned_ends_have_the_wanted_acceptance() -> None:
    """0.5 within 0.06 for both step sizes on 50 coupled spins; the search starts above 0.99 and below 0.15."""
    torch.manual_seed(0)
    energy = Couplings(0.6)
    sampler = ACS(balance_max=0.7)
    start = energy.domain.random(100)
    tuned, x = ACSTuner().tune(sampler, energy, start, 500)
    high, low = (float(a) for a in (tuned.step_sizes[0], tuned.step_sizes[-1]))
    assert 0.05 < low < high < 60
    x, _ = DMALA(0.3).sample(energy, x, 150)
    assert acceptance(energy, x, low, 0.5) == pytest.approx(0.5, abs=0.06)
    assert acceptance(energy, x, high, 0.7) == pytest.approx(0.5, abs=0.06)
    assert acceptance(energy, x, 0.05, 0.5) > 0.99 and acceptance(energy, x, 60.0, 0.7) < 0.15
    assert len(tuned.balances) == 20 and float(tuned.balances[0]) == pytest.approx(0.7) and tuned.balances[-1] == 0.5
    assert (tuned.balances.diff() <= 0).all()
    torch.testing.assert_close(tuned.step_sizes, cyclical(high, low, 20))
    cycle = tuned.sample(energy, x, 100)[1].acceptance.mean()
    assert cycle > 0.45 > 0.2 > sampler.sample(energy, x, 100)[1].acceptance.mean()


def test_the_balances_at_the_ends_stay_the_samplers() -> None:
    energy = Couplings()
    tuned, _ = ACSTuner().tune(make(cycle_length=2, balance_max=0.9), energy, energy.domain.random(8), 25)
    assert tuned.balances.tolist() == pytest.approx([0.9, 0.5])
    given = ACS(step_sizes=[5.0, 1.0, 0.4], balances=[0.8, 0.7, 0.6])
    tuned, _ = ACSTuner().tune(given, energy, energy.domain.random(8), 40)
    assert tuned.balances[[0, 2]].tolist() == pytest.approx([0.8, 0.6]) and (tuned.balances.diff() <= 0).all()


@cases(("num_steps", "cycle_length"), [(500, 20), (200, 8), (137, 20), (90, 20), (25, 2)], fast=[2, 3, 4])
def test_budget_and_argument(num_steps: int, cycle_length: int) -> None:
    """One evaluation per step and one for the first state; the argument is not changed."""
    torch.manual_seed(0)
    energy, sampler = Couplings(), ACS(cycle_length=cycle_length)
    before, start = copy.deepcopy(sampler), energy.domain.random(8)
    given = start.clone()
    tuned, x = ACSTuner().tune(sampler, energy, start, num_steps)
    assert 0.8 * num_steps <= energy.calls - 1 <= num_steps
    assert torch.equal(sampler.step_sizes, before.step_sizes) and torch.equal(sampler.balances, before.balances)
    assert torch.equal(start, given) and x.shape == start.shape
    assert tuned is not sampler and len(tuned.step_sizes) == cycle_length and tuned.exact
    energy.domain.validate(x)


def test_the_usual_500_steps() -> None:
    assert ACSTuner()._shares(500, 20) == (50, 110, 10)


class Wavy(ACS):
    """An ACS that reports an acceptance of 0.5 at the step sizes 0.3, 1 and 20: falling, rising and falling there."""

    def step(self, energy: Energy, state: Any) -> Any:
        after, info = super().step(energy, state)
        log = float(self.settings(state.step)[0].log())
        curve = -math.prod(log - math.log(a) for a in (0.3, 1.0, 20.0))
        rate = torch.sigmoid(torch.tensor(curve))
        return after, Info(rate.expand_as(info.acceptance), info.hops, evaluations=info.evaluations)


@pytest.mark.parametrize(("largest", "expected"), [(False, 0.3), (True, 20.0)])
def test_of_several_step_sizes_with_the_rate_the_outermost_is_found(largest: bool, expected: float) -> None:
    energy, sampler = Couplings(), Wavy()
    state = sampler.init(energy, energy.domain.random(2))
    alpha, _ = ACSTuner().estimate_alpha(sampler, energy, state, beta=0.5, num_steps=110, largest=largest)
    assert alpha == pytest.approx(expected, rel=0.05)


def test_a_round_on_both_sides_of_the_rate_takes_the_nearest() -> None:
    """A round from 0.25 tries 0.25, 0.281, 0.3125, 0.344 and 0.375, and 0.3 has the target acceptance."""
    energy, sampler = Couplings(), Wavy()
    state = sampler.init(energy, energy.domain.random(2))
    tuner = ACSTuner(alpha_floor=0.25, learning_rate=1.0)
    alpha, _ = tuner.estimate_alpha(sampler, energy, state, beta=0.5, num_steps=tuner.proposals, largest=False)
    assert alpha == pytest.approx(0.3125)


def test_acceptance_is_not_monotone_and_the_ends_are_found_on_either_side() -> None:
    """Balance 0.95 on weakly coupled spins: 1 at tiny steps, a dip at 1, a hump at 4, and down again."""
    torch.manual_seed(0)
    energy, beta, rate = Couplings(0.1), 0.95, 0.7
    x, _ = DMALA(0.3).sample(energy, energy.domain.random(300), 150)
    dip, hump, ceiling = (acceptance(energy, x, alpha, beta) for alpha in (1.0, 4.0, 60.0))
    assert dip < rate - 0.02 and hump > rate + 0.02 and ceiling < rate - 0.02
    found = {}
    for largest in (False, True):
        state = ACS().init(energy, x)
        found[largest], _ = ACSTuner(rate=rate).estimate_alpha(
            ACS(), energy, state, beta=beta, num_steps=300, largest=largest
        )
        assert acceptance(energy, x, found[largest], beta) == pytest.approx(rate, abs=0.06)
    assert found[False] < 1 and found[True] > 4


@pytest.mark.parametrize("scale", [0.0, 1e4])
@pytest.mark.parametrize("domain", [*DOMAINS.values(), Ordinal(2, 1)], ids=[*DOMAINS, "one state"])
def test_tunes_one_chain_on_flat_and_steep_energies(domain: Finite, scale: float) -> None:
    torch.manual_seed(0)
    energy = Walk(domain, scale)
    with torch.inference_mode():
        tuned, x = ACSTuner().tune(ACS(), energy, domain.random(1), 150)
    assert (tuned.step_sizes > 0).all() and tuned.step_sizes.isfinite().all() and tuned.balances.isfinite().all()
    domain.validate(x)


def test_the_search_starts_at_the_given_step_sizes() -> None:
    torch.manual_seed(0)

    class Bowl(Energy):
        def __init__(self) -> None:
            super().__init__()
            self.domain = Ordinal(2, 451)

        def forward(self, x: Tensor) -> Tensor:
            return (x - 225).square().sum(1) / 2e4 + 2 * torch.cos(x / 8).sum(1)

    tuner = ACSTuner(alpha_ceil=5000.0, alpha_floor=3.0)
    tuned, _ = tuner.tune(ACS(1575, 3), Bowl(), Bowl().domain.random(16), 300)
    assert 60 < tuned.step_sizes[0] <= 5000 and tuned.step_sizes[-1] >= 3


def nothing(energy: Energy) -> Any:
    return ACSTuner().tune(DMALA(0.1), energy, energy.domain.random(2), 500)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (nothing, "tunes the cycle of ACS, but DMALA has none"),
        (lambda e: ACSTuner().check(ACS(cycle_length=1)), "cycle of 1 step"),
        (lambda e: ACSTuner().tune(ACS(), e, e.domain.random(2), 60), "60 steps are too few .* 90 would do"),
        (lambda e: ACSTuner().check(ACS(), 60), "60 steps are too few"),
        (lambda e: ACSTuner(rate=1.0), "rate is 1.0"),
        (lambda e: ACSTuner(alpha_floor=90.0), "alpha_floor is 90.0"),
        (lambda e: ACSTuner(learning_rate=2.0), "learning_rate is 2.0"),
        (lambda e: ACSTuner(proposals=1), "proposals >= 2"),
    ],
)
def test_wrong_use(call: Callable[[Energy], Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        call(Target(Binary(3), "cubic"))
