"""Sweeps of Ising and Potts models, by kernels in C++ on a CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor
from torch.nn.utils.parametrize import is_parametrized

from ebmlab.energies import Energy, Ising
from ebmlab.energies.laws import of_states
from ebmlab.energies.pairwise.neighbours import Neighbours
from ebmlab.energies.pairwise.scalar_potts import ScalarPotts
from ebmlab.energies.paths.tempering import Scaled, TemperedEnergy
from ebmlab.native import ising_sweeps, potts_sweeps
from ebmlab.native.sweeps import Rows

OWN = (TemperedEnergy, Scaled)  # a subclass may have another law, as one of `Ising` may


def pairwise(energy: Energy) -> tuple[Ising | ScalarPotts | None, float | Tensor]:
    """The model that an energy is, or has at another temperature, and beta; None of any other one."""
    beta: float | Tensor = 1.0
    while isinstance(energy, TemperedEnergy) and type(energy) in OWN:
        beta, energy = _times(beta, energy.beta), energy.energy
    own = type(energy).__base__ if is_parametrized(energy) else type(energy)  # that of learnt couplings is derived
    return (cast(Ising | ScalarPotts, energy) if own in (Ising, ScalarPotts) else None), beta


def _times(beta: float | Tensor, inner: Tensor) -> float | Tensor:
    """The product. If one factor has fewer numbers, each of them belongs to several successive chains."""
    if not isinstance(beta, Tensor) or not beta.dim() or not inner.dim():
        return beta * inner
    chains = max(len(beta), len(inner))
    return of_states(beta, chains) * of_states(inner, chains)


def swept(
    energy: Energy,
    table: Tensor,
    *,
    betas: Sequence[float],
    ties: float = ising_sweeps.HEAT_BATH,
    order: Tensor | None = None,
    hops: Tensor | None = None,
) -> Tensor | None:
    """Moves chains in place by a sweep at each inverse temperature, as `native.ising_sweeps.sweep`.

    Args:
        energy: of the chains.
        table: the chains, each site one row of memory, `(d, B, ...)`.
        betas: of the sweeps.
        ties: as for `native.ising_sweeps.sweep`.
        order: of the sites, int64 `(d,)`; None for one colour after the other.
        hops: gets the number of sites that have changed in each sweep added, `(B,)`.

    Returns:
        A number for each chain, `(B,)`; NaN if one of the laws was not valid. None where torch must make the sweeps.
    """
    if torch.compiler.is_compiling() or table.device.type != "cpu" or table.dtype != torch.float32:
        return None
    model, factor = pairwise(energy)
    if model is None or (order is None and model.learn) or model.field.device != table.device:
        return None
    factors = factor if isinstance(factor, Tensor) and factor.dim() > 0 else None
    if factors is None:
        betas = [float(factor) * beta for beta in betas]
    elif factors.shape != (table.shape[1],):
        return None
    if isinstance(model, Ising):
        rows = _rows(model, order)
        return ising_sweeps.sweep(table, rows, betas=betas, ties=ties, factors=factors, hops=hops)
    if ties != ising_sweeps.HEAT_BATH:
        return None
    return potts_sweeps.sweep(table, _rows(model, order), betas=betas, factors=factors, hops=hops)


@torch.no_grad()
def _rows(model: Ising | ScalarPotts, order: Tensor | None) -> Rows:
    if order is None:
        lists, order = model.in_order(), torch.cat(model.colours)
    else:
        lists = (model.neighbours if model.sparse else Neighbours.given_by(model.edges())).of(order)
    return Rows(order, lists.offsets, lists.sites, lists.weights, model.field.detach()[order])
