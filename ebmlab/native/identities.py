"""At how many sites sequences differ, on a CPU (`identities.cpp`): which are alike, and how far the nearest is."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebmlab.native.library import threads, trusted

WIDTH = 64  # of a tile of sequences
MOST = 2**16 - 1  # sites whose number is counted
NANOSECONDS = 0.01  # for a site of a pair, about
BURST = 2**33  # sites of pairs that are compared between two looks at the clock, and for Ctrl-C

Letters = NDArray[np.uint8]


class AlikePairs:
    """Finds the pairs of alike sequences, some rows at a time.

    Args:
        library: the compiled kernel.
        values: `(N, d)`.
        least: at how many sites alike sequences agree, for each number of sites that count, `d + 1` numbers.
        gap: sites at which both have it do not count; None if all sites do. Some value is in no sequence then.

    Attributes:
        shape: of the values.
        counts: the pairs found so far and 1, of each sequence, `(N,)`.
    """

    def __init__(self, library: ctypes.CDLL, values: Letters, least: NDArray[np.int64], gap: int | None = None) -> None:
        self.shape = size, sites = values.shape
        self._library, self._rows, self._gap = library, np.ascontiguousarray(values), gap
        self._least = np.ascontiguousarray(least, np.int64)
        if gap is None:
            self._tiles = _tiles(self._rows)
            self._allowed = np.full(size, sites - self._least[sites], np.uint16)
        else:
            unused, gaps = np.setdiff1d(np.arange(256), self._rows)[0], self._rows == gap
            self._tiles = _tiles(np.where(gaps, np.uint8(unused), self._rows))
            self._allowed = (sites - self._least[sites - gaps.sum(1)]).astype(np.uint16)
        self.counts, self._parents = np.ones(size, np.int64), np.arange(size, dtype=np.int64)

    def find(self, first: int, last: int) -> None:
        """Compares each row from `first` to `last`, which is left out, with all that follow it."""
        size, sites = self._rows.shape
        numbers = None if self._gap is None else self._least.ctypes.data
        laws = self._allowed.ctypes.data, numbers, -1 if self._gap is None else self._gap
        found = self.counts.ctypes.data, self._parents.ctypes.data
        shared = threads((last - first) * size * sites * NANOSECONDS)
        self._library.find_alike(*_addresses(self._rows, self._tiles), size, sites, *laws, first, last, *found, shared)

    @property
    def groups(self) -> NDArray[np.int64]:
        """The least number of a sequence in each one's group, `(N,)`: alike ones are of one group."""
        parents = self._parents
        while not np.array_equal(parents, above := parents[parents]):
            parents = above
        return parents


def alike(values: Letters, least: NDArray[np.int64], gap: int | None = None) -> AlikePairs | None:
    """The kernel for sequences `(N, d)`, with the arguments of `AlikePairs`.

    None where there is none, or it cannot take them.
    """
    library = kernel() if values.size and values.shape[1] <= MOST else None
    if library is None or (gap is not None and len(np.unique(values)) == 256):
        return None
    return AlikePairs(library, values, least, gap)


def nearest(values: Letters, others: Letters) -> NDArray[np.int64] | None:
    """At how many sites each of values `(N, d)` differs from the nearest of others `(M, d)`, `(N,)`.

    It is d if there are no others. None where there is no kernel, or it cannot take them.
    """
    library = kernel() if values.size and values.shape[1] <= MOST else None
    return None if library is None else _nearest(library, values, others)


def _nearest(library: ctypes.CDLL, values: Letters, others: Letters) -> NDArray[np.int64]:
    rows, tiles = np.ascontiguousarray(values), _tiles(others)
    found, at_once = np.full(len(rows), rows.shape[1], np.uint16), max(64, BURST // max(1, others.size))
    for begin in range(0, len(rows), at_once):
        part, least = rows[begin : begin + at_once], found[begin : begin + at_once]
        shared = threads(len(part) * others.size * NANOSECONDS)
        of_part, of_tiles, of_least = _addresses(part, tiles, least)
        library.find_nearest(of_part, len(part), of_tiles, len(others), rows.shape[1], of_least, shared)
    return found.astype(np.int64)


@functools.cache
def kernel() -> ctypes.CDLL | None:
    """The compiled kernel, after known sequences have come out right; None where there is none."""
    i, p, n = ctypes.c_int64, ctypes.c_void_p, ctypes.c_int
    return trusted(
        "identities",
        _is_right,
        find_alike=[p, p, i, i, p, p, n, i, i, p, p, n],
        find_nearest=[p, i, p, i, i, p, n],
    )


def _tiles(values: Letters) -> Letters:
    """Sequences site by site, as the kernel reads them, `(tiles, d, WIDTH)`; behind the last are some of zeros."""
    size, sites = values.shape
    filled = np.zeros((-(-size // WIDTH) * WIDTH, sites), np.uint8)
    filled[:size] = values
    return np.ascontiguousarray(filled.reshape(-1, WIDTH, sites).transpose(0, 2, 1))


def _addresses(*arrays: NDArray[Any]) -> list[int]:
    return [array.ctypes.data for array in arrays]


def _is_right(library: ctypes.CDLL) -> bool:
    """Whether sequences of which each fifth is nearly the same come out as one by one."""
    size, sites = 150, 75
    values = (np.arange(size)[:, None] % 5 * np.arange(1, sites + 1) % 7).astype(np.uint8)
    values[np.arange(size), np.arange(size) % sites] = 9
    different = (values[:, None] != values).sum(2)
    alike = different < 3
    found = AlikePairs(library, values, np.array([0] * sites + [sites - 2]))
    for first in (0, 70):
        found.find(first, min(first + 70, size))
    found.find(140, size)
    known = np.array_equal(found.counts, alike.sum(1)) and np.array_equal(found.groups, alike.argmax(1))
    return known and np.array_equal(_nearest(library, values[:70], values[70:]), different[:70, 70:].min(1))
