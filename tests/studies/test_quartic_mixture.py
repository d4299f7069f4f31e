"""The quartic mixture: its polynomials written out, its symmetry, its wells."""

from __future__ import annotations

import pytest
import torch

from ebmlab.errors import UserError
from ebmlab.studies.targets import QuarticMixture


def test_polynomials_written_out() -> None:
    energy = QuarticMixture(6, num_components=5).double()
    x = energy.domain.random(20).double()
    s = torch.tensor([20 * torch.tensor(-0.5 + i / 5).exp() for i in range(6)]).double()
    P = energy.axes * (0.15 * s)
    torch.testing.assert_close(P.T @ P, torch.eye(6).double(), rtol=0, atol=1e-6)
    z = (x - 10) @ P / (0.15 * s)
    total = torch.zeros(20, dtype=torch.float64)
    for k in range(5):
        u = z - k / 4 + 0.5
        total += torch.exp(-2 * ((u**2 - 1) ** 2).sum(1))
    near = energy(x) < 500
    assert near.any()
    torch.testing.assert_close(energy(x)[near], -total.log()[near], rtol=1e-5, atol=1e-5)


def test_mean_is_the_middle_and_walls_are_rare() -> None:
    energy = QuarticMixture(3, num_components=4).double()
    x = energy.domain.enumerate().double()
    p = (-energy(x)).softmax(0)
    torch.testing.assert_close(p @ x, torch.full((3,), 10.0, dtype=torch.float64))
    assert p @ ((x == 0) | (x == 20)).any(1).double() < 0.01


def test_several_modes_and_no_gaussian() -> None:
    energy = QuarticMixture(2, num_components=1).double()  # two axes, two wells each
    table = energy(energy.domain.enumerate().double()).view(21, 21)
    padded = torch.nn.functional.pad(table[None, None], (1, 1, 1, 1), value=torch.inf)
    lowest = torch.nn.functional.max_pool2d(-padded, 3, stride=1)[0, 0]
    minima = (-table == lowest).nonzero()
    assert len(minima) == 4
    assert table[10, 10].item() == pytest.approx(4.0), "on the barriers of both axes"
    assert (table[tuple(minima.T)] < 0.7).all()


def test_float32_agrees_with_float64() -> None:
    energy = QuarticMixture()
    x = torch.cat([10 + torch.randint(-2, 3, (50, 50)).float(), energy.domain.random(50)])
    value, grad = energy.value_and_grad(x)
    expected, slope = energy.double().value_and_grad(x.double())
    torch.testing.assert_close(value.double(), expected, rtol=2e-6, atol=1e-4)
    torch.testing.assert_close(grad.double(), slope, rtol=1e-4, atol=1e-3)


def test_bad_sizes() -> None:
    with pytest.raises(UserError, match="must be at least 1"):
        QuarticMixture(num_components=0)
