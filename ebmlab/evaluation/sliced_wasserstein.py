"""The sliced Wasserstein distance between sets of points (Bonneel et al., 2015, Sliced and Radon Wasserstein)."""

from __future__ import annotations

import torch
from torch import Tensor

from ebmlab.evaluation.two_sets import two_sets
from ebmlab.settings import require_count

CHUNK = 2**22  # projected points at a time


@torch.no_grad()
def sliced_wasserstein(x: Tensor, y: Tensor, *, num_projections: int = 500, order: int = 2) -> Tensor:
    """The Wasserstein distance W_p of projections on random directions: the p-th root of the mean of W_p^p.

    On a line W_p^p is the integral over t from 0 to 1 of |F^-1(t) - G^-1(t)|^p, with the quantile functions of both
    sets. Both are constant between the multiples of 1/n and 1/m, so the integral is a sum, also where n differs from m.
    The directions are uniform on the sphere, from torch's global generator. In one dimension there is but one.

    The spread over directions is that of one W_p^p over the square root of `num_projections`. Computed in float64.

    Args:
        x: states, `(n, *event)`.
        y: states, `(m, *event)`.
        num_projections: number of directions.
        order: p, at least 1.

    Returns:
        A scalar, float64, in the unit of the states.

    Raises:
        UserError: the sets are empty, differ in shape, or are not finite; or there is no direction, or no such order.

    Example:
        >>> x = torch.randn(50, 1)
        >>> round(sliced_wasserstein(x, x + 3).item(), 4)
        3.0
    """
    x, y = two_sets(x, y, owner="sliced_wasserstein")
    require_count("sliced_wasserstein", num_projections=num_projections, order=order)
    n, m, d = len(x), len(y), x.shape[1]
    levels = torch.cat([torch.arange(1, n + 1) * m, torch.arange(1, m) * n]).sort().values  # in units of 1 / (n m)
    widths = torch.diff(levels, prepend=levels.new_zeros(1)).to(x)
    of_x, of_y = ((levels - 1).div(k, rounding_mode="floor").to(x.device) for k in (m, n))
    total = x.new_zeros(())
    count = num_projections if d > 1 else 1
    for part in torch.split(torch.ones(count), max(1, CHUNK // (n + m))):
        directions = torch.randn(d, len(part), dtype=x.dtype, device=x.device) if d > 1 else x.new_ones(1, 1)
        directions /= directions.norm(dim=0)
        gaps = (x @ directions).sort(0).values[of_x] - (y @ directions).sort(0).values[of_y]
        total += widths @ gaps.abs().pow(order).sum(1)
    return (total / (count * n * m)) ** (1 / order)
