"""Means and covariances of the sites of weighted states, which is all that a pairwise model sees of its data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Self

import torch
from torch import Tensor

from ebmlab.energies.energy import Energy
from ebmlab.energies.pairwise.half_matrix import HalfMatrix
from ebmlab.energies.weighted_sum import WeightedSum
from ebmlab.native.value_pairs import COUNTS, count_pairs, count_sites, values_of

AT_ONCE = 1000  # states that become floats at a time
COUNTED = 2**14  # states that are counted at a time


class Moments(NamedTuple):
    """The mean f_i(a) and the mean f_ij(a, b) of products, of one-hot states or of spins.

    Attributes:
        one: `(d q,)`, or `(d,)` of spins.
        two: `(d q, d q)`, or `(d, d)`; a site with itself included.
        values: q, or 1 of spins.
    """

    one: Tensor
    two: HalfMatrix
    values: int

    @classmethod
    def zero(cls, shape: tuple[int, ...], like: Tensor) -> Self:
        """Those of no states yet.

        Args:
            shape: of a state: `(d, q)` of one-hot vectors, `(d,)` of spins.
            like: a tensor on their device and in their precision.
        """
        size, values = torch.Size(shape).numel(), shape[1] if len(shape) == 2 else 1
        return cls(like.new_zeros(size), HalfMatrix(size, like, values), values)

    def add(self, x: Tensor, weight: Tensor | float = 1.0) -> None:
        """Adds states `(N, ...)` of any type, with a weight each, `(N,)`, or one for all."""
        for part, own in _batches(x, weight, COUNTED):
            if (values := _values(part, self.one)) is None:
                self._add_products(part, own)
                continue
            self.one.add_(count_sites(values, self.values, own, dtype=self.one.dtype).flatten())
            self.two.count(values, own)

    def _add_products(self, x: Tensor, weight: Tensor | float) -> None:
        for part, own in _batches(x, weight, AT_ONCE):
            part = part.flatten(1).to(self.one)
            weighted, factor = (part * own.to(part).unsqueeze(1), 1.0) if isinstance(own, Tensor) else (part, own)
            self.one.add_(weighted.sum(0), alpha=factor)
            self.two.add(weighted.T, part.T, factor)

    def scale_(self, factor: float) -> Self:
        """Multiplies all of them."""
        for part in (self.one, *self.two.blocks):
            part.mul_(factor)
        return self

    def mix_(self, pseudo_count: float) -> Self:
        """Mixes in a share of the uniform law."""
        q = self.values
        uniform, itself = (1 / q if q > 1 else 0.0), 1 / q
        self.scale_(1 - pseudo_count).one.add_(pseudo_count * uniform)
        for block in self.two.blocks:
            block.add_(pseudo_count * uniform**2)
            own = block.unfold(0, q, q).unfold(1, q, q).diagonal()  # (q, q, sites): each site with itself
            own.sub_(pseudo_count * uniform**2).diagonal().add_(pseudo_count * itself)
        return self

    def covariances(self) -> Iterator[Tensor]:
        """f_ij(a, b) - f_i(a) f_j(b) of each site i, and all later sites j, `(q, n)`."""
        q = self.values
        for rows, block in self.two:
            for begin in range(0, len(block), q):
                first = rows.start + begin
                part = block[begin : begin + q, begin + q :].clone()
                yield part.addr_(self.one[first : first + q], self.one[first + q :], alpha=-1)


def half_moments(
    x: Tensor, weights: Tensor | None = None, pseudo_count: float = 0.0, *, dtype: torch.dtype | None = None
) -> Moments:
    """`moments`, in half of the memory."""
    found = Moments.zero(tuple(x.shape[1:]), x[:0].to(dtype or x.dtype))
    found.add(x, 1 / len(x) if weights is None else weights / weights.sum())
    return found.mix_(pseudo_count) if pseudo_count else found


def moments(
    x: Tensor, weights: Tensor | None = None, pseudo_count: float = 0.0, *, dtype: torch.dtype | None = None
) -> tuple[Tensor, Tensor]:
    """The weighted mean f_i(a) and the weighted mean f_ij(a, b) of products, of one-hot states or of spins.

    A pseudo-count of lambda mixes in the uniform law: (1 - lambda) f + lambda u (Morcos et al. 2011, Eq. S1 and S2).
    Their lambda is a number of sequences. Here it is a share, as in adabmDCA.

    Args:
        x: one-hot states `(N, d, q)`, or numbers `(N, d)` on a Spin domain.
        weights: `(N,)`; all alike when None. They need not be normalised.
        pseudo_count: lambda, from 0 to 1.
        dtype: of the sums; by default that of x.

    Returns:
        `(d q,)` and `(d q, d q)`, or `(d,)` and `(d, d)`; a site with itself included.
    """
    one, two, _ = half_moments(x, weights, pseudo_count, dtype=dtype)
    return one, two.full()


def connected(x: Tensor, weights: Tensor | None = None, pseudo_count: float = 0.0) -> Tensor:
    """C_ij(a, b) = f_ij(a, b) - f_i(a) f_j(b) of all pairs i < j and all values, `(n,)`; arguments as in `moments`."""
    found = half_moments(x, weights, pseudo_count)
    q = found.values
    return torch.cat([part.view(q, -1, q).transpose(0, 1).flatten() for part in found.covariances()])


def _batches(x: Tensor, weight: Tensor | float, size: int) -> Iterator[tuple[Tensor, Tensor | float]]:
    """States and their weights, some at a time."""
    for begin in range(0, len(x), size):
        own = weight[begin : begin + size] if isinstance(weight, Tensor) else weight
        yield x[begin : begin + size], own


def _values(x: Tensor, sums: Tensor) -> Tensor | None:
    """The values of states `(d, B)` if a kernel can count them, and add them to sums; else None."""
    return values_of(x) if sums.device.type == "cpu" and sums.dtype in COUNTS else None


class PottsSum(WeightedSum):
    """The weighted sum of energies of a Potts model, from the sums of [x_i = a] and of [x_i = a][x_j = b] alone."""

    def __init__(self, energy: Energy, pairs: Tensor, coupling: Tensor, field: Tensor, dense: bool) -> None:
        self._energy, self._pairs, self._coupling, self._field = energy, pairs, coupling, field
        self._all = Moments.zero(tuple(field.shape), field.detach()) if dense else None
        self._one, self._two = field.new_zeros(field.shape), coupling.new_zeros((0, 0, 0) if dense else coupling.shape)

    @torch.no_grad()
    def add(
        self, x: Tensor, hidden: Tensor | None = None, inputs: Tensor | None = None, weight: float | Tensor = 1.0
    ) -> None:
        if hidden is not None:
            raise TypeError(f"{type(self._energy).__name__} has no hidden units")
        if self._all is not None:
            self._all.add(x, weight)
            return
        if (values := _values(x, self._two)) is not None:
            q = x.shape[2]
            self._one += count_sites(values, q, weight, dtype=self._one.dtype)
            places = torch.arange(0, self._two.numel(), q * q, device=x.device)
            count_pairs(values, q, weight, pairs=self._pairs, places=places, out=self._two, width=q)
            return
        x = x.to(self._field)
        factor = weight.to(x).view(-1, 1, 1) if isinstance(weight, Tensor) else weight
        self._one += (x * factor).sum(0)
        each, weighted = x.transpose(0, 1), (x * factor).transpose(0, 1)
        at_once = max(1, 2**24 // max(1, each[0].numel()))
        for pairs, two in zip(torch.split(self._pairs, at_once), torch.split(self._two, at_once), strict=True):
            two += weighted[pairs[:, 0]].mT @ each[pairs[:, 1]]

    def value(self) -> Tensor:
        one, two = self._one, self._two
        if self._all is not None:
            one, two = self._all.one.view_as(one), self._all.two.of_pairs(self._pairs, self._all.values)
        return -(self._coupling * two).sum() - (self._field * one).sum()
