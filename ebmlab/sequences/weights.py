"""Weights of sequences by identity (Morcos et al. 2011, Eq. 8), and their sum, the effective number of sequences."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ebmlab.errors import UserError
from ebmlab.io.progress import Meter
from ebmlab.native import identities

ROWS, COLUMNS = 16, 4096  # pairs that are compared at once, whose counts stay in the cache


def sequence_weights(
    values: Tensor, identity: float | None = 0.8, *, gap: int | None = None, progress: bool = False
) -> Tensor:
    """One over the number of sequences that are alike to each sequence, itself included.

    Two sequences are alike if they agree in more than the share `identity` of the sites that count, or in all of them.
    The comparison is exact: a share at the threshold is not above it.

    Args:
        values: `(N, d)`, whole numbers from 0 to 255.
        identity: the threshold, from 0 to 1; None gives all weights 1.
        gap: the value of gaps. Sites at which both sequences have it do not count. By default all sites do, and two
            gaps agree.
        progress: show a progress bar on stderr if it takes long.

    Returns:
        `(N,)`, float64.

    Example:
        >>> sequence_weights(torch.tensor([[0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 6], [0, 1, 2, 9, 9, 9]]))
        tensor([0.5000, 0.5000, 1.0000], dtype=torch.float64)
        >>> sequence_weights(torch.tensor([[0, 0, 1, 2], [0, 0, 1, 3]]), 0.6, gap=0)  # they agree in one of two
        tensor([1., 1.], dtype=torch.float64)
    """
    if identity is None:
        return torch.ones(len(values), dtype=torch.float64)
    return compare(values, identity, gap=gap, progress=progress).weights


def effective_number(weights: Tensor) -> float:
    """The sum of the weights, often called Meff.

    Example:
        >>> effective_number(torch.tensor([0.5, 0.5, 1.0]))
        2.0
    """
    return float(weights.double().sum())


@dataclass(frozen=True)
class Alike:
    """Which sequences are alike; see `sequence_weights`.

    Attributes:
        counts: how many are alike to each, itself included, `(N,)`, int64.
        groups: the number of each sequence's group, `(N,)`, int64: sequences of two groups are never alike.
    """

    counts: Tensor
    groups: Tensor

    @property
    def weights(self) -> Tensor:
        """`(N,)`, float64."""
        return 1 / self.counts.double()


def compare(values: Tensor, identity: float, *, gap: int | None = None, progress: bool = False) -> Alike:
    """Compares each pair of sequences once, in blocks. The memory is that of the sequences and of a few blocks.

    Arguments as in `sequence_weights`.
    """
    if not 0 <= identity <= 1:
        raise UserError(f"identity is {identity}, but must be from 0 to 1, or none")
    share = Fraction(str(identity))
    # sites at which alike sequences agree, by the number of sites that count
    least = np.array([min(n, math.floor(share * n) + 1) for n in range(values.shape[1] + 1)])
    letters = values.to(torch.uint8).cpu().numpy()
    found = identities.alike(letters, least, gap)
    counts, groups = _by_numpy(letters, least, gap, progress) if found is None else _by_kernel(found, progress)
    return Alike(torch.from_numpy(counts), torch.from_numpy(np.unique(groups, return_inverse=True)[1]))


def _by_kernel(found: identities.AlikePairs, progress: bool) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How many are alike to each sequence, and the least number in its group."""
    size, sites = found.shape
    rows = max(64, identities.BURST // (size * sites))
    starts = range(0, size, rows)
    for first in Meter("comparing sequences", "block", len(starts), shown=progress).along(starts):
        found.find(first, min(first + rows, size))
    return found.counts, found.groups


def _by_numpy(
    letters: NDArray[np.uint8], least: NDArray[np.int64], gap: int | None, progress: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """As `_by_kernel`, where no compiler is at hand."""
    size, by_site = len(letters), np.ascontiguousarray(letters.T)
    counts, groups = np.zeros(size, np.int64), np.arange(size)
    starts = range(0, size, ROWS)
    for first in Meter("comparing sequences", "block", len(starts), shown=progress).along(starts):
        rows = by_site[:, first : first + ROWS]
        pairs = []
        for begin in range(first, size, COLUMNS):
            alike = _alike(rows, by_site[:, begin : begin + COLUMNS], least, gap)
            counts[first : first + ROWS] += alike.sum(1)
            others = alike[:, ROWS:] if begin == first else alike  # the pairs among the rows themselves count once
            counts[begin + alike.shape[1] - others.shape[1] : begin + alike.shape[1]] += others.sum(0)
            pairs.append(np.argwhere(alike) + np.array([first, begin]))
        groups = _joined(groups, np.concatenate(pairs))
    return counts, groups


def nearest_distances(values: Tensor, others: Tensor) -> Tensor:
    """At how many sites each sequence differs from the nearest of others, `(N,)`, int64.

    Args:
        values: `(N, d)`, whole numbers from 0 to 255.
        others: `(M, d)`.
    """
    mine, its = (x.to(torch.uint8).cpu().numpy() for x in (values, others))
    found = identities.nearest(mine, its)
    if found is not None:
        return torch.from_numpy(found)
    mine, its = (np.ascontiguousarray(x.T) for x in (mine, its))
    most = np.zeros(len(values), np.int64)
    for first in range(0, len(values), ROWS):
        part = most[first : first + ROWS]
        for begin in range(0, len(others), COLUMNS):
            agree = _matches(mine[:, first : first + ROWS], its[:, begin : begin + COLUMNS]).max(1)
            np.maximum(part, agree, out=part)
    return torch.from_numpy(values.shape[1] - most)


def _joined(groups: NDArray[np.int64], pairs: NDArray[np.int64]) -> NDArray[np.int64]:
    """The groups after those of each pair have become one, under the smallest of their numbers."""
    pairs = groups[pairs[pairs[:, 0] != pairs[:, 1]]]
    pairs = np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)
    if not len(pairs):
        return groups
    size = len(groups)
    from scipy.sparse import csr_matrix  # here, because few need it
    from scipy.sparse.csgraph import connected_components

    _, label = connected_components(csr_matrix((np.ones(len(pairs)), pairs.T), (size, size)), directed=False)
    smallest = np.full(label.max() + 1, size)
    np.minimum.at(smallest, label, np.arange(size))
    joined: NDArray[np.int64] = smallest[label][groups]
    return joined


def _alike(
    rows: NDArray[np.uint8], columns: NDArray[np.uint8], least: NDArray[np.int64], gap: int | None
) -> NDArray[np.bool_]:
    """Which sequences are alike, `(R, C)`."""
    matches = _matches(rows, columns)
    if gap is None:
        found: NDArray[np.bool_] = matches >= least[-1]
        return found
    gaps = ((rows == gap).astype(np.float32).T @ (columns == gap).astype(np.float32)).astype(np.int64)  # at both
    without: NDArray[np.bool_] = matches - gaps >= least[len(rows) - gaps]
    return without


def _matches(rows: NDArray[np.uint8], columns: NDArray[np.uint8]) -> NDArray[Any]:
    """The number of sites at which sequences agree, `(R, C)`, from `(d, R)` and `(d, C)`."""
    shape = rows.shape[1], columns.shape[1]
    total: NDArray[Any] = np.zeros(shape, np.uint8 if len(rows) < 256 else np.uint16)
    equal = np.empty(shape, np.bool_)
    for mine, its in zip(rows, columns, strict=True):
        np.equal(mine[:, None], its, out=equal)
        total += equal.view(np.uint8)
    return total
