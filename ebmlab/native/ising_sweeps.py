"""Sweeps of an Ising model by single spins on a CPU, of many chains at once (`ising_sweeps.cpp`)."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence

import torch
from torch import Tensor

from ebmlab.native.sweeps import Rows, called, movable, ring, sweeping, swept

HEAT_BATH = -1.0  # in place of the probability of ties
SITES = 2**24  # at most: so many changes of a chain are counted exactly in float32
LARGE, FEW = 2**19, 8  # sites from which so few chains are torch's: vectors that are mostly empty do not fit the cache


def sweep(
    table: Tensor,
    rows: Rows,
    *,
    betas: Sequence[float],
    ties: float = HEAT_BATH,
    factors: Tensor | None = None,
    hops: Tensor | None = None,
) -> Tensor | None:
    """Moves chains of spins by a sweep at each inverse temperature, in place.

    A spin feels the local field J x + h. It is drawn from its law given the others, or flips by Metropolis et al.

    Args:
        table: the chains, each site one row of memory, `(d, B)`.
        rows: the couplings and fields.
        betas: of the sweeps.
        ties: how likely a Metropolis flip that costs nothing is; `HEAT_BATH` for none.
        factors: of each chain's temperatures, `(B,)`; 1 by default.
        hops: gets the number of spins that have changed in each sweep added, `(B,)`.

    Returns:
        A number for each chain, `(B,)`; NaN if one of the fields was. None where a kernel cannot do it.
    """
    if len(table) > SITES or (len(table) > LARGE and table.shape[1] < FEW):
        return None
    if not movable(table, rows) or (library := kernels()) is None:
        return None
    return swept(library, table, rows, betas=betas, setting=ties, factors=factors, hops=hops)


@functools.cache
def kernels() -> ctypes.CDLL | None:
    """The compiled kernel, after it has made sweeps that came out right; None where there is none."""
    return sweeping("ising_sweeps", _is_right, setting=ctypes.c_float)


def _is_right(library: ctypes.CDLL) -> bool:
    return _follows_signs(library) and _keeps_odds(library)


def _follows_signs(library: ctypes.CDLL) -> bool:
    """Whether the spins of a ring take the signs of local fields that are so large that nothing else is likely."""
    near, weights = ring()
    i = torch.arange(len(near), device="cpu")
    rows = Rows(i, 2 * i, near.flatten(), weights.flatten(), 5 * i.float() - 16)
    start = (torch.arange(len(near) * 37, device="cpu").view(-1, 37) % 5 % 2 * 2 - 1).float()
    for ties in (HEAT_BATH, 0.5):
        table, x, changes = start.clone(), start.clone(), torch.zeros_like(start[0])
        for _ in range(2):
            for k in range(len(near)):
                before = x[k].clone()
                x[k] = (weights[k] @ x[near[k]] + rows.fields[k]).sign()
                changes += before != x[k]
        finite, flips = called(library, table, rows, betas=[40.0, 50.0], setting=ties, seed=1)
        if not (torch.equal(table, x) and torch.equal(flips.float(), changes) and bool(finite.isfinite().all())):
            return False
    return True


def _keeps_odds(library: ctypes.CDLL) -> bool:
    """Whether spins without couplings are up as often as they must be, and a field that is NaN is told."""
    num_chains, cpu = 4096, torch.device("cpu")
    fields = torch.tensor([-torch.inf, -2, -0.5, 0, 0.1, 1, torch.inf, torch.nan], dtype=torch.float32, device=cpu)
    i, none = torch.arange(len(fields), device=cpu), torch.zeros(0, dtype=torch.int64, device=cpu)
    rows = Rows(i, torch.zeros_like(i), none, fields[:0], fields)
    for ties in (HEAT_BATH, 0.5):
        table = fields.new_ones(len(fields), num_chains)
        finite, _ = called(library, table, rows, betas=[0.7], setting=ties, seed=2)
        up = torch.sigmoid(1.4 * fields)
        if ties > 0:
            up = 1 - torch.where(fields == 0, ties, (-1.4 * fields).exp().clamp(max=1))
        if not bool((((table > 0).float().mean(1) - up).abs() < 0.04)[:-1].all() and finite.isnan().all()):
            return False
    return True
