"""The normalising constant of an energy on the plane, by quadrature."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from ebmlab.energies import Energy
from ebmlab.errors import UserError

CHUNK = 8192  # points in one evaluation of the energy


class PlaneIntegral(NamedTuple):
    """Z of an energy on the plane.

    Attributes:
        log_z: log of the integral of exp(-E(x)) over the window, nats.
        edge: share of it that lies in the outer tenth of the window; a large share says that mass is missing.
        energies: E(x) at the cells' centres, `(resolution, resolution)`, float64; the row index is y.

    Example:
        >>> round(PlaneIntegral(math.log(4.0), 0.0, torch.zeros(2, 2)).density[0, 0].item(), 2)
        0.25
    """

    log_z: float
    edge: float
    energies: Tensor

    @property
    def density(self) -> Tensor:
        """exp(-E(x)) / Z at the cells' centres, in the form of `energies`."""
        return (-self.energies - self.log_z).exp()


def cell_centres(extent: float, resolution: int) -> Tensor:
    """Centres of the cells of a square grid over the window from -extent to extent, `(resolution^2, 2)`, float64.

    The cells are ordered row by row, and the row index is y.
    """
    axis = 2 * extent / resolution * (torch.arange(resolution, dtype=torch.float64) + 0.5) - extent
    y, x = torch.meshgrid(axis, axis, indexing="ij")
    return torch.stack([x, y], -1).view(-1, 2)


@torch.no_grad()
def plane_integral(energy: Energy, extent: float, *, resolution: int = 400) -> PlaneIntegral:
    """Z over the window from -extent to extent in both directions, by the midpoint rule.

    The rule is exact to many digits for smooth densities of several cells' width that vanish at the edge.

    Args:
        energy: on two real numbers.
        extent: half of the window's width.
        resolution: number of cells in each direction.

    Raises:
        UserError: the energy is not on two numbers, or the window has no width.

    Example:
        >>> from ebmlab.domains import Real
        >>> from ebmlab.energies import StandardNormal
        >>> round(plane_integral(StandardNormal(Real(2)), extent=8.0).log_z - math.log(2 * math.pi), 6)
        0.0
    """
    if tuple(energy.domain.event_shape) != (2,):
        raise UserError(f"plane_integral needs an energy on 2 numbers, got one on {energy.domain}")
    if not (math.isfinite(extent) and extent > 0 and resolution > 1):
        raise UserError(
            f"plane_integral: extent is {extent} and resolution {resolution}, but must be positive, and at least 2"
        )
    width = 2 * extent / resolution
    like = next(iter([*energy.parameters(), *energy.buffers()]), torch.empty(0))
    parts = torch.split(cell_centres(extent, resolution), CHUNK)
    energies = torch.cat([energy(points.to(like)).double().cpu() for points in parts]).view(resolution, resolution)
    log_z = float(torch.logsumexp(-energies.flatten(), 0)) + 2 * math.log(width)
    margin = max(1, resolution // 20)
    inner = (-energies[margin:-margin, margin:-margin] - log_z).exp().sum() * width**2
    return PlaneIntegral(log_z, float(1 - inner), energies)
