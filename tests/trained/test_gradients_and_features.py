"""Gradients and features of a loaded model in raw numbers."""

from __future__ import annotations

import pytest
import torch
from helpers_trained import model_of, wild

from ebmlab.data.preprocessing import Preprocessing
from ebmlab.energies import GRBM, Ising, ScalarPotts
from ebmlab.errors import UserError

pytestmark = pytest.mark.filterwarnings("ignore::lightning_fabric.utilities.warnings.PossibleUserWarning")


@pytest.mark.parametrize("number", [torch.uint8, torch.float64])
def test_gradients_against_autograd_in_raw_numbers(number: torch.dtype) -> None:
    raw_law = Preprocessing((2, 3), scale=255.0, mean=(0.3, 0.6), std=(0.2, 0.5))
    model = model_of(wild(GRBM(6, 4)), raw_law)
    raw = torch.randint(255, (5, 2, 3)).to(number) / (1 if number == torch.uint8 else 255)
    raw = raw.to(number)
    numbers = raw.double().requires_grad_()
    scale = 255.0 if number == torch.uint8 else 1.0
    mean, std = torch.tensor([0.3, 0.6]).view(2, 1), torch.tensor([0.2, 0.5]).view(2, 1)
    x = ((numbers / scale - mean) / std).float().view(5, 6)
    (expected,) = torch.autograd.grad(-model.learner.energy(x).sum(), numbers)
    torch.testing.assert_close(model.grad_log_prob(raw), expected.float(), rtol=1e-4, atol=1e-6)


def test_gradients_on_a_finite_domain_are_those_in_the_states() -> None:
    energy = wild(Ising.learnable(6))
    model = model_of(energy, Preprocessing((6,), mean=(0.5,), std=(0.5,)))  # bits as spins
    bits = torch.randint(2, (4, 6)).float()
    expected = -energy.value_and_grad(2 * bits - 1)[1]
    torch.testing.assert_close(model.grad_log_prob(bits), expected)


def test_gradients_of_states_that_are_thresholds_are_those_in_the_states() -> None:
    energy = wild(GRBM(6, 4))
    model = model_of(energy, Preprocessing((6,), scale=255.0, binarize=True))
    levels = torch.randint(256, (4, 6), dtype=torch.uint8)
    torch.testing.assert_close(model.grad_log_prob(levels), -energy.value_and_grad(model.states(levels))[1])


def test_features_are_the_hidden_units_in_closed_form() -> None:
    energy = wild(GRBM(6, 4))
    model = model_of(energy, Preprocessing((2, 3), mean=(1.0,), std=(2.0,)))
    raw = torch.randn(9, 2, 3)
    v = ((raw - 1) / 2).view(9, 6)
    expected = 1 / (1 + torch.exp(-(v / energy.log_var.exp()) @ energy.W - energy.b))
    torch.testing.assert_close(model.features(raw), expected)
    with pytest.raises(UserError, match="Potts has no hidden units to take features from: train an RBM or GRBM"):
        model_of(ScalarPotts.lattice(2, 3, coupling=0.4)).features(
            ScalarPotts.lattice(2, 3, coupling=0.4).domain.random(2)
        )
