"""Steps of a few chains on an RBM that a kernel in C++ takes at once (`ebmlab.native`)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ebmlab.energies import RBM, Energy
from ebmlab.native.few_chains import Moved, Weights
from ebmlab.samplers.state import Info

FEWEST_STEPS = 8  # the kernel begins with a copy of the weights, which takes as long as a few of them
FEW, LARGE = 16, 2**20  # chains that move at once on an RBM of any size; weights of one on which no others do
MORE, SMALL = 6, 2**13  # times as many do on an RBM of at most so many weights

Steps = Callable[[Weights], Moved | None]


def at_once(steps: Steps, energy: Energy, *, x: Tensor, num_steps: int, most: int) -> tuple[Tensor, Info] | None:
    """The last states of chains and the mean of their reports; None where steps are taken one by one.

    Args:
        steps: takes all steps on an RBM with these weights, where it can.
        energy: whose class must be `RBM`, with hidden units that are bits; a derived one may change what steps do.
        x: where the chains begin, `(B, V)`.
        num_steps: how many steps they take.
        most: chains on an RBM that is neither small nor large; more of them move faster step by step.
    """
    if type(energy) is not RBM or not energy.has_bits or x.device.type != "cpu" or num_steps < FEWEST_STEPS:
        return None
    weights = energy.W.numel()
    if len(x) > (FEW if weights > LARGE else MORE * most if weights <= SMALL else most):
        return None
    with torch.no_grad():
        moved = steps(Weights(energy.W, energy.b_v, energy.b_h))
    if moved is None:
        return None
    acceptance, hops = ((total / num_steps).to(x.dtype) for total in (moved.acceptance, moved.hops))
    return moved.x, Info(acceptance, hops)
