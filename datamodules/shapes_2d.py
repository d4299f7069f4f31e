"""Seven densities in the plane that are customary for pictures of density models, each within about [-4, 4]^2.

Their constants are those of the literature on flows (Grathwohl et al. 2019, FFJORD), so that pictures can be compared.
All points are float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor

Draw = Callable[[int, Generator | None], Tensor]


def two_spirals(n: int, generator: Generator | None) -> Tensor:
    """Two arms of one and a half turns, each the point reflection of the other; angle^2 is uniform."""
    angle = 3 * math.pi * _uniform(n, generator).sqrt()
    arm = _polar(angle, math.pi - angle) + 0.5 * _uniform(n, generator, 2)
    sign = 1 - 2 * _integers(2, n, generator)
    return sign.unsqueeze(1) * arm / 3 + 0.1 * _normal(n, generator, 2)


def eight_gaussians(n: int, generator: Generator | None) -> Tensor:
    """Equal parts at the corners of an octagon of radius 4 / sqrt(2), standard deviation 0.5 / sqrt(2)."""
    angle = _integers(8, n, generator) * (math.pi / 4)
    return (_polar(torch.full_like(angle, 4), angle) + 0.5 * _normal(n, generator, 2)) / math.sqrt(2)


def circles(n: int, generator: Generator | None) -> Tensor:
    """Two circles about the origin, radii 3 and 1.5, equally likely; standard deviation 0.24 in each direction."""
    radius = 3 - 1.5 * _integers(2, n, generator)
    return _polar(radius, 2 * math.pi * _uniform(n, generator)) + 0.24 * _normal(n, generator, 2)


def moons(n: int, generator: Generator | None) -> Tensor:
    """Two interleaved half circles of radius 2 about (-1, -0.2) and (1, 0.8); standard deviation 0.2."""
    lower = _integers(2, n, generator)
    half = _polar(2 * torch.ones_like(lower), math.pi * (_uniform(n, generator) + lower))
    centre = torch.stack([2 * lower - 1, lower - 0.2], 1)
    return half + centre + 0.2 * _normal(n, generator, 2)


def pinwheel(n: int, generator: Generator | None) -> Tensor:
    """Five Gaussian blades, long along the radius and sheared into a spiral by an angle exp(radius) / 4."""
    radius = 1 + 0.3 * _normal(n, generator)
    across = 0.1 * _normal(n, generator)
    turn = 2 * math.pi / 5 * _integers(5, n, generator) + 0.25 * radius.exp()
    x = radius * turn.cos() + across * turn.sin()
    y = across * turn.cos() - radius * turn.sin()
    return 2 * torch.stack([x, y], 1)


def swiss_roll(n: int, generator: Generator | None) -> Tensor:
    """One spiral from angle 3/2 pi to 9/2 pi, radius a fifth of the angle; standard deviation 0.2."""
    angle = 1.5 * math.pi * (1 + 2 * _uniform(n, generator))
    return _polar(angle / 5, angle) + 0.2 * _normal(n, generator, 2)


def checkerboard(n: int, generator: Generator | None) -> Tensor:
    """Uniform on every other one of the 16 squares of side 2 in [-4, 4]^2, the one at (-4, -4) included."""
    column, half = _integers(4, n, generator), _integers(2, n, generator)
    square = torch.stack([column, 2 * half + column % 2], 1)
    return 2 * (square + _uniform(n, generator, 2)) - 4


SHAPES: dict[str, Draw] = {
    "2spirals": two_spirals,
    "8gaussians": eight_gaussians,
    "circles": circles,
    "moons": moons,
    "pinwheel": pinwheel,
    "swissroll": swiss_roll,
    "checkerboard": checkerboard,
}
"""By name, the function that draws points `(n, 2)`, float64, given their number and a generator (None: global)."""


def _polar(radius: Tensor, angle: Tensor) -> Tensor:
    return torch.stack([radius * angle.cos(), radius * angle.sin()], 1)


def _uniform(n: int, generator: Generator | None, *shape: int) -> Tensor:
    return torch.rand(n, *shape, generator=generator, dtype=torch.float64)


def _normal(n: int, generator: Generator | None, *shape: int) -> Tensor:
    return torch.randn(n, *shape, generator=generator, dtype=torch.float64)


def _integers(high: int, n: int, generator: Generator | None) -> Tensor:
    """Of 0 .. high - 1, as float64 `(n,)`."""
    return torch.randint(high, (n,), generator=generator).double()
