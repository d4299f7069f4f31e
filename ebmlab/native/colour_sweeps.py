"""Sweeps of an Ising model by single spins on a CPU, of many chains at once (`colour_sweeps.cpp`)."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

from ebmlab.native.library import compiled
from ebmlab.native.plain import is_plain

HEAT_BATH = -1.0  # in place of the probability of ties
SITES = 2**24  # at most: so many changes of a chain are counted exactly in float32
SITE = 16  # couplings that take as long as what else a site takes
BURST = 2**31  # couplings of chains in a call, which takes 0.1 s; Python hears signals in between
BLOCK = 32  # chains that the kernel moves together, at most
LARGE, FEW = 2**19, 8  # sites from which so few chains are torch's: vectors that are mostly empty do not fit the cache


@dataclass(frozen=True)
class Rows:
    """A matrix J by rows, and h, in the order in which sites are moved. Those of one colour do not interact.

    Attributes:
        order: the site of each row, int64 `(d,)`.
        offsets: where the entries of each row begin, int64 `(d,)`.
        others: their columns, int64 `(n,)`.
        weights: the entries, float32 `(n,)`.
        fields: h, float32 `(d,)`.
    """

    order: Tensor
    offsets: Tensor
    others: Tensor
    weights: Tensor
    fields: Tensor


def sweep(
    table: Tensor, rows: Rows, *, betas: Sequence[float], ties: float = HEAT_BATH, hops: Tensor | None = None
) -> Tensor | None:
    """Moves chains of spins by a sweep at each inverse temperature, in place.

    A spin feels the local field J x + h. It is drawn from its law given the others, or flips by Metropolis et al.

    Args:
        table: the chains, each site one row of memory, `(d, B)`.
        rows: the couplings and fields.
        betas: of the sweeps.
        ties: how likely a Metropolis flip that costs nothing is; `HEAT_BATH` for none.
        hops: gets the number of spins that have changed in each sweep added, `(B,)`.

    Returns:
        A number for each chain, `(B,)`; NaN if one of the fields was. None where a kernel cannot do it.
    """
    if not _may_be_called(table, rows) or (library := kernels()) is None:
        return None
    total = torch.zeros_like(table[0])
    for chains, some in _bursts(rows, table.shape[1], betas):
        seed = int(torch.randint(2**62, (1,), device=table.device))
        finite, flips = _called(library, table[:, chains], rows, some, ties=ties, seed=seed, count=hops is not None)
        total[chains] += finite
        if hops is not None:
            hops[chains] += flips
    return total


def _may_be_called(table: Tensor, rows: Rows) -> bool:
    if torch.compiler.is_compiling() or is_in_torch_dispatch_mode() or len(table) > SITES:
        return False
    if len(table) > LARGE and table.shape[1] < FEW:
        return False
    return table.is_contiguous() and all(map(is_plain, (table, rows.weights, rows.fields)))


def _bursts(rows: Rows, num_chains: int, betas: Sequence[float]) -> Iterator[tuple[slice, Sequence[float]]]:
    """The chains and the temperatures of each call."""
    work = len(rows.weights) + SITE * len(rows.order)
    at_once = BLOCK * max(1, BURST // (work * BLOCK))
    for begin in range(0, num_chains, at_once):
        chains = slice(begin, min(begin + at_once, num_chains))
        sweeps = max(1, BURST // (work * max(BLOCK, chains.stop - begin)))
        for first in range(0, len(betas), sweeps):
            yield chains, betas[first : first + sweeps]


def _called(
    library: ctypes.CDLL,
    table: Tensor,
    rows: Rows,
    betas: Sequence[float],
    *,
    ties: float,
    seed: int,
    count: bool = True,
) -> tuple[Tensor, Tensor]:
    """Numbers `(B,)` that are not NaN where all fields were numbers, and how many spins have changed, int32 `(B,)`."""
    finite = table.new_zeros(table.shape[1])
    flips = torch.zeros_like(finite, dtype=torch.int32)
    temperatures = torch.tensor(betas, dtype=torch.float32, device=table.device)
    parts = (rows.order, rows.offsets, rows.others, rows.weights, rows.fields, temperatures)
    library.sweep(
        len(rows.order),
        len(rows.others),
        *(part.data_ptr() for part in parts),
        len(betas),
        ties,
        table.data_ptr(),
        table.stride(0),
        table.shape[1],
        finite.data_ptr(),
        flips.data_ptr() if count else None,
        seed,
        torch.get_num_threads(),
    )
    return finite, flips


@functools.cache
def kernels() -> ctypes.CDLL | None:
    """The compiled kernel, after it has made sweeps that came out right; None where there is none."""
    library = compiled(Path(__file__).with_suffix(".cpp"))
    if library is None:
        return None
    i, p, f = ctypes.c_int64, ctypes.c_void_p, ctypes.c_float
    library.sweep.argtypes = [i, i, p, p, p, p, p, p, i, f, p, i, i, p, p, ctypes.c_uint64, ctypes.c_int]
    library.sweep.restype = None
    return library if _follows_signs(library) and _keeps_odds(library) else None


def _follows_signs(library: ctypes.CDLL) -> bool:
    """Whether the spins of a ring take the signs of local fields that are so large that nothing else is likely."""
    sites, num_chains, cpu = 7, 37, torch.device("cpu")
    i = torch.arange(sites, device=cpu)
    weights = torch.tensor([90.0, -80.0, 70.0, -60.0, 50.0, -40.0, 30.0], device=cpu)
    others = torch.stack([(i + 1) % sites, (i - 1) % sites], 1).flatten()
    rows = Rows(i, 2 * i, others, torch.stack([weights, weights.roll(1)], 1).flatten(), 5.0 * (i - 3.2))
    start = torch.arange(sites * num_chains, device=cpu).view(sites, num_chains) % 5 % 2 * 2.0 - 1
    for ties in (HEAT_BATH, 0.5):
        table, x, changes = start.clone(), start.clone(), torch.zeros_like(start[0])
        for _ in range(2):
            for k in range(sites):
                before = x[k].clone()
                x[k] = (weights[k] * x[(k + 1) % sites] + weights[k - 1] * x[k - 1] + rows.fields[k]).sign()
                changes += before != x[k]
        finite, flips = _called(library, table, rows, [40.0, 50.0], ties=ties, seed=1)
        if not (torch.equal(table, x) and torch.equal(flips.float(), changes) and bool(finite.isfinite().all())):
            return False
    return True


def _keeps_odds(library: ctypes.CDLL) -> bool:
    """Whether spins without couplings are up as often as they must be, and a field that is NaN is told."""
    num_chains, cpu = 4096, torch.device("cpu")
    fields = torch.tensor([-torch.inf, -2.0, -0.5, 0.0, 0.1, 1.0, torch.inf, torch.nan], device=cpu)
    i, none = torch.arange(len(fields), device=cpu), torch.zeros(0, dtype=torch.int64, device=cpu)
    rows = Rows(i, torch.zeros_like(i), none, fields[:0], fields)
    for ties in (HEAT_BATH, 0.5):
        table = torch.ones(len(fields), num_chains, device=cpu)
        finite, _ = _called(library, table, rows, [0.7], ties=ties, seed=2)
        up = torch.sigmoid(1.4 * fields)
        if ties > 0:
            up = 1 - torch.where(fields == 0, ties, (-1.4 * fields).exp().clamp(max=1))
        if not bool((((table > 0).float().mean(1) - up).abs() < 0.04)[:-1].all() and finite.isnan().all()):
            return False
    return True
