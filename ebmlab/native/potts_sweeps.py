"""Sweeps of a Potts model by single sites on a CPU, of many chains at once (`potts_sweeps.cpp`)."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence

import torch
from torch import Tensor

from ebmlab.native.sweeps import Rows, called, movable, ring, sweeping, swept

VALUES = 64  # at most


def sweep(
    table: Tensor,
    rows: Rows,
    *,
    betas: Sequence[float],
    factors: Tensor | None = None,
    hops: Tensor | None = None,
) -> Tensor | None:
    """Redraws all sites of chains at each inverse temperature, in place.

    Value a of site i has probability proportional to the exponential of h_i(a) plus the sum of J_ij over the sites j of
    this value.

    Args:
        table: one-hot vectors of the chains, each site one row of memory, `(d, B, K)`.
        rows: the couplings and fields.
        betas: of the sweeps.
        factors: of each chain's temperatures, `(B,)`; 1 by default.
        hops: gets the number of sites that have changed in each sweep added, `(B,)`.

    Returns:
        A number for each chain, `(B,)`; NaN if one of the laws was not valid. None where a kernel cannot do it.
    """
    if table.shape[2] > VALUES or not movable(table, rows) or (library := kernels()) is None:
        return None
    return swept(library, table, rows, betas=betas, setting=table.shape[2], factors=factors, hops=hops)


@functools.cache
def kernels() -> ctypes.CDLL | None:
    """The compiled kernel, after it has made sweeps that came out right; None where there is none."""
    return sweeping("potts_sweeps", _is_right, setting=ctypes.c_int64)


def _is_right(library: ctypes.CDLL) -> bool:
    return _takes_highest(library) and _keeps_odds(library)


def _takes_highest(library: ctypes.CDLL) -> bool:
    """Whether the sites of a ring take the values whose fields are so much higher that nothing else is likely."""
    (near, weights), values = ring(), 3
    i = torch.arange(len(near), device="cpu")
    fields = ((i.unsqueeze(1) + i[:values]) % values * 3).float()  # no two sums are equal
    rows = Rows(i, 2 * i, near.flatten(), weights.flatten(), fields)
    start = torch.arange(len(near) * 37, device="cpu").view(-1, 37) % 5 % values
    one_hot = torch.eye(values, dtype=torch.float32, device="cpu")
    table, x, changes = one_hot[start], start.clone(), torch.zeros_like(start[0])
    for _ in range(2):
        for k in range(len(near)):
            pull = (weights[k].view(-1, 1, 1) * one_hot[x[near[k]]]).sum(0) + fields[k]
            changes += x[k] != pull.argmax(1)
            x[k] = pull.argmax(1)
    finite, flips = called(library, table, rows, betas=[40.0, 50.0], setting=values, seed=1)
    return torch.equal(table, one_hot[x]) and torch.equal(flips.long(), changes) and bool(finite.isfinite().all())


def _keeps_odds(library: ctypes.CDLL) -> bool:
    """Whether sites without couplings have each value as often as they must, and fields that are NaN are told."""
    num_chains, cpu = 4096, torch.device("cpu")
    fields = torch.tensor([[0, 1, -1], [2, -torch.inf, 1], [0, 0, torch.nan]], dtype=torch.float32, device=cpu)
    i, none = torch.arange(len(fields), device=cpu), torch.zeros(0, dtype=torch.int64, device=cpu)
    rows = Rows(i, torch.zeros_like(i), none, fields[:0, 0], fields)
    table = fields.new_zeros(len(fields), num_chains, 3)
    table[..., 2] = 1
    finite, _ = called(library, table, rows, betas=[0.7], setting=3, seed=2)
    errors = (table.mean(1) - (0.7 * fields).softmax(1))[:2].abs()
    return bool(errors.max() < 0.04) and bool(finite.isnan().all())
