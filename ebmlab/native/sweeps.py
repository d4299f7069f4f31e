"""What kernels of sweeps by single sites read, and how they are called (`sweeps.hpp`)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ebmlab.native.library import threads, trusted
from ebmlab.native.plain import readable, within

SITE = 16  # couplings that take as long as what else a site takes
BURST = 2**31  # couplings of chains in a call, which takes 0.1 s; Python hears signals in between
COPY = 2  # sweeps that take as long as to read the chains and to write them
BLOCK = 32  # chains that a kernel moves together, at most


@dataclass(frozen=True)
class Rows:
    """A matrix J by rows, and h, in the order in which sites are moved. Those of one colour do not interact.

    Attributes:
        order: the site of each row, int64 `(d,)`.
        offsets: where the entries of each row begin, int64 `(d,)`.
        others: their columns, int64 `(n,)`.
        weights: the entries, float32 `(n,)`.
        fields: h, float32 `(d,)`, or `(d, K)` for K values.
    """

    order: Tensor
    offsets: Tensor
    others: Tensor
    weights: Tensor
    fields: Tensor


def movable(table: Tensor, rows: Rows) -> bool:
    """Whether a kernel may move these chains. Torch says what is wrong with columns that do not exist."""
    if not readable(table, rows.weights, rows.fields):
        return False
    return table.is_contiguous() and rows.fields.is_contiguous() and within(rows.others, len(table))


def swept(
    library: ctypes.CDLL,
    table: Tensor,
    rows: Rows,
    *,
    betas: Sequence[float],
    setting: float,
    factors: Tensor | None = None,
    hops: Tensor | None = None,
) -> Tensor:
    """Moves chains by a sweep at each inverse temperature, in place, in calls of 0.1 s.

    Args:
        library: of `sweeping`.
        table: the chains, each site one row of memory, `(d, B)` or `(d, B, K)`.
        rows: the couplings and fields.
        betas: of the sweeps.
        setting: what this kernel asks for.
        factors: of each chain's temperatures, `(B,)`; 1 by default.
        hops: gets the number of sites that have changed in each sweep added, `(B,)`.

    Returns:
        A number for each chain, `(B,)`; NaN if one of the fields was.
    """
    total = table.new_zeros(table.shape[1])
    factors = torch.ones_like(total) if factors is None else factors.detach().to(total).contiguous()
    for chains, some in _bursts(rows, table.shape[1], betas):
        seed = int(torch.randint(2**62, (1,), device=table.device))
        finite, flips = called(
            library,
            table[:, chains],
            rows,
            betas=some,
            setting=setting,
            seed=seed,
            factors=factors[chains],
            count=hops is not None,
        )
        total[chains] += finite
        if hops is not None:
            hops[chains] += flips
    return total


def _bursts(rows: Rows, num_chains: int, betas: Sequence[float]) -> Iterator[tuple[slice, Sequence[float]]]:
    """The chains and the temperatures of each call."""
    work = (len(rows.weights) + SITE * len(rows.order)) * rows.fields.shape[1:].numel()
    at_once = BLOCK * max(1, BURST // ((1 + COPY) * work * BLOCK))
    for begin in range(0, num_chains, at_once):
        chains = slice(begin, min(begin + at_once, num_chains))
        sweeps = max(1, BURST // (work * max(BLOCK, chains.stop - begin)) - COPY)
        for first in range(0, len(betas), sweeps):
            yield chains, betas[first : first + sweeps]


def called(
    library: ctypes.CDLL,
    table: Tensor,
    rows: Rows,
    *,
    betas: Sequence[float],
    setting: float,
    seed: int,
    factors: Tensor | None = None,
    count: bool = True,
) -> tuple[Tensor, Tensor]:
    """Runs the kernel. Returns numbers `(B,)` that are NaN where a field was, and counts of changes, int32 `(B,)`."""
    finite = table.new_zeros(table.shape[1])
    factors = torch.ones_like(finite) if factors is None else factors
    flips = torch.zeros_like(finite, dtype=torch.int32)
    temperatures = torch.tensor(betas, dtype=torch.float32, device=table.device)
    parts = (rows.order, rows.offsets, rows.others, rows.weights, rows.fields, temperatures)
    library.sweep(
        len(rows.order),
        len(rows.others),
        *(part.data_ptr() for part in parts),
        len(betas),
        setting,
        table.data_ptr(),
        table.stride(0),
        table.shape[1],
        factors.data_ptr(),
        finite.data_ptr(),
        flips.data_ptr() if count else None,
        seed,
        threads(table.numel() * len(betas)),
    )
    return finite, flips


def sweeping(name: str, check: Callable[[ctypes.CDLL], bool], *, setting: type) -> ctypes.CDLL | None:
    """The library of a kernel; None where there is none, or it fails its check.

    Args:
        name: of its file, without the ending.
        check: whether sweeps that are known come out right.
        setting: the C type of what it asks for.
    """
    i, p = ctypes.c_int64, ctypes.c_void_p
    types = [i, i, p, p, p, p, p, p, i, setting, p, i, i, p, p, p, ctypes.c_uint64, ctypes.c_int]
    return trusted(name, check, sweep=types)


def ring() -> tuple[Tensor, Tensor]:
    """Neighbours and couplings, `(7, 2)` each, of a ring of seven sites, on which kernels are checked."""
    i = torch.arange(7, device="cpu")
    weights = torch.tensor([90, -80, 70, -60, 50, -40, 30], dtype=torch.float32, device="cpu")
    return torch.stack([(i + 1) % 7, (i - 1) % 7], 1), torch.stack([weights, weights.roll(1)], 1)
