"""Z on the plane against integrals that another library takes, on asymmetric energies."""

from __future__ import annotations

import math

import pytest
import torch
from scipy.integrate import dblquad

from ebmlab.domains import Binary, Real
from ebmlab.energies import RBM, Energy, RealMLP
from ebmlab.errors import UserError
from ebmlab.evaluation import plane_integral
from ebmlab.evaluation.quadrature import cell_centres


class Lopsided(Energy):
    """Two wells of unequal depth, tilted and turned."""

    domains = (Real,)

    def __init__(self) -> None:
        super().__init__()
        self.domain = Real(2)
        self.scale = torch.nn.Parameter(torch.tensor(0.5, dtype=torch.float64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        u, v = x[:, 0] + 0.4 * x[:, 1], x[:, 1] - 0.3 * x[:, 0]
        return self.scale * (u.square() - 2).square() + 0.7 * u + v.square() - 0.6 * u * v


@pytest.mark.slow
def test_log_z_against_adaptive_quadrature() -> None:
    energy = Lopsided()

    def weight(y: float, x: float) -> float:
        with torch.no_grad():
            return math.exp(-float(energy(torch.tensor([[x, y]], dtype=torch.float64))))

    expected = math.log(dblquad(weight, -6, 6, -6, 6, epsabs=1e-7, epsrel=1e-7)[0])
    found = plane_integral(energy, 6.0, resolution=300)
    assert found.log_z == pytest.approx(expected, abs=1e-6)
    assert found.edge < 1e-6
    assert float(found.density.sum()) * (12 / 300) ** 2 == pytest.approx(1.0, abs=1e-9)


def test_the_density_stands_where_its_cells_are() -> None:
    energy = Lopsided()
    found = plane_integral(energy, 6.0, resolution=300)
    points = cell_centres(6.0, 300)
    mean = (found.density.view(-1, 1) * points).sum(0) * (12 / 300) ** 2
    with torch.no_grad():
        weights = torch.softmax(-energy(points), 0)
    torch.testing.assert_close(mean, weights @ points)


def test_a_perceptron_that_says_nothing_is_a_gaussian() -> None:
    energy = RealMLP(2, 8, scale=1.5).double()
    with torch.no_grad():
        energy.network[-1].weight.zero_()
        energy.network[-1].bias.fill_(0.7)
    expected = math.log(2 * math.pi * 1.5**2) - 0.7
    assert plane_integral(energy, 15.0).log_z == pytest.approx(expected, abs=1e-9)


def test_mass_at_the_edge_is_seen() -> None:
    assert plane_integral(RealMLP(2, 8, scale=4.0), 4.0).edge > 0.05


@pytest.mark.parametrize(
    ("energy", "extent", "message"),
    [(RBM(3, 2), 1.0, "needs an energy on 2 numbers"), (RealMLP(2), math.inf, "extent is inf")],
)
def test_refusals(energy: Energy, extent: float, message: str) -> None:
    assert isinstance(energy.domain, Binary | Real)
    with pytest.raises(UserError, match=message):
        plane_integral(energy, extent)
