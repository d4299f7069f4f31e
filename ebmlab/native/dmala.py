"""Steps of DMALA on an RBM by a kernel in C++ (`dmala.cpp`)."""

from __future__ import annotations

import ctypes
import functools

import torch
from torch import Tensor
from torch.nn.functional import pad, softplus

from ebmlab.native.few_chains import (
    LARGEST,
    NEVER,
    VECTOR,
    Kernel,
    Moved,
    Weights,
    certain,
    kernel,
    may_be_called,
    moved,
)

LARGE = 2.0**20  # weights from which on sums in float64, which go from step to step, may lose small terms


@torch.no_grad()
def dmala_steps(weights: Weights, x: Tensor, num_steps: int, *, step_size: float, balance: float) -> Moved | None:
    """Moves chains x `(B, V)` of bits by steps of `DMALA`; None where no kernel can take them.

    Example:
        >>> weights = Weights(torch.zeros(3, 2), torch.tensor([90.0, -90.0, 90.0]), torch.zeros(2))
        >>> moved = dmala_steps(weights, torch.zeros(1, 3), 1000, step_size=0.2, balance=0.5)
        >>> moved is None or moved.x.tolist() == [[1.0, 0.0, 1.0]]
        True
    """
    if not (1 / LARGEST < step_size < LARGEST and 0 <= balance <= 1):  # such as NaN
        return None
    if not may_be_called(weights, x) or (steps := checked()) is None:
        return None
    return _moved(steps, weights, x, num_steps, step_size=step_size, balance=balance)


def _moved(
    steps: Kernel,
    weights: Weights,
    x: Tensor,
    num_steps: int,
    *,
    step_size: float,
    balance: float,
    seed: int | None = None,
) -> Moved | None:
    """Without a gradient, the logit of a flip is -1 / (2 alpha)."""
    still = pad(torch.full_like(x[0], -0.5 / step_size), (0, -x.shape[1] % VECTOR), value=NEVER)
    return moved(steps, weights, x, num_steps, settings=(still.data_ptr(), 2 * balance), most=LARGE, seed=seed)


@functools.cache
def checked() -> Kernel | None:
    """The kernel, after steps that are certain have come out right; None where there is none."""
    return kernel("dmala", _is_right, ctypes.c_void_p, ctypes.c_float)


def _is_right(steps: Kernel) -> bool:
    weights, x = certain()
    found = _moved(steps, weights, x, 3, step_size=1.0, balance=0.5, seed=1)
    acceptance, hops = x.new_zeros(2, len(x), dtype=torch.float64)
    for _ in range(3):
        energy, logits = _at(weights, x)
        y = torch.where(logits > 0, 1 - x, x)
        energy_y, back = _at(weights, y)
        flips = (y != x).double()
        ratio = energy - energy_y + (flips * (back - logits) - softplus(back) + softplus(logits)).sum(1)
        accepted = ratio >= 0
        acceptance += ratio.clamp(max=0).exp()
        hops += flips.sum(1) * accepted
        x = torch.where(accepted[:, None], y, x)
    return (
        found is not None
        and torch.equal(found.x, x)
        and torch.equal(found.hops, hops)
        and torch.allclose(found.acceptance, acceptance)
    )


def _at(weights: Weights, x: Tensor) -> tuple[Tensor, Tensor]:
    """Energies `(B,)` of states, and the logits of flips `(B, V)` with alpha = 1, beta = 1/2, in float64."""
    weight, visible_bias, hidden_bias = (part.double() for part in weights)
    inputs = x.double() @ weight + hidden_bias
    field = inputs.sigmoid() @ weight.T + visible_bias
    return -x.double() @ visible_bias - softplus(inputs).sum(1), (0.5 - x) * field - 0.5
