"""`assert_gradient`: right learners pass, wrong ones fail with a line that says what is wrong."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import softplus

from ebmlab.domains import Binary
from ebmlab.energies import RBM, Energy
from ebmlab.errors import UserError
from ebmlab.learners import ContrastiveDivergence, FromNoise
from ebmlab.samplers import Gibbs
from ebmlab.testing import Rugged, assert_gradient


class Ratios:
    """A learner without Lightning: pseudo-likelihood, or a wrong form of it."""

    def __init__(self, energy: Energy, factor: float = 1.0) -> None:
        self.energy, self.factor = energy, factor

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        self.log("train/loss", 0.0)  # type: ignore[attr-defined]
        return self.factor * softplus(-self.energy.flip_differences(batch)).sum(1).mean()


def pseudo_likelihood(energy: Energy, x: Tensor) -> Tensor:
    """-mean sum log p(x_i | the rest), each neighbour evaluated by itself."""
    total = torch.zeros(len(x), dtype=x.dtype)
    for i in range(x.shape[1]):
        y = x.clone()
        y[:, i] = 1 - y[:, i]
        total = total + energy(x) + torch.stack([-energy(x), -energy(y)]).logsumexp(0)
    return total.mean()


@pytest.fixture
def rbm() -> RBM:
    torch.manual_seed(0)
    model = RBM(4, 3).double()
    for p in model.parameters():
        torch.nn.init.normal_(p)
    return model


def test_a_deterministic_gradient_is_exact(rbm: RBM) -> None:
    x = rbm.domain.random(20).double()
    found = assert_gradient(Ratios(rbm), x, expected=pseudo_likelihood)
    assert found.z == 0 and found.error < 1e-12
    with pytest.raises(AssertionError, match=r"Ratios on RBM: the gradient in \w+\[.*\] is .*, off by 0.001 of"):
        assert_gradient(Ratios(rbm, factor=1.001), x, expected=pseudo_likelihood)


def test_contrastive_divergence_with_independent_states_has_the_likelihoods_gradient(rbm: RBM) -> None:
    x = rbm.domain.random(500).double()
    exact = ContrastiveDivergence(rbm, Gibbs(block_size=4), start=FromNoise())
    assert 0 < assert_gradient(exact, x).z < 4.5
    assert "log" not in vars(exact)
    short = ContrastiveDivergence(rbm, Gibbs(), start=FromNoise(), num_steps=1)
    with pytest.raises(AssertionError, match=r"the mean gradient of 40 steps in .* standard errors"):
        assert_gradient(short, x)


def test_a_parameter_that_is_left_out_is_named(rbm: RBM) -> None:
    class Forgetful(Ratios):
        def training_step(self, batch: Any, batch_idx: int) -> Tensor:
            loss = super().training_step(batch, batch_idx)
            return loss - self.energy.b_h.sum() + self.energy.b_h.detach().sum()  # type: ignore[union-attr, operator]

    with pytest.raises(AssertionError, match=r"the gradient in b_h\[\d\]"):
        assert_gradient(Forgetful(rbm), rbm.domain.random(20).double(), expected=pseudo_likelihood)


def test_nan_fails(rbm: RBM) -> None:
    with pytest.raises(AssertionError, match="is nan, not"):
        assert_gradient(Ratios(rbm, factor=float("nan")), rbm.domain.random(5).double(), expected=pseudo_likelihood)


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(UserError, match=r"log Z of RBM on Binary\(30\) is no sum over at most 4096 states"):
        assert_gradient(Ratios(RBM(30, 3)), torch.zeros(2, 30))
    with pytest.raises(UserError, match="Rugged has no parameters that are trained"):
        assert_gradient(Ratios(Rugged(Binary(3))), torch.zeros(2, 3))
