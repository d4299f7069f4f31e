from __future__ import annotations

import warnings

import pytest
import torch
from helpers_tier import cases

from ebmlab.errors import UserError
from ebmlab.evaluation import r_hat
from ebmlab.evaluation.effective_sample_size import effective_sample_size


def autoregressive(num_steps, num_chains, rho, statistics=()):
    """Stationary AR(1) chains of variance 1; for large n the ESS is n (1 - rho) / (1 + rho)."""
    x = torch.randn(num_steps, num_chains, *statistics, dtype=torch.float64)
    for t in range(1, num_steps):
        x[t] = rho * x[t - 1] + (1 - rho**2) ** 0.5 * x[t]
    return x


@cases("num_chains", [1, 2, 5], fast=[0, 1])
@cases("num_steps", [4, 5, 6, 7, 8, 9, 10, 11, 12, 25, 100, 501], fast=[0, 1, 4, 9, 10])
def test_agrees_with_arviz(num_steps, num_chains):
    reference = pytest.importorskip("arviz_stats.base").array_stats
    torch.manual_seed(num_steps)
    for rho in (-0.95, -0.5, 0.0, 0.5, 0.9, 0.99, 1.0):
        x = autoregressive(num_steps, num_chains, rho, (4,))
        x[..., 2] = x[..., 2].round()  # few values: some chains are constant
        x[..., 3] += torch.arange(num_chains)  # chains with different means
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            for chains, ours in [(x, effective_sample_size(x))] + [
                (x[:, i : i + 1], effective_sample_size(x, per_chain=True)[i]) for i in range(num_chains)
            ]:
                theirs = reference.ess(chains.numpy(), chain_axis=1, draw_axis=0, method="mean")
                torch.testing.assert_close(ours, torch.from_numpy(theirs), rtol=1e-10, atol=1e-10)


@cases("rho", [-0.3, 0.0, 0.3, 0.8, 0.95], fast=[0, 3])
def test_autoregressive_chains_have_their_known_size(rho):
    torch.manual_seed(1)
    size = effective_sample_size(autoregressive(20_000, 20, rho))
    assert float(size) == pytest.approx(400_000 * (1 - rho) / (1 + rho), rel=0.05)


def test_the_size_predicts_the_variance_of_the_mean():
    """Var(mean) = Var(x) / ESS over 400 two-state chains, without a formula for the ESS."""
    torch.manual_seed(2)
    x = torch.zeros(2_000, 400, dtype=torch.float64)
    x[0] = (torch.rand(400) < 2 / 3).double()
    for t in range(1, len(x)):  # 0 -> 1 with probability 0.2, 1 -> 0 with 0.1: the correlation of neighbours is 0.7
        u = torch.rand(400)
        x[t] = torch.where(x[t - 1] == 0, u < 0.2, u >= 0.1).double()
    sizes = effective_sample_size(x, per_chain=True)
    assert float(x.mean(0).var()) == pytest.approx(2 / 9 / float(sizes.mean()), rel=0.2)
    assert float(sizes.mean()) == pytest.approx(2_000 * 0.3 / 1.7, rel=0.1)


def test_antithetic_chains_are_worth_more_than_their_draws():
    torch.manual_seed(3)
    assert float(effective_sample_size(autoregressive(5_000, 4, -0.5))) > 2 * 20_000
    alternating = torch.arange(100).remainder(2).double().expand(3, 100).T
    assert float(effective_sample_size(alternating)) == pytest.approx(300 * torch.tensor(300.0).log10().item())


def test_chains_that_never_meet_are_worth_one_draw_each():
    torch.manual_seed(4)
    frozen = torch.randn(10).expand(1_000, 10)
    assert 9 < float(effective_sample_size(frozen)) < 11
    around = torch.randn(1_000, 10) + 100 * torch.randn(10)
    assert 9 < float(effective_sample_size(around)) < 11


def test_constant_draws_count_as_in_arviz():
    assert effective_sample_size(torch.full((50, 3), 0.1)) == 150
    assert effective_sample_size(torch.full((51, 3), 0.1)) == 150  # of 51 draws the middle one is left out
    assert torch.equal(effective_sample_size(torch.full((50, 3), 0.1), per_chain=True), torch.full((3,), 50.0).double())


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
@pytest.mark.parametrize("num_steps", [4, 50])
def test_draws_that_are_not_finite_change_only_their_own_statistic(bad, num_steps):
    torch.manual_seed(5)
    x = torch.randn(num_steps, 3, 2)
    x[2, 1, 0] = bad
    size = effective_sample_size(x)
    assert size[0].isnan() and size[1].isfinite()
    per_chain = effective_sample_size(x, per_chain=True)
    assert per_chain.isnan().nonzero().tolist() == [[1, 0]]


def test_shapes_chunks_and_precision(monkeypatch):
    torch.manual_seed(6)
    x = autoregressive(200, 3, 0.7, (4, 5)).float()
    whole, per_chain = effective_sample_size(x), effective_sample_size(x, per_chain=True)
    assert whole.shape == (4, 5) and per_chain.shape == (3, 4, 5)
    assert whole.dtype == per_chain.dtype == torch.float64
    torch.testing.assert_close(whole[2, 3], effective_sample_size(x[:, :, 2, 3]))
    torch.testing.assert_close(per_chain[1, 2, 3], effective_sample_size(x[:, 1:2, 2, 3]))
    monkeypatch.setattr(r_hat, "CHUNK", 200 * 3 * 7)
    torch.testing.assert_close(effective_sample_size(x), whole)
    torch.testing.assert_close(effective_sample_size(x, per_chain=True), per_chain)
    torch.testing.assert_close(effective_sample_size(x.double() * 1e-6 + 7), whole, rtol=1e-6, atol=0)


def test_under_inference_mode():
    with torch.inference_mode():
        assert effective_sample_size(torch.randn(20, 2)).isfinite()


@pytest.mark.parametrize("shape", [(100,), (3, 2)])
def test_wrong_shapes_are_refused(shape):
    with pytest.raises(UserError, match="at least 4 steps"):
        effective_sample_size(torch.zeros(shape))


@pytest.mark.slow
def test_a_hundred_long_chains():
    torch.manual_seed(7)
    x = torch.randn(100_000, 100)
    assert float(effective_sample_size(x)) == pytest.approx(1e7, rel=0.02)


@pytest.mark.parametrize("value", [torch.inf, -torch.inf, torch.nan])
def test_draws_that_are_not_finite_count_for_nothing(value):
    """Infinite ones counted as independent draws of one number."""
    for per_chain in (False, True):
        assert effective_sample_size(torch.full((10, 2), value), per_chain).isnan().all()


@pytest.mark.parametrize("shape", [(10, 0), (10, 2, 0)])
@pytest.mark.parametrize("measure", [effective_sample_size, r_hat.split_r_hat])
def test_there_must_be_a_chain(measure, shape):
    with pytest.raises(UserError, match="with at least 4 steps and 1 chain, got"):
        measure(torch.zeros(shape))
