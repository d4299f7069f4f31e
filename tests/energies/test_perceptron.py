"""The gradient of perceptrons by the chain rule, and where autograd must take its place."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from ebmlab.domains import Categorical, Real
from ebmlab.energies import ClassifierMLP, Energy, NoisyMLP, ProductMLP, RealMLP, Sum
from ebmlab.learners.diffusion_recovery import Recovery
from ebmlab.product import Product

MAKERS: dict[str, Callable[[int], Energy]] = {
    "real numbers": lambda layers: RealMLP(3, hidden_dim=7, num_layers=layers, scale=2.0),
    "a product": lambda layers: ProductMLP(
        Product(kind=Categorical(2, 3), place=Real(2)), hidden_dim=7, num_layers=layers, scale=2.0
    ),
}


def by_autograd(energy: Energy, x: Tensor) -> tuple[Tensor, Tensor]:
    leaf = x.clone().requires_grad_()
    value = energy(leaf)
    return value.detach(), torch.autograd.grad(value.sum(), leaf)[0]


@pytest.mark.parametrize("layers", [1, 2, 4])
@pytest.mark.parametrize("kind", MAKERS)
def test_values_and_gradients_are_those_of_autograd(kind: str, layers: int) -> None:
    torch.manual_seed(0)
    energy = MAKERS[kind](layers).double()
    x = 3 * energy.random(11).double()
    torch.testing.assert_close(energy.value_and_grad(x), by_autograd(energy, x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", MAKERS)
def test_a_gradient_alone_is_that_of_both(kind: str) -> None:
    torch.manual_seed(0)
    energy = MAKERS[kind](3).double()
    x = 3 * energy.random(11).double()
    _, expected = energy.value_and_grad(x)
    torch.testing.assert_close(energy.gradient(x), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", MAKERS)
def test_states_and_parameters_stay_as_they_are(kind: str) -> None:
    torch.manual_seed(0)
    energy = MAKERS[kind](2)
    x = energy.random(5)
    before, weights = x.clone(), [p.detach().clone() for p in energy.parameters()]
    value, grad = energy.value_and_grad(x)
    value.add_(1), grad.add_(1)  # samplers may overwrite them
    assert torch.equal(x, before)
    assert all(torch.equal(p, old) and p.grad is None for p, old in zip(energy.parameters(), weights, strict=True))


def test_a_classifiers_bowl_is_that_of_its_scale() -> None:
    energy, x = ClassifierMLP(3, 4, hidden_dim=7, scale=1.5), torch.randn(6, 3)
    outputs = energy.linear(energy.features(x))
    torch.testing.assert_close(energy.logits(x), outputs - x.square().sum(1, keepdim=True) / 4.5)


class Shifted(RealMLP):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + x[:, 0].sin()


def another_network(energy: RealMLP) -> RealMLP:
    energy.network = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.LayerNorm(5), nn.Linear(5, 1))
    return energy


def normalised(energy: RealMLP) -> RealMLP:
    nn.utils.parametrizations.weight_norm(energy.network[0])
    return energy


@pytest.mark.parametrize(
    "make",
    [
        lambda: Shifted(3, hidden_dim=5),
        lambda: another_network(RealMLP(3, hidden_dim=5)),
        lambda: normalised(RealMLP(3, hidden_dim=5)),
        lambda: Sum([RealMLP(3, hidden_dim=5), Shifted(3, hidden_dim=5)]),
    ],
    ids=["a forward of its own", "another network", "weights of another kind", "a sum"],
)
def test_what_is_no_plain_perceptron_keeps_its_own_gradient(make: Callable[[], Energy]) -> None:
    torch.manual_seed(0)
    energy = make().double()
    x = energy.random(5).double()
    torch.testing.assert_close(energy.value_and_grad(x), by_autograd(energy, x), rtol=1e-12, atol=1e-12)


def test_autocast_rounds_products_as_everywhere() -> None:
    torch.manual_seed(0)
    energy = RealMLP(3, hidden_dim=5)
    x = energy.random(5)
    with torch.autocast("cpu", torch.bfloat16):
        value, grad = energy.value_and_grad(x)
        expected = Energy.value_and_grad(energy, x)
    torch.testing.assert_close((value, grad), expected, rtol=0, atol=0)
    assert not torch.equal(value, energy(x).detach())


class Bent(NoisyMLP):
    def noisy(self, x: Tensor, sigma: Tensor) -> Tensor:
        return super().noisy(x, sigma) + x[:, 0].sin() * sigma


@pytest.mark.parametrize("kind", [NoisyMLP, Bent])
def test_gradients_at_noise_levels_are_those_of_autograd(kind: type[NoisyMLP]) -> None:
    torch.manual_seed(0)
    energy = kind(3, hidden_dim=7, scale=2.0, unit=1.5, lowest=0.2).double()
    x, sigma = torch.randn(6, 3).double(), torch.rand(6).double()
    recovery = Recovery(energy, after=torch.randn(6, 3).double(), sigma=sigma, step=0.1 + torch.rand(6).double())
    for law in (energy, energy.at(0.7), energy.at(sigma), recovery):
        torch.testing.assert_close(law.value_and_grad(x), by_autograd(law, x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", [*MAKERS, "noise levels", "a forward of its own", "noise of its own"])
def test_slopes_are_differentiated_as_those_of_autograd(kind: str) -> None:
    """By score matching: in the parameters, and in x."""
    others = {
        "noise levels": lambda: NoisyMLP(3, hidden_dim=7).at(0.4),
        "a forward of its own": lambda: Shifted(3, hidden_dim=7),
        "noise of its own": lambda: Bent(3, hidden_dim=7).at(0.4),
    }
    torch.manual_seed(0)
    energy = (MAKERS[kind](2) if kind in MAKERS else others[kind]()).double()
    x = energy.random(6).double().requires_grad_()
    v = torch.randn_like(x)
    found = []
    for slope in (energy.differentiable_gradient(x), Energy.differentiable_gradient(energy, x)):
        curved = torch.autograd.grad((v * slope).sum(), x, create_graph=True)[0]
        loss = slope.square().sum() + (v * curved).sum()
        found.append((slope, curved, *torch.autograd.grad(loss, [*energy.parameters()], allow_unused=True)))
    for mine, general in zip(*found, strict=True):
        torch.testing.assert_close(mine, general, rtol=1e-10, atol=1e-10)
