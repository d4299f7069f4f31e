"""Sweeps of Ising models by colours on a CPU, 64 chains in the bits of a word (`word_sweeps.cpp`)."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from ebmlab.native.library import threads, trusted
from ebmlab.native.plain import readable

CLASSES = 32  # sizes of a site's field, at most
AT_ONCE = 2**23  # words that a call of C++ redraws, or thresholds: a tenth of a second, in which no signal is heard
VECTOR = 8  # words, at most; wide tables are multiples of it, narrow ones divide it


@dataclass(frozen=True)
class Sites:
    """Sites of one colour, which are rows of the table side by side.

    Attributes:
        begin: the first row.
        total: what all pulls of a site add up to, at most 62.
        index: for each pull the rows it comes from, `(n, k)`, int64.
        masks: -1 where a pull is reversed, else 0, `(n, k)`, int64.
        bits: for each pull the binary logarithm of its size, `(n,)`, int64.
    """

    begin: int
    total: int
    index: Tensor
    masks: Tensor
    bits: Tensor


class _Group(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in ("begin", "size", "total", "pulls")),
        *((name, ctypes.c_void_p) for name in ("index", "masks", "bits")),
    ]


def by_kernel(device: torch.device) -> bool:
    """Whether chains there are swept by the kernel, and no compiler, tracer or mode looks on."""
    return device.type == "cpu" and readable() and kernel() is not None


def swept(
    words: Tensor, sites: Sequence[Sites], thresholds: NDArray[np.uint32], *, metropolis: bool, report: bool
) -> Tensor | None:
    """Sweeps words of chains in place, one colour after the other, and counts flips.

    Args:
        words: a bit for each chain, `(rows, W)`, int64.
        sites: of each colour.
        thresholds: 2^32 times a probability at each size of the field, 0, 2, 4... or 1, 3, 5..., `(sweeps, colours,
            CLASSES)`. That of a spin against its field, or with `metropolis` that of a flip of a spin along it.
        metropolis: spins against their field flip for certain.
        report: whether to count.

    Returns:
        The flips of each chain, `(64 W,)`, int64, if asked for.
    """
    library = kernel()
    assert library is not None
    width = words.shape[1]
    wide = next((power for power in (1, 2, 4) if width <= power), -(-width // VECTOR) * VECTOR)
    table = words.contiguous() if wide == width else pad(words, (0, wide - width))
    flips = torch.zeros(64 * wide, dtype=torch.int64, device="cpu") if report else None
    calls = -(-len(thresholds) * max(table.numel(), CLASSES * len(sites)) // AT_ONCE)
    for some in np.array_split(thresholds, max(1, min(calls, len(thresholds)))):
        seed = int(torch.randint(2**62, (), device="cpu"))
        _sweep(library, table, sites, some, metropolis=metropolis, seed=seed, flips=flips)
    if table is not words:
        words.copy_(table[:, :width])
    return None if flips is None else flips[: 64 * width]


def packed(x: Tensor, place: Tensor) -> Tensor:
    """Spins x `(B, d)`, float32, as words `(d + 1, W)`: site i in row `place[i]`, of `(d + 1,)`; the last row is 0."""
    library, x, (chains, size) = kernel(), x.resolve_neg().contiguous(), x.shape
    assert library is not None
    words = torch.empty(size + 1, -(-chains // 64), dtype=torch.int64, device="cpu")
    words[-1] = 0
    at = x.data_ptr(), chains, size, place.data_ptr(), words.data_ptr(), words.shape[1]
    library.pack(*at, threads(x.numel()))
    return words


def unpacked(words: Tensor, place: Tensor, num_chains: int) -> Tensor:
    """Spins `(B, d)`, float32: the inverse of `packed`."""
    library, words, size = kernel(), words.contiguous(), len(words) - 1
    assert library is not None
    x = torch.empty(num_chains, size, dtype=torch.float32, device="cpu")
    at = words.data_ptr(), words.shape[1], place.data_ptr(), x.data_ptr(), num_chains, size
    library.unpack(*at, threads(x.numel()))
    return x


def _sweep(
    library: ctypes.CDLL,
    table: Tensor,
    sites: Sequence[Sites],
    thresholds: NDArray[np.uint32],
    *,
    metropolis: bool,
    seed: int,
    flips: Tensor | None,
) -> None:
    groups = (_Group * len(sites))(*map(_group, sites))
    thresholds = np.ascontiguousarray(thresholds)
    counts, work = (None if flips is None else flips.data_ptr()), 9 * table.numel() / max(1, len(sites))
    at, steps = (table.data_ptr(), table.shape[1]), (thresholds.ctypes.data, len(thresholds))
    library.sweep(*at, groups, len(sites), *steps, metropolis, seed, counts, threads(work))


def _group(sites: Sites) -> _Group:
    pulls, size = sites.index.shape
    return _Group(
        sites.begin, size, sites.total, pulls, *(t.data_ptr() for t in (sites.index, sites.masks, sites.bits))
    )


@functools.cache
def kernel() -> ctypes.CDLL | None:
    """The compiled kernel, after spins at no temperature have followed their neighbours; None where there is none."""
    i, p, c = ctypes.c_int64, ctypes.c_void_p, ctypes.c_int
    return trusted(
        "word_sweeps",
        _follows,
        sweep=[p, i, p, i, p, i, c, ctypes.c_uint64, p, c],
        pack=[p, i, i, p, p, i, c],
        unpack=[p, i, p, p, i, i, c],
    )


def _follows(library: ctypes.CDLL) -> bool:
    """Whether spins at temperature 0 take the signs of their fields, and their flips are counted."""
    words = torch.arange(1, 15, device="cpu").view(7, 2).mul_(0x0123456789ABCDEF)
    index = torch.tensor([[0, 1], [1, 2], [3, 0]], device="cpu")
    masks = torch.tensor([[0, -1], [-1, 0], [0, 0]], device="cpu")
    sites = [Sites(4, 3, index, masks, torch.zeros(3, dtype=torch.int64, device="cpu"))]
    a, b, c = words[index] ^ masks.unsqueeze(2)
    table, flips = words.clone(), torch.zeros(128, dtype=torch.int64, device="cpu")
    thresholds = np.zeros((1, 1, CLASSES), np.uint32)
    _sweep(library, table, sites, thresholds, metropolis=False, seed=0, flips=flips)
    expected = words.clone()
    expected[4:6] = (a & b) | (b & c) | (a & c)
    changes = (words ^ expected).unsqueeze(2) >> torch.arange(64, device="cpu") & 1
    return torch.equal(table, expected) and torch.equal(flips, changes.sum(0).flatten())
