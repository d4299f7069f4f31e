"""The GRBM against enumeration, quadrature and autograd."""

from __future__ import annotations

import pytest
import torch
from helpers_grbm import ExactGRBM, make_grbm
from torch import Tensor

from ebmlab.energies import GRBM, Energy

TIGHT = {"rtol": 1e-11, "atol": 1e-11}


def points(n: int, num_visible: int) -> Tensor:
    return 3 * torch.randn(n, num_visible, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def joint_table(grbm: GRBM, v: Tensor) -> tuple[Tensor, Tensor]:
    """E(v, h) of Eq. 1 as printed, `(B, 8)`, and the h, `(8, 3)`."""
    h, variance = ExactGRBM(grbm).h, grbm.log_var.exp()
    quadratic = (((v - grbm.mu) / variance.sqrt()) ** 2).sum(1) / 2
    return quadratic[:, None] - (v / variance) @ grbm.W @ h.T - h @ grbm.b, h


@pytest.mark.parametrize("num_visible", [1, 2])
def test_joint_energy_is_equation_1(num_visible: int) -> None:
    grbm, v = make_grbm(num_visible), points(6, num_visible)
    table, h = joint_table(grbm, v)
    for k in range(8):
        torch.testing.assert_close(grbm.joint_energy(v, h[k].expand(6, 3)), table[:, k], **TIGHT)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("num_visible", [1, 2])
def test_marginal_energy_sums_the_hidden_units_out(num_visible: int, temperature: float) -> None:
    grbm, v = make_grbm(num_visible), points(6, num_visible)
    expected = -(-joint_table(grbm, v)[0] / temperature).logsumexp(1)
    logits = grbm.hidden_given_visible(v)
    actual = grbm.marginal_energy(v, logits, temperature=temperature)
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-8)  # torch's softplus is linear above 20: 2e-9 off
    if temperature == 1:
        torch.testing.assert_close(grbm(v), expected, **TIGHT)


def test_log_z_by_quadrature_on_one_visible_unit() -> None:
    grbm = make_grbm(1)
    grid = torch.linspace(-25, 25, 50_001, dtype=torch.float64)
    z = torch.trapezoid((-grbm(grid[:, None])).exp(), grid)
    torch.testing.assert_close(z.log(), ExactGRBM(grbm).log_z, **TIGHT)


def test_log_z_by_quadrature_on_two_visible_units() -> None:
    grbm = make_grbm(2)
    grid = torch.linspace(-20, 20, 801, dtype=torch.float64)
    density = (-grbm(torch.cartesian_prod(grid, grid))).exp().view(801, 801)
    z = torch.trapezoid(torch.trapezoid(density, grid), grid)
    torch.testing.assert_close(z.log(), ExactGRBM(grbm).log_z, **TIGHT)


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("num_visible", [1, 2])
def test_closed_form_gradient_is_the_autograd_one(num_visible: int, inference: bool) -> None:
    grbm, v = make_grbm(num_visible), points(50, num_visible)
    with torch.inference_mode(inference):
        energy, grad = grbm.value_and_grad(v.clone())
        at = grbm.evaluate(v.clone())
        by_autograd = Energy.value_and_grad(grbm, v.clone())
    torch.testing.assert_close((energy, grad), by_autograd, **TIGHT)
    torch.testing.assert_close((at.energy, at.grad), by_autograd, **TIGHT)
    torch.testing.assert_close(at.logits, grbm.hidden_given_visible(v).detach(), **TIGHT)
    assert not energy.requires_grad and not grad.requires_grad


@pytest.mark.parametrize("num_visible", [1, 2])
def test_conditionals_follow_from_the_joint_energy(num_visible: int) -> None:
    grbm, v = make_grbm(num_visible), points(6, num_visible)
    table, h = joint_table(grbm, v)
    posterior = (-table).softmax(1)
    torch.testing.assert_close(torch.sigmoid(grbm.hidden_given_visible(v)), posterior @ h, **TIGHT)
    for k in range(8):  # -E(v, h) and log p(v | h) differ by a function of h alone
        mean, variance = grbm.visible_given_hidden(h[k].expand(6, 3))
        log_density = -((v - mean) ** 2 / variance).sum(1) / 2
        rest = -table[:, k] - log_density
        torch.testing.assert_close(rest, rest[:1].expand(6), **TIGHT)
        torch.testing.assert_close(grbm.mean_visible(h[k][None])[0], mean[0], **TIGHT)


def test_sample_visible_has_the_conditional_moments() -> None:
    torch.manual_seed(0)
    grbm, n = make_grbm(2), 100_000
    mean, variance = grbm.visible_given_hidden(torch.tensor([[1.0, 0.0, 1.0]], dtype=torch.float64))
    with torch.no_grad():
        v = grbm.sample_visible(torch.tensor([[1.0, 0.0, 1.0]], dtype=torch.float64).expand(n, 3))
    z = (v - mean) / variance.sqrt()
    assert (z.mean(0).abs() * n**0.5).max() < 5
    assert ((z.square().mean(0) - 1).abs() * (n / 2) ** 0.5).max() < 5
    assert abs((z[:, 0] * z[:, 1]).mean()) * n**0.5 < 5


@pytest.mark.parametrize("hidden", ["drawn", "mean", "default"])
def test_weighted_sum_has_the_value_and_gradient_of_the_mean(hidden: str) -> None:
    """With drawn h the joint energy's; with E[h | v], given or computed, the gradient is the marginal energy's."""
    grbm = make_grbm(2)
    batches = points(11, 2).split([3, 1, 7])
    v = torch.cat(batches)
    torch.manual_seed(0)
    posterior = torch.sigmoid(grbm.hidden_given_visible(v)).detach()
    h = torch.randint(2, (11, 3)).double() if hidden == "drawn" else posterior
    total = grbm.weighted_sum()
    for part, start in zip(batches, (0, 3, 4), strict=True):
        total.add(part, None if hidden == "default" else h[start : start + len(part)], weight=1 / 11)
    value = total.value()
    joint = grbm.joint_energy(v, h).mean()
    torch.testing.assert_close(value, joint, **TIGHT)
    reference = joint if hidden == "drawn" else grbm(v).mean()
    parameters = [grbm.W, grbm.b, grbm.mu, grbm.log_var]
    actual = torch.autograd.grad(value, parameters)
    torch.testing.assert_close(actual, torch.autograd.grad(reference, parameters), **TIGHT)


def test_step_unit_is_the_mean_variance() -> None:
    grbm = make_grbm(2)
    torch.testing.assert_close(grbm.step_unit(), torch.tensor([-0.5, 0.4], dtype=torch.float64).exp().mean())


def test_first_weights_have_the_variance_of_one_unit_among_all() -> None:
    torch.manual_seed(0)
    assert float(GRBM(200, 200).W.detach().std()) == pytest.approx(400**-0.5, rel=0.02)
