"""The Stein kernel of a law on real numbers (Liu, Lee and Jordan, 2016; Chwialkowski, Strathmann and Gretton, 2016)."""

from __future__ import annotations

import torch
from torch import Tensor

from ebmlab.errors import UserError

MANY = 1000  # states among which the median distance is sought


def langevin_stein(x: Tensor, score: Tensor, *, bandwidth: float | None = None) -> Tensor:
    """u(x, x') of all pairs of states, whose mean over x' of the law is 0 at every x.

    The score is s(x) = -dE/dx. With the kernel k, u is s(x)'s(x') k + s(x)' dk/dx' + s(x')' dk/dx + tr d^2k / dx dx'
    (Liu et al., Eq. 8). The kernel is the inverse multiquadric (1 + |x - x'|^2 / h^2)^(-1/2), which notices samples
    that escape to infinity (Gorham and Mackey, 2017).

    Args:
        x: states, `(n, d)`, float64.
        score: at the states, `(n, d)`, float64.
        bandwidth: h; by default the median distance between two of the first 1,000 states.

    Returns:
        `(n, n)`, float64.
    """
    x = x - x.mean(0)
    h = median_distance(x) if bandwidth is None else bandwidth
    inner, across = x @ x.T, score @ x.T
    along, lengths = across.diagonal(), inner.diagonal()
    square = (lengths[:, None] + lengths - 2 * inner).clamp_(min=0) / h**2  # |x - x'|^2 / h^2
    k = (1 + square).rsqrt()
    gap = along[:, None] + along - across - across.T  # (s(x) - s(x'))'(x - x')
    trace = (x.shape[1] - 3 * square / (1 + square)) / h**2
    return (score @ score.T) * k + (gap / h**2 + trace) * k**3


def median_distance(x: Tensor) -> float:
    """The median Euclidean distance between two of the first 1,000 states `(n, d)`.

    Raises:
        UserError: it is 0.
    """
    median = float(torch.pdist(x[:MANY]).median())
    if median == 0:
        raise UserError("the median distance of these states is 0, as most are equal: give a bandwidth")
    return median
