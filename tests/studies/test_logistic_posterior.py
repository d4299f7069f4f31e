"""The posterior of logistic regression: Bayes' rule written out, and the law of the synthetic data."""

from __future__ import annotations

import pytest
import torch

from ebmlab.errors import UserError
from ebmlab.studies.targets import LogisticPosterior


def test_posterior_by_bayes_rule() -> None:
    X = torch.randn(6, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    y = torch.tensor([1.0, 0.0, 0.0, 1.0, 1.0, 0.0])
    energy = LogisticPosterior(X, y)
    beta = energy.domain.enumerate().double()
    likelihood = torch.distributions.Bernoulli(logits=beta @ X.T).log_prob(y.double()).sum(1).exp()
    torch.testing.assert_close(-energy(beta), likelihood.log())
    torch.testing.assert_close((-energy(beta)).softmax(0), likelihood / likelihood.sum())


def test_a_one_is_likely_where_the_logit_is_large() -> None:
    energy = LogisticPosterior([[3.0]], [1])
    off, on = energy(torch.tensor([[0.0], [1.0]])).tolist()
    assert on < off


def test_synthetic_rows_have_the_papers_covariance() -> None:
    n = 20_000
    X = LogisticPosterior.synthetic(num_rows=n).features.double()
    S = torch.exp(-0.25 + torch.arange(100.0, dtype=torch.float64) / 99)
    C = torch.full((100, 100), 0.25, dtype=torch.float64).fill_diagonal_(1.25)
    whitened = X / (0.5 * S)
    empirical = whitened.T @ whitened / n
    error = (C.square() + C.diagonal().outer(C.diagonal())).sqrt() / n**0.5  # of a product of Gaussians
    assert ((empirical - C) / error).abs().max() < 5.5


def test_synthetic_targets_follow_the_true_coefficients() -> None:
    energy = LogisticPosterior.synthetic(num_rows=20_000)
    truth = torch.zeros(1, 100)
    truth[:, :7] = 1
    p = torch.sigmoid(energy.features.double() @ truth[0].double())
    z = (energy.targets - p) @ energy.features.double() / (p * (1 - p) @ energy.features.double().square()).sqrt()
    assert z.abs().max() < 4.5, "score at the truth, one z value a coefficient"
    assert energy(truth) < energy(torch.zeros(1, 100))
    assert LogisticPosterior.synthetic().features.shape == (50, 100)


def test_extreme_logits() -> None:
    energy = LogisticPosterior([[1e4], [-1e4]], [1, 1])
    value, grad = energy.value_and_grad(torch.tensor([[1.0], [0.0]]))
    torch.testing.assert_close(value, torch.tensor([1e4, 2 * 0.6931472]))
    assert grad.isfinite().all()


BAD = {"shape": ([[1.0]], [1.0, 0.0], "must be"), "labels": ([[1.0], [2.0]], [1.0, -1.0], "0 or 1")}


@pytest.mark.parametrize(("features", "targets", "message"), BAD.values(), ids=BAD)
def test_bad_arguments(features: list[list[float]], targets: list[float], message: str) -> None:
    with pytest.raises(UserError, match=message):
        LogisticPosterior(features, targets)
