"""Penalties of contrastive divergence, and noise on its data."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from ebmlab.domains import Binary
from ebmlab.energies import GRBM, MLP, RBM, ClassifierMLP, RealMLP
from ebmlab.errors import UserError
from ebmlab.learners import ContrastiveDivergence, EnergyMatching, FromData, JointClassifier
from ebmlab.samplers import ULA, BlockGibbs, Gibbs

pytestmark = [  # Lightning advises against saving modules as hyper-parameters; the learner does so on purpose
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
]


@pytest.mark.parametrize("weighted", [False, True])
def test_penalties_are_the_published_ones(weighted: bool) -> None:
    """energy_l2 (mean E(x)^2 + mean E(y)^2) and gradient_penalty times the mean of |dE/dx|^2 / 2 over data."""
    torch.manual_seed(0)
    weights = torch.tensor([0.0, 2.0, 1.0, 0.5, 1.5, 0.0, 2.0]) if weighted else torch.ones(7)
    energy, x = MLP(6, hidden_dim=5, num_layers=1), Binary(6).random(7)
    y = x.flip(1)

    class Still(Gibbs):
        def step(self, energy, state):
            return replace(state, x=y), super().step(energy, state)[1]

    def loss(**penalties: float) -> torch.Tensor:
        learner = ContrastiveDivergence(energy, Still(), start=FromData(), **penalties)
        learner.log = learner.log_dict = lambda *_, **__: None  # type: ignore[method-assign]
        learner.weights = lambda _: weights if weighted else None  # type: ignore[method-assign]
        return learner.training_step(x, 0)

    plain = loss()
    leaf = x.clone().requires_grad_()
    (grad,) = torch.autograd.grad(energy(leaf).sum(), leaf, create_graph=True)
    expected = 0.3 * ((weights * energy(x).square()).mean() + energy(y).square().mean())
    expected = expected + 0.7 * (weights * grad.square().sum(1)).mean() / 2
    actual = loss(energy_l2=0.3, gradient_penalty=0.7) - plain
    torch.testing.assert_close(actual, expected)
    parameters = list(energy.parameters())
    got = torch.autograd.grad(actual, parameters, allow_unused=True)
    for g, e in zip(got, torch.autograd.grad(expected, parameters, allow_unused=True), strict=True):
        if e is not None:
            torch.testing.assert_close(g, e)


@pytest.mark.parametrize("penalty", ["l1", "energy_l2", "gradient_penalty", "data_noise"])
def test_penalties_are_not_negative(penalty: str) -> None:
    with pytest.raises(UserError, match=f"{penalty} is -1"):
        ContrastiveDivergence(RBM(3, 2), BlockGibbs(), **{penalty: -1.0})


@pytest.mark.parametrize(("noise", "expected"), [(0.5, 0.0), (0.0, 0.5)])
def test_noise_of_the_data_bounds_variances_from_below(noise: float, expected: float) -> None:
    """Of a pixel that is always black: the gradient of its log-variance vanishes at the noise's variance."""
    torch.manual_seed(0)
    grbm = GRBM(1, 1)
    with torch.no_grad():
        grbm.W.zero_()
        grbm.log_var.fill_(2 * math.log(0.5))
    learner = ContrastiveDivergence(grbm, BlockGibbs(), data_noise=noise)
    learner.log = learner.log_dict = lambda *_, **__: None  # type: ignore[method-assign]
    learner.training_step(torch.zeros(200_000, 1), 0).backward()
    assert grbm.log_var.grad is not None
    assert abs(float(grbm.log_var.grad) - expected) < 0.01  # the standard error is at most 0.0022


def test_bits_take_no_gaussian_noise() -> None:
    with pytest.raises(UserError, match=r"data_noise is 0\.1, but RBM lives on .*: set it to 0"):
        ContrastiveDivergence(RBM(4, 3), BlockGibbs(), data_noise=0.1)


@pytest.mark.parametrize("weight", [0.0, 0.1, 30.0])
@pytest.mark.parametrize("kind", [EnergyMatching, JointClassifier])
def test_penalties_are_added_whatever_the_weight_of_the_contrast(kind: type, weight: float) -> None:
    torch.manual_seed(0)
    energy = RealMLP(3) if kind is EnergyMatching else ClassifierMLP(3, num_classes=2)
    settings = {"warm_up": 0, "contrast_weight": weight} if kind is EnergyMatching else {"generative_weight": weight}
    batch = torch.randn(8, 3) if kind is EnergyMatching else (torch.randn(8, 3), torch.arange(8) % 2)

    def loss(l1: float) -> torch.Tensor:
        learner = kind(energy, ULA(0.01), num_steps=2, l1=l1, **settings)
        learner.log = learner.log_dict = lambda *_, **__: None
        torch.manual_seed(1)
        return learner.training_step(batch, 0)

    weights = sum(p.abs().sum() for p in energy.parameters() if p.dim() > 1)
    torch.testing.assert_close(loss(0.5) - loss(0.0), 0.5 * weights, rtol=1e-3, atol=1e-3)
