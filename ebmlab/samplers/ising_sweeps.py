"""Sweeps by colours of Ising models with any couplings, by a kernel in C++ on a CPU."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ebmlab.energies import Energy, Ising
from ebmlab.energies.paths.tempering import Scaled, TemperedEnergy
from ebmlab.native.colour_sweeps import Rows, sweep

OWN = (TemperedEnergy, Scaled)  # a subclass may have another law, as one of `Ising` may


def swept(
    energy: Energy, table: Tensor, *, betas: Sequence[float], ties: float, hops: Tensor | None = None
) -> Tensor | None:
    """Moves chains in place by a sweep at each inverse temperature, as `native.colour_sweeps.sweep`.

    Returns:
        A number for each chain, `(B,)`; NaN if one of the local fields was. None where torch must make the sweeps.
    """
    if torch.compiler.is_compiling() or table.device.type != "cpu" or table.dtype != torch.float32:
        return None
    while isinstance(energy, TemperedEnergy) and type(energy) in OWN and energy.beta.dim() == 0:
        factor, energy = float(energy.beta), energy.energy
        betas = [factor * beta for beta in betas]
    if type(energy) is not Ising or energy.learn or energy.field.device != table.device:
        return None
    lists, order = energy.in_order(), torch.cat(energy.colours)
    rows = Rows(order, lists.offsets, lists.sites, lists.weights, energy.field.detach()[order])
    return sweep(table, rows, betas=betas, ties=ties, hops=hops)
