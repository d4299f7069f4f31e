"""The Stein kernel of a law on a finite domain (Yang, Liu, Rao and Neville, 2018, Goodness-of-fit testing)."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import one_hot


def discrete_stein(index: Tensor, ratios: Tensor, *, num_values: int) -> Tensor:
    """u(x, x') of all pairs of states, whose mean over x' of the law is 0 at every x.

    Let up_i x have the next value at coordinate i, the first after the last, and down_i x the one before. The score is
    s_i(x) = 1 - p(up_i x) / p(x), and a difference D_i f(x) = f(x) - f(down_i x). With the kernel k, u is the sum over
    i of s_i(x) s_i(x') k - s_i(x) D'_i k - s_i(x') D_i k + D_i D'_i k (Eq. 14). The kernel is exp(-H / d), with H the
    Hamming distance of states of d coordinates.

    Args:
        index: states in index form, `(n, d)`.
        ratios: p(up_i x) / p(x), `(n, d)`, float64.
        num_values: of a coordinate.

    Returns:
        `(n, n)`, float64.
    """
    d = index.shape[1]
    score = 1 - ratios
    here, below = (one_hot((index - shift) % num_values, num_values).to(ratios) for shift in (0, 1))
    agree = here.flatten(1) @ here.flatten(1).T  # number of i with x_i = x'_i
    k = ((agree - d) / d).exp()
    if num_values == 1:
        return score @ score.T * k  # up and down are the state itself
    apart, join = -math.expm1(-1 / d), -math.expm1(1 / d)  # D_i k / k where x_i = x'_i, and where down_i x has x'_i

    def differences(weights: Tensor) -> Tensor:
        """The sum over i of weights_i(x') D_i k(x, x') / k(x, x'); the weights are `(n, d)`."""
        weighted = (here * weights.unsqueeze(2)).flatten(1).T
        return apart * (here.flatten(1) @ weighted) + join * (below.flatten(1) @ weighted)

    crossed, change = differences(score), differences(torch.ones_like(score))
    return (score @ score.T - crossed - crossed.T + change + change.T) * k
