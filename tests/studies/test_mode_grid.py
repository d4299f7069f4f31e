"""The 2-D grid of modes against Eq. 2 written out."""

from __future__ import annotations

import pytest
import torch

from ebmlab.errors import UserError
from ebmlab.studies.targets import ModeGrid


def test_is_the_sum_over_all_modes() -> None:
    energy = ModeGrid().double()
    x = torch.cat([energy.domain.random(200).double(), torch.tensor([[0.0, 450.0], [75.0, 375.0]]).double()])
    modes = torch.tensor([(75.0 * i, 75.0 * j) for i in range(1, 6) for j in range(1, 6)], dtype=torch.float64)
    assert torch.equal(energy.modes, modes)
    expected = -(-(x[:, None] - modes).square().sum(2) / (2 * 22)).logsumexp(1)
    torch.testing.assert_close(energy(x), expected, rtol=1e-12, atol=1e-9)


def test_density_is_exp_minus_energy() -> None:
    energy = ModeGrid(side=2, num_values=25, spacing=8, variance=3.0).double()
    expected = (-energy(energy.domain.enumerate().double())).softmax(0).view(25, 25)
    torch.testing.assert_close(energy.density(), expected)


def test_25_modes_of_equal_mass() -> None:
    energy = ModeGrid()
    p = energy.density()
    assert p.shape == (451, 451) and p.dtype == torch.float64
    torch.testing.assert_close(p.sum().item(), 1.0)
    x = torch.cartesian_prod(*[torch.arange(451.0)] * 2)
    nearest = energy.nearest_mode(x)
    far = p.flatten()[nearest == -1].sum()
    masses = torch.zeros(25, dtype=torch.float64).index_add(0, nearest.clamp(min=0), p.flatten() * (nearest >= 0))
    assert far < 1e-12
    torch.testing.assert_close(masses, torch.full_like(masses, 1 / 25), rtol=1e-9, atol=0)
    marginal = p.sum(1)[40:111]  # values around the first centre
    v = torch.arange(40.0, 111.0).double()
    torch.testing.assert_close((marginal @ (v - 75) ** 2 / marginal.sum()).item(), 22.0, rtol=1e-6, atol=0)


def test_nearest_mode() -> None:
    x = torch.tensor([[75.0, 75.0], [370.0, 80.0], [375.0, 375.0], [112.0, 75.0], [113.0, 75.0], [0.0, 0.0]])
    assert ModeGrid().nearest_mode(x).tolist() == [0, 20, 24, 0, 5, -1]
    assert ModeGrid().nearest_mode(torch.tensor([[112.0, 112.0]])).tolist() == [-1]


@pytest.mark.parametrize("settings", [{"side": 0}, {"num_values": 375}, {"variance": 0.0}])
def test_bad_arguments(settings: dict[str, float]) -> None:
    with pytest.raises(UserError, match="ModeGrid"):
        ModeGrid(**settings)
