"""What a step adds to the reports of many chains on a CPU, in one pass over memory (`moves.cpp`)."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from functools import partial
from typing import cast

import torch
from torch import Tensor

from ebmlab.native.library import SUPPORTED, example, threads, trusted
from ebmlab.native.plain import readable

NANOSECONDS = 0.1  # for each number, about


class Moves:
    """Adds to sums `(B,)`, one number for each chain.

    Calls return False and add nothing if a tensor is no plain one in rows, or has another size.

    Args:
        library: the compiled kernel.
        sums: of float32.
    """

    def __init__(self, library: ctypes.CDLL, sums: Tensor) -> None:
        if not _in_rows(sums) or sums.dim() != 1:
            raise ValueError(f"Moves: sums {sums.dtype} {tuple(sums.shape)}, which must be one float32 for each chain")
        self._library, self._sums, self._seen = library, sums, cast(Tensor | None, None)
        self._chains, self._address = len(sums), sums.data_ptr()

    def add_distances(self, new: Tensor, old: Tensor) -> bool:
        """Adds Euclidean distances between states `(B, *event)`."""
        return self._suit(new, old) and self._add(self._library.add_distances, new, old.data_ptr())

    def add_changes(self, new: Tensor, old: Tensor) -> bool:
        """Adds how many numbers of states `(B, *event)` differ. Sums are exact up to 2^24."""
        return self._suit(new, old) and self._add(self._library.add_changes, new, old.data_ptr())

    def add_nan(self, numbers: Tensor) -> bool:
        """Adds NaN where a chain has one among its numbers `(B, n)`."""
        return _in_rows(numbers) and len(numbers) == self._chains and self._add(self._library.add_nan, numbers)

    def lengths_of(self, moves: Tensor) -> Callable[[], object]:
        """A function that adds the Euclidean lengths of columns of `moves` `(n, B)`, as they are when it is called."""
        if not _in_rows(moves) or moves.shape[1:] != self._sums.shape:
            raise ValueError(
                f"Moves: {moves.dtype} {tuple(moves.shape)} are no float32 of {self._chains} chains in columns"
            )
        return partial(self._add, self._library.add_lengths, moves)

    def _suit(self, new: Tensor, old: Tensor) -> bool:
        """Whether both are states that the kernel can read; `old` was checked before if it was the last `new`."""
        last, self._seen = self._seen, None
        if not (_in_rows(new) and len(new) == self._chains and new.shape == old.shape):
            return False
        if old is not last and not _in_rows(old):
            return False
        self._seen = new
        return True

    def _add(self, function: Callable[..., object], numbers: Tensor, *more: int) -> bool:
        count = numbers.numel()
        shared = threads(count * NANOSECONDS)
        function(numbers.data_ptr(), *more, self._chains, count // max(self._chains, 1), self._address, shared)
        return True


def moves(x: Tensor, sums: Tensor) -> Moves | None:
    """The kernel, if it can take states like x `(B, *event)` and sums `(B,)`; else None.

    Example:
        >>> sums = torch.zeros(2)
        >>> found = moves(torch.zeros(2, 16), sums)
        >>> found is None or (found.add_changes(torch.ones(2, 16), torch.zeros(2, 16)) and sums.tolist() == [16, 16])
        True
    """
    library = kernel() if SUPPORTED and readable(x, sums) else None
    return None if library is None else Moves(library, sums)


@functools.cache
def kernel() -> ctypes.CDLL | None:
    """The compiled kernel, after known sums have come out right; None where there is none."""
    i, p, n = ctypes.c_int64, ctypes.c_void_p, ctypes.c_int
    return trusted(
        "moves",
        _is_right,
        add_distances=[p, p, i, i, p, n],
        add_changes=[p, p, i, i, p, n],
        add_nan=[p, i, i, p, n],
        add_lengths=[p, i, i, p, n],
    )


def _in_rows(t: Tensor) -> bool:
    plain = type(t) is Tensor and t.dtype == torch.float32 and t.is_cpu and not t.is_neg()
    return plain and t.layout == torch.strided and t.is_contiguous()


def _is_right(library: ctypes.CDLL) -> bool:
    """Whether chains that fill some vectors and a part of one come out as in float64."""
    chains, size = 21, 37
    old, new = (example(2 * chains * size).view(2, chains, size) * 4).unbind()
    new = torch.where(new < 0, new, old)
    law = torch.where(
        torch.arange(size, device="cpu") == torch.arange(chains, device="cpu")[:, None] + 30, torch.nan, new
    )
    difference = new.double() - old.double()
    length = difference.square().sum(1).sqrt()
    known = [length, length, (difference != 0).sum(1).double(), law.double().sum(1) * 0]
    sums = [torch.ones(chains, device="cpu", dtype=torch.float32) for _ in known]
    found = [Moves(library, each) for each in sums]
    found[0].add_distances(new, old)
    found[1].lengths_of((new - old).T.contiguous())()
    found[2].add_changes(new, old)
    found[3].add_nan(law)
    pairs = zip(sums, known, strict=True)
    return all(torch.allclose(ours.double(), 1 + right, rtol=1e-5, equal_nan=True) for ours, right in pairs)
