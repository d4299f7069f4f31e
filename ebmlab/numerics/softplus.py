"""Sums of log(1 + exp(x)), of which the energies of hidden units and the laws of flips consist."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import softplus

_FEW = 2**10  # entries up to which one call of torch is faster than several
FOLDS = 6  # products of at most 2^6 numbers from 1/2 to 1, far from the smallest float32
_FOLDS_IN_PROGRAMS = 3  # of numbers from 1 to 2; more were not tried


def sum_softplus(x: Tensor) -> Tensor:
    """Sums log(1 + exp(x)) over the last axis.

    On a CPU, torch's softplus takes about ten times as long as its sigmoid. Where no gradient is asked for, this takes
    softplus(x) = max(x, 0) - log sigmoid(|x|), and the logarithm of products of up to 64 of these sigmoids. A compiled
    program takes the logarithm of products of up to eight 1 + exp(-|x|), which saves the division. Each term is then
    off by up to 1e-7 in float32, less than the rounding of the sum of many.
    """
    slow = x.device.type != "cpu" or torch.is_grad_enabled() or x.dtype not in (torch.float32, torch.float64)
    if slow or (not torch.compiler.is_compiling() and x.numel() <= _FEW):
        return softplus(x).sum(-1)
    return x.relu().sum(-1) + sum_log1p_exp_minus(x.abs())


def sum_log1p_exp_minus(x: Tensor) -> Tensor:
    """Sums log(1 + exp(-x)) of numbers from 0."""
    if torch.compiler.is_compiling():
        return _fewer_factors(1 + (-x).exp(), _FOLDS_IN_PROGRAMS).log().sum(-1)
    return -_fewer_factors(x.sigmoid(), FOLDS).log().sum(-1)


def _fewer_factors(factors: Tensor, folds: int) -> Tensor:
    """Multiplies the halves of the last axis, `folds` times as long as it is even: fewer factors, the same product."""
    width = factors.shape[-1]
    for _ in range(folds):
        if width % 2:
            break
        width //= 2
        factors = factors[..., :width] * factors[..., width:]
    return factors
