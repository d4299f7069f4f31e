"""The warm-up: its windows, its estimates, and what the metric found is worth."""

from __future__ import annotations

import pytest
import torch
from helpers_grbm import PASS
from helpers_real import Normal, normal_p
from helpers_tier import cases

from ebmlab.domains import Real
from ebmlab.errors import UserError
from ebmlab.samplers import HMC, MALA, NUTS, UnderdampedLangevin
from ebmlab.samplers.tuners import WarmUp
from ebmlab.samplers.tuners.warm_up import Spread, windows

STDS = torch.tensor([0.01, 1.0, 100.0], dtype=torch.float64)
UNEQUAL = Normal(STDS.square().diag())


class Frozen(Normal):
    """Only the origin has an energy that is a number."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.where((x == 0).all(1), super().forward(x), torch.nan)


def test_windows_double_and_the_last_takes_the_rest() -> None:
    assert windows(875) == [25, 50, 100, 200, 500]  # Stan's of 1,000 steps of warm-up
    assert windows(74) == [74] and windows(75) == [25, 50] and windows(0) == []
    assert all(sum(windows(n)) == n for n in range(300))


@pytest.mark.parametrize("dense", [False, True])
def test_the_estimate_is_shrunk_as_stated(dense: bool) -> None:
    torch.manual_seed(0)
    draws = 1000 + torch.randn(3, 7, 2, 2, dtype=torch.float64) @ torch.tensor([[1.0, 0.7], [0.0, 0.2]]).double()
    spread = Spread(Real((2, 2)), draws[0], dense)
    for x in draws:
        spread.add(x)
    covariance = torch.cov(draws.view(21, 4).T, correction=0)
    shrunk = (21 * covariance + 5 * covariance.diagonal().diag()) / 26
    scale = spread.scale()
    if dense:
        torch.testing.assert_close(scale @ scale.T, shrunk)
        assert torch.equal(scale, scale.tril())
    else:
        torch.testing.assert_close(scale, shrunk.diagonal().sqrt().view(2, 2))


def test_a_far_origin_costs_no_digits() -> None:
    """Chains of float32 that come from 0 and spread by 1 about 10,000: sums in float32 would lose the variance."""
    torch.manual_seed(0)
    spread = Spread(Real(2), torch.zeros(4, 2), dense=False)
    draws = 10_000 + torch.randn(30, 50, 2)
    for x in draws:
        spread.add(x)
    torch.testing.assert_close(
        spread.scale(), draws.double().flatten(0, 1).std(0, correction=0).float(), rtol=1e-4, atol=0
    )


@cases("sampler", [HMC(0.01, 5), NUTS(0.01, max_depth=4), UnderdampedLangevin(0.01, 0.3, adjusted=True)], fast=[0, 2])
def test_standard_deviations_over_four_orders_are_found(sampler: HMC) -> None:
    torch.manual_seed(0)
    tuned, x = WarmUp(0.8).tune(sampler, UNEQUAL, UNEQUAL.sample(40), 120)
    assert sampler.scale is None and (tuned.scale / STDS).log().abs().max() < 0.3
    info = tuned.sample(UNEQUAL, x, 10)[1]
    assert 0.65 < info.acceptance.mean() < 0.97 and tuned.step_size > 0.4


@pytest.mark.slow
def test_a_dense_metric_makes_a_rotated_gaussian_round() -> None:
    torch.manual_seed(0)
    target = Normal.rotated(5, 1000.0)
    tuned, x = WarmUp(dense=True).tune(HMC(0.3, 5), target, target.sample(50), 120)
    whitened = torch.linalg.solve_triangular(tuned.scale, target.covariance, upper=False)
    whitened = torch.linalg.solve_triangular(tuned.scale, whitened.T, upper=False)
    assert torch.linalg.cond(whitened) < 3
    cheap = NUTS(float(tuned.step_size), scale=tuned.scale).sample(target, x, 3)[1].evaluations
    dear = NUTS(0.9).sample(target, x, 3)[1].evaluations  # of the smallest standard deviation, 1
    assert 4 * cheap < dear


def test_the_tuned_sampler_is_exact() -> None:
    torch.manual_seed(0)
    target = Normal.rotated(5, 100.0)
    tuned, _ = WarmUp(dense=True).tune(HMC(0.3, 5), target, target.sample(50), 60)
    assert normal_p(target.normals(tuned.last_states(target, target.sample(50_000), 3)), 6) > PASS


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: WarmUp(0.0), "rate is 0.0"),
        (lambda: WarmUp().check(MALA(0.1)), "not MALA, which has no metric"),
        (lambda: WarmUp().check(UnderdampedLangevin(0.1)), "adjusted: true"),
        (lambda: WarmUp().check(HMC(0.1), 5), "num_steps is 5"),
        (
            lambda: WarmUp().tune(HMC(0.1, 1), Frozen(torch.eye(3).double()), torch.zeros(4, 3).double(), 20),
            "the chains do not move",
        ),
    ],
)
def test_refusals(make: object, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make()  # type: ignore[operator]
