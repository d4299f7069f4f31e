"""Steps of a few chains on an RBM that a kernel in C++ takes at once (`ebmlab.native`)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ebmlab.energies import RBM, Energy
from ebmlab.native import Moved, Weights
from ebmlab.samplers.state import Info

Steps = Callable[[Weights], Moved | None]


def at_once(steps: Steps, energy: Energy, *, x: Tensor, num_steps: int, most: int) -> tuple[Tensor, Info] | None:
    """The last states of chains and the mean of their reports; None where steps are taken one by one.

    Args:
        steps: takes the steps from x, where it can.
        energy: whose class must be `RBM`, with hidden units that are bits; a derived one may change what steps do.
        x: where the chains begin, `(B, V)`.
        num_steps: how many steps they take.
        most: chains; more move faster one step after the other.
    """
    if type(energy) is not RBM or not energy.has_bits or len(x) > most or num_steps == 0:
        return None
    with torch.no_grad():
        moved = steps(Weights(energy.W, energy.b_v, energy.b_h))
    if moved is None:
        return None
    return moved.x, Info(*(total.div_(num_steps).float() for total in (moved.acceptance, moved.hops)))
