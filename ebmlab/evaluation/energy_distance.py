"""The energy distance between sets of states (Szekely and Rizzo, 2013, Energy Statistics)."""

from __future__ import annotations

import torch
from torch import Tensor

from ebmlab.evaluation.two_sets import two_sets

CHUNK = 2**22  # distances at a time


@torch.no_grad()
def energy_distance(x: Tensor, y: Tensor) -> Tensor:
    """2 E|X - Y| - E|X - X'| - E|Y - Y'| under the Euclidean distance, of the empirical laws of two sets.

    It is the squared MMD under the kernel -|x - y|: at least 0, and 0 for equal laws alone. No bandwidth is to be
    chosen. For independent draws from one law it is E|X - X'| (1/n + 1/m) on average.

    Computed in float64. Points that lie closer together than 1e-8 of the sets' extent count as equally close.

    Args:
        x: states, `(n, *event)`.
        y: states, `(m, *event)`.

    Returns:
        A scalar, float64, in the unit of the states.

    Raises:
        UserError: the sets are empty, differ in shape, or are not finite.

    Example:
        >>> x = torch.zeros(5, 4)
        >>> energy_distance(x, x).item(), energy_distance(x, x + 1).item()  # 2 |x - y|
        (0.0, 4.0)
    """
    x, y = two_sets(x, y, owner="energy_distance")
    distance = 2 * _mean_distance(x, y) - _mean_distance(x, x) - _mean_distance(y, y)
    return distance.clamp(min=0)  # below 0 by rounding only


def _mean_distance(x: Tensor, y: Tensor) -> Tensor:
    parts = torch.split(x, max(1, CHUNK // len(y)))
    return torch.stack([torch.cdist(part, y).sum() for part in parts]).sum() / (len(x) * len(y))
