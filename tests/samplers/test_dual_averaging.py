"""Dual averaging: the recursion of the paper, and the acceptance that it states."""

from __future__ import annotations

import math

import pytest
import torch
from helpers_grbm import PASS, Banana
from helpers_tier import cases
from torch import Tensor

from ebmlab.errors import UserError
from ebmlab.samplers import HMC, MALA, NUTS, ULA, Gibbs, Info, Sampler, UnderdampedLangevin
from ebmlab.samplers.tuners import DualAveraging


class Known(HMC):
    """Does not move, and accepts with probability exp(-step_size), or exp(-2 step_size) in every second chain."""

    def sample(self, energy: object, x: Tensor, num_steps: int, compile: bool = False) -> tuple[Tensor, Info]:
        assert num_steps == 1
        rates = torch.stack([-self.step_size, -2 * self.step_size]).exp().repeat(len(x) // 2)
        return x, Info(rates, torch.zeros(len(x)))


def test_the_recursion_is_the_papers() -> None:
    """Algorithms 4 and 5 of Hoffman & Gelman, with all sums written out."""
    target = Banana(2)
    tuned, _ = DualAveraging(0.7).tune(Known(0.05), target, target.sample(4), 34)
    epsilon, differences, log_mean = 0.8, [], 0.0  # after four doublings; at 0.8 less than half is accepted
    assert (math.exp(-0.4) + math.exp(-0.8)) / 2 > 0.5 > (math.exp(-0.8) + math.exp(-1.6)) / 2
    for t in range(1, 31):
        differences.append(0.7 - (math.exp(-epsilon) + math.exp(-2 * epsilon)) / 2)
        weights = [1 / (s + 10) * math.prod(1 - 1 / (r + 10) for r in range(s + 1, t + 1)) for s in range(1, t + 1)]
        h = sum(w * d for w, d in zip(weights, differences, strict=True))
        log = math.log(10 * 0.8) - math.sqrt(t) / 0.05 * h
        log_mean = t**-0.75 * log + (1 - t**-0.75) * log_mean
        epsilon = math.exp(log)
    assert float(tuned.step_size) == pytest.approx(math.exp(log_mean), rel=1e-3)


def test_the_root_is_found() -> None:
    tuned, _ = DualAveraging(0.7).tune(Known(1e-3), Banana(2), torch.zeros(4, 2).double(), 1000)
    s = float(tuned.step_size)
    assert (math.exp(-s) + math.exp(-2 * s)) / 2 == pytest.approx(0.7, abs=0.01)


@cases("step_size", [1e-3, 10.0], fast=[1])
@pytest.mark.parametrize(
    ("make", "rate"),
    [
        (lambda e: HMC(e, 4), 0.8),
        (lambda e: MALA(e), 0.574),
        (lambda e: NUTS(e, max_depth=3), 0.8),
        (lambda e: UnderdampedLangevin(e, adjusted=True), 0.95),
    ],
    ids=["HMC", "MALA", "NUTS", "UnderdampedLangevin"],
)
def test_the_acceptance_is_reached_from_any_step(make: object, rate: float, step_size: float) -> None:
    torch.manual_seed(0)
    target = Banana(2)
    given: Sampler = make(step_size)  # type: ignore[operator]
    tuned, x = DualAveraging(rate).tune(given, target, target.sample(200), 50)
    assert float(given.step_size) == pytest.approx(step_size), "the argument has been changed"
    assert tuned.sample(target, x, 10)[1].acceptance.mean().item() == pytest.approx(rate, abs=0.06)


def test_the_tuned_sampler_is_exact() -> None:
    torch.manual_seed(0)
    target = Banana(2)
    tuned, _ = DualAveraging().tune(HMC(0.01, 3), target, target.sample(100), 60)
    assert tuned.exact and target.p_value(tuned.last_states(target, target.sample(50_000), 3)) > PASS


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DualAveraging(1.0), "rate is 1.0"),
        (lambda: DualAveraging().check(ULA(0.1)), "without a Metropolis decision"),
        (lambda: DualAveraging().check(Gibbs()), "no step_size"),
        (lambda: DualAveraging().check(HMC(0.1), 0), "num_steps is 0"),
    ],
)
def test_refusals(make: object, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make()  # type: ignore[operator]
