"""Tests of the GRBM reference: exact draws pass, slightly wrong ones fail, moments agree with quadrature."""

from __future__ import annotations

import pytest
import torch
from helpers_grbm import FAIL, PASS, Banana, ExactGRBM, make_grbm


@pytest.mark.parametrize("num_visible", [1, 2])
def test_exact_draws_pass_and_distorted_ones_fail(num_visible: int) -> None:
    torch.manual_seed(0)
    exact = ExactGRBM(make_grbm(num_visible))
    v, h = exact.sample(200_000)
    assert exact.p_value(v) > PASS
    assert exact.p_value(v, h) > PASS
    assert exact.p_value(1.03 * v) < FAIL
    assert exact.p_value(v + 0.03) < FAIL
    assert exact.p_value(v, h.roll(1, 0)) < FAIL, "the joint test must see that h belongs to v"
    z = (v.mean(0) - exact.mean()) / (exact.covariance().diag() / len(v)).sqrt()
    assert z.abs().max() < 5


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_moments_and_cdf_by_quadrature_of_the_energy(temperature: float) -> None:
    grbm = make_grbm(1)
    exact = ExactGRBM(grbm, temperature)
    grid = torch.linspace(-40, 40, 80_001, dtype=torch.float64)
    energy = grbm.marginal_energy(grid[:, None], grbm.hidden_given_visible(grid[:, None]), temperature=temperature)
    density = (-energy).exp()
    z = torch.trapezoid(density, grid)
    torch.testing.assert_close(z.log(), exact.log_z)
    mean = torch.trapezoid(density * grid, grid) / z
    torch.testing.assert_close(mean[None], exact.mean())
    variance = torch.trapezoid(density * (grid - mean) ** 2, grid) / z
    torch.testing.assert_close(variance.view(1, 1), exact.covariance())
    cdf = torch.cumulative_trapezoid(density, grid) / z
    torch.testing.assert_close(cdf, exact.weights @ exact.cdf(grid[1:], 0), rtol=0, atol=1e-6)
    p = torch.tensor([0.01, 0.5, 0.9], dtype=torch.float64)
    torch.testing.assert_close(exact.weights @ exact.cdf(exact.quantiles(p), 0), p, rtol=0, atol=1e-7)


@pytest.mark.parametrize("num_visible", [1, 2])
def test_banana_draws_pass_and_distorted_ones_fail(num_visible: int) -> None:
    torch.manual_seed(0)
    target = Banana(num_visible)
    x = target.sample(200_000)
    assert target.p_value(x) > PASS
    assert target.p_value(x + 0.02) < FAIL
    assert target.p_value(1.02 * x) < FAIL
