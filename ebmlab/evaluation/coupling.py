"""The error of learnt couplings of an Ising model."""

from __future__ import annotations

import torch
from torch import Tensor

from ebmlab.energies import Ising
from ebmlab.errors import UserError


@torch.no_grad()
def coupling_rmse(energy: Ising, true: Tensor) -> Tensor:
    """Root of the mean squared difference of an energy's J and the true one, over all d * d entries.

    Both J are symmetric with a zero diagonal, in E(x) = -1/2 x'J x - h'x. Two papers have E(x) = -x'J x - b'x: Liu et
    al. (2023, App. J) and Grathwohl et al. (2021, Oops I Took A Gradient). Their J and their RMSE are half as large.
    Few couplings are not zero, so even a matrix of zeros has a small error. It is 2 J / sqrt(d) for a square lattice
    with one value J on all edges.

    Args:
        energy: the learnt energy, whose `coupling` is `(d, d)`.
        true: the true J, `(d, d)`.

    Returns:
        A scalar, float64.

    Example:
        >>> round(coupling_rmse(Ising.learnable(4), true=Ising.lattice(2, coupling=1.0).coupling).item(), 4)
        0.7071
    """
    learnt = energy.coupling.detach()
    if true.shape != learnt.shape:
        raise UserError(
            f"coupling_rmse compares two matrices, but the energy's J has shape {tuple(learnt.shape)} and the true "
            f"one {tuple(true.shape)}"
        )
    return (learnt.cpu().double() - true.detach().cpu().double()).square().mean().sqrt()
