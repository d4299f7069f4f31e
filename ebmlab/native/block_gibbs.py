"""Steps of block Gibbs on an RBM by a kernel in C++ (`block_gibbs.cpp`)."""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from ebmlab.native.few_chains import Kernel, Moved, Weights, certain, kernel, may_be_called, moved


@torch.no_grad()
def block_gibbs_steps(weights: Weights, x: Tensor, num_steps: int) -> Moved | None:
    """Moves chains x `(B, V)` of bits by steps of `BlockGibbs`; None where no kernel can take them.

    Example:
        >>> weights = Weights(torch.zeros(3, 2), torch.tensor([90.0, -90.0, 90.0]), torch.zeros(2))
        >>> moved = block_gibbs_steps(weights, torch.zeros(1, 3), 10)
        >>> moved is None or moved.x.tolist() == [[1.0, 0.0, 1.0]]
        True
    """
    if not may_be_called(weights, x) or (steps := checked()) is None:
        return None
    return moved(steps, weights, x, num_steps)


@functools.cache
def checked() -> Kernel | None:
    """The kernel, after steps that are certain have come out right; None where there is none."""
    return kernel("block_gibbs", _is_right)


def _is_right(steps: Kernel) -> bool:
    weights, x = certain()
    found, hops = moved(steps, weights, x, 3, seed=1), x.new_zeros(len(x), dtype=torch.float64)
    for _ in range(3):
        before, h = x, (x @ weights.weight + weights.hidden_bias > 0).float()
        x = (h @ weights.weight.T + weights.visible_bias > 0).float()
        hops += (x != before).sum(1)
    return found is not None and torch.equal(found.x, x) and torch.equal(found.hops, hops)
