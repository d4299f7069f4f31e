"""Sweeps by colours of Ising and Potts models, by kernels in C++ on a CPU."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ebmlab.energies import Energy, Ising
from ebmlab.energies.pairwise.scalar_potts import ScalarPotts
from ebmlab.energies.paths.tempering import Scaled, TemperedEnergy
from ebmlab.native import ising_sweeps, potts_sweeps
from ebmlab.native.sweeps import Rows

OWN = (TemperedEnergy, Scaled)  # a subclass may have another law, as one of `Ising` may


def swept(
    energy: Energy, table: Tensor, *, betas: Sequence[float], ties: float, hops: Tensor | None = None
) -> Tensor | None:
    """Moves chains in place by a sweep at each inverse temperature, as `native.ising_sweeps.sweep`.

    Returns:
        A number for each chain, `(B,)`; NaN if one of the laws was not valid. None where torch must make the sweeps.
    """
    if torch.compiler.is_compiling() or table.device.type != "cpu" or table.dtype != torch.float32:
        return None
    while isinstance(energy, TemperedEnergy) and type(energy) in OWN and energy.beta.dim() == 0:
        factor, energy = float(energy.beta), energy.energy
        betas = [factor * beta for beta in betas]
    if type(energy) is Ising and not energy.learn and energy.field.device == table.device:
        return ising_sweeps.sweep(table, _rows(energy), betas=betas, ties=ties, hops=hops)
    heat_bath = ties == ising_sweeps.HEAT_BATH
    if type(energy) is ScalarPotts and heat_bath and energy.field.device == table.device:
        return potts_sweeps.sweep(table, _rows(energy), betas=betas, hops=hops)
    return None


def _rows(energy: Ising | ScalarPotts) -> Rows:
    lists, order = energy.in_order(), torch.cat(energy.colours)
    return Rows(order, lists.offsets, lists.sites, lists.weights, energy.field.detach()[order])
