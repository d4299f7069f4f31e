"""The Stein kernel of a law on a finite domain, by the operator of Gibbs sampling (Reinert and Ross, 2019)."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import one_hot


def discrete_stein(index: Tensor, laws: Tensor) -> Tensor:
    """u(x, x') of all pairs of states, whose mean over x' of the law is 0 at every x.

    Let r_i(x) be the law of coordinate i given the others, less the one-hot vector of x_i: its mean is 0 whatever the
    others are. So is that of u, the sum over i of k_i r_i(x) . r_i(x'). The kernel k_i is exp(-H / d), with H the
    Hamming distance of the other coordinates, of d in all. No term is above 2. A ratio of probabilities, as in the
    operator of Yang et al. (2018), has no bound, and draws without the rare states of large ratios look wrong.

    Args:
        index: states in index form, `(n, d)`.
        laws: p(x_i = a | the others), `(n, d, q)`, float64.

    Returns:
        `(n, n)`, float64.
    """
    d, num_values = laws.shape[1:]
    here = one_hot(index, num_values).to(laws)
    rest = laws - here

    def products(values: Tensor) -> Tensor:
        return values.flatten(1) @ values.flatten(1).T

    alike = torch.zeros(len(index), len(index)).to(laws)  # the sum over i where x_i = x'_i
    for a in range(num_values):
        alike += products(rest * here[:, :, a : a + 1])
    k = ((products(here) - d) / d).exp()  # of all coordinates: exp(-1 / d) times as large as k_i where x_i is not x'_i
    return k * (math.exp(1 / d) * products(rest) - math.expm1(1 / d) * alike)
