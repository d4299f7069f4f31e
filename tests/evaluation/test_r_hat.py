from __future__ import annotations

import warnings

import pytest
import torch

from ebmlab.errors import UserError
from ebmlab.evaluation import effective_sample_size, r_hat
from ebmlab.evaluation.r_hat import split_r_hat


@pytest.mark.parametrize("num_chains", [2, 5])
@pytest.mark.parametrize("num_steps", [4, 5, 6, 7, 100, 501])
def test_agrees_with_arviz(num_steps, num_chains):
    reference = pytest.importorskip("arviz_stats.base").array_stats
    torch.manual_seed(num_steps)
    x = torch.randn(num_steps, num_chains, 4, dtype=torch.float64)
    x[..., 1] = x[..., 1].cumsum(0)
    x[..., 2] = 1e6 + torch.arange(num_chains) + x[..., 2]
    x[..., 3] = (x[..., 3] > 0).double() + torch.arange(num_steps).unsqueeze(1).remainder(2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        theirs = reference.rhat(x.numpy(), chain_axis=1, draw_axis=0, method="split")
    torch.testing.assert_close(split_r_hat(x), torch.from_numpy(theirs), rtol=1e-8, atol=0)


def test_by_hand():
    """Half chains (0, 2), (1, 3), (4, 6), (5, 7): means 1, 2, 5, 6 of variance 17/3, and variance 2 within each."""
    chains = torch.tensor([[0.0, 4.0], [2.0, 6.0], [1.0, 5.0], [3.0, 7.0]])
    assert float(split_r_hat(chains)) == pytest.approx((1 / 2 + 17 / 3 / 2) ** 0.5)
    odd = torch.cat([chains[:2], torch.full((1, 2), 1e9), chains[2:]])
    assert float(split_r_hat(odd)) == pytest.approx((1 / 2 + 17 / 3 / 2) ** 0.5)


def test_chains_that_mixed_and_chains_that_did_not():
    torch.manual_seed(0)
    x = torch.randn(2_000, 8)
    assert abs(float(split_r_hat(x)) - 1) < 0.005
    assert float(split_r_hat(x + 2 * (torch.arange(8) < 4))) > 1.4
    assert float(split_r_hat(x + 3 * (torch.arange(8) < 4))) > 1.5


def test_chains_that_drift_together_disagree_with_themselves():
    torch.manual_seed(1)
    drift = torch.linspace(0, 6, 1_000).unsqueeze(1)
    assert float(split_r_hat(torch.randn(1_000, 2))) < 1.01
    assert float(split_r_hat(torch.randn(1_000, 2) + drift)) > 1.5


def test_one_chain_tells_nothing():
    """As in ArviZ: whether it has reached all of the law, only other chains could say."""
    found = split_r_hat(torch.randn(1_000, 1, 3))
    assert found.shape == (3,) and found.isnan().all()


def test_frozen_chains():
    frozen = torch.tensor([0.1, 0.7, 0.3]).expand(33, 3)
    assert split_r_hat(frozen) == torch.inf
    assert split_r_hat(torch.full((33, 3), 0.1)).isnan()


def test_shapes_chunks_and_precision(monkeypatch):
    torch.manual_seed(2)
    x = torch.randn(50, 3, 4, 5)
    whole = split_r_hat(x)
    assert whole.shape == (4, 5) and whole.dtype == torch.float64
    torch.testing.assert_close(split_r_hat(x[:, :, 1, 2]), whole[1, 2])
    torch.testing.assert_close(split_r_hat(x.double() * 1e-8 - 3), whole, rtol=1e-6, atol=0)
    monkeypatch.setattr(r_hat, "CHUNK", 50 * 3 * 3)
    torch.testing.assert_close(split_r_hat(x), whole)
    x[3, 1, 2, 2] = torch.nan
    assert split_r_hat(x).isnan().nonzero().tolist() == [[2, 2]]


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_a_draw_that_is_not_finite_shows_in_every_place(bad):
    for num_steps in (8, 9):
        for step in range(num_steps):
            x = torch.randn(num_steps, 2, 2)
            x[step, 0, 1] = bad
            assert split_r_hat(x).isnan().tolist() == [False, True], (num_steps, step)
            assert effective_sample_size(x).isnan().tolist() == [False, True], (num_steps, step)
            assert effective_sample_size(x, per_chain=True).isnan().nonzero().tolist() == [[0, 1]]


@pytest.mark.parametrize("shape", [(100,), (3, 2)])
def test_wrong_shapes_are_refused(shape):
    with pytest.raises(UserError, match="at least 4 steps"):
        split_r_hat(torch.zeros(shape))
