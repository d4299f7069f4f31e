"""Symmetric matrices in half of the memory, which is what moments of pairs, their inverse and their gradient take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

import torch
from torch import Tensor

from ebmlab.native import add_product
from ebmlab.native.value_pairs import count_pairs

ROWS = 512  # of a block: as many make a product fast


class HalfMatrix:
    """A symmetric matrix `(n, n)` as blocks of rows, each from its first diagonal entry on.

    Zero at first.

    Args:
        size: n.
        like: a tensor on the device and in the precision of the entries.
        unit: the number of rows of a block is a multiple of it.

    Attributes:
        blocks: `(r, n - b)` each, where b is the number of its first row.

    Example:
        >>> matrix = HalfMatrix(3, torch.zeros(()))
        >>> matrix.add(torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([[1.0], [2.0], [3.0]]))
        >>> (matrix @ torch.ones(3, 1)).flatten().tolist()
        [6.0, 12.0, 18.0]
    """

    def __init__(self, size: int, like: Tensor, unit: int = 1) -> None:
        self.size, self.height = size, unit * max(1, ROWS // unit)
        starts = range(0, size, self.height)
        self.blocks = [like.new_zeros(min(self.height, size - b), size - b) for b in starts]

    @classmethod
    def of(cls, matrix: Tensor, unit: int = 1) -> Self:
        """Half of a symmetric matrix."""
        half = cls(0, matrix, unit)
        half.size = len(matrix)
        half.blocks = [matrix[rows, rows.start :].clone() for rows in half.slices()]
        return half

    def slices(self) -> list[slice]:
        """The rows of each block."""
        return [slice(b, min(b + self.height, self.size)) for b in range(0, self.size, self.height)]

    def __iter__(self) -> Iterator[tuple[slice, Tensor]]:
        """Each block with its rows."""
        return zip(self.slices(), self.blocks, strict=True)

    def add(self, left: Tensor, right: Tensor, factor: float = 1.0) -> None:
        """Adds a symmetric product `factor * left @ right.T` of matrices `(n, k)`."""
        for rows, block in self:
            add_product(block, left[rows], right[rows.start :].T, alpha=factor)

    def count(self, values: Tensor, weight: float | Tensor) -> None:
        """Adds the products of one-hot states whose values are known, `(d, B)`, as `count_pairs` counts them."""
        d, q = len(values), self.size // len(values)
        for rows, block in self:
            first, last, width = rows.start // q, rows.stop // q, block.shape[1]
            i, j = pairs = torch.cartesian_prod(*(torch.arange(first, n, device=block.device) for n in (last, d))).T
            places = (i - first) * (q * width) + (j - first) * q
            count_pairs(values, q, weight, pairs=pairs.T, places=places, out=block, width=width)

    def columns(self, number: int) -> Tensor:
        """The columns `(n, r)` whose numbers are those of the rows of a block; a copy."""
        own, block = self.slices()[number], self.blocks[number]
        above = [b[:, own.start - rows.start : own.stop - rows.start] for rows, b in list(self)[:number]]
        return torch.cat([*above, block[:, : len(block)], block[:, len(block) :].T])

    def __matmul__(self, x: Tensor) -> Tensor:
        """The product with a matrix `(n, k)`."""
        product = torch.zeros_like(x, memory_format=torch.contiguous_format)
        for rows, block in self:
            product[rows].addmm_(block, x[rows.start :])
            product[rows.stop :].addmm_(block[:, len(block) :].T, x[rows])
        return product

    def full(self) -> Tensor:
        """The matrix `(n, n)`."""
        return torch.cat([self.columns(k) for k in range(len(self.blocks))], 1)

    def plus_pairs(self, pairs: Tensor, entries: Tensor) -> HalfMatrix:
        """A copy with numbers added where two sites meet, on both sides of the diagonal.

        Args:
            pairs: as for `of_pairs`.
            entries: what is added, `(P, q, q)`.
        """
        copy, q = HalfMatrix(0, entries), entries.shape[1]
        copy.size, copy.height, copy.blocks = self.size, self.height, [block.clone() for block in self.blocks]
        for rows, block in copy:
            first, last = rows.start // q, rows.stop // q
            sites = block.view(last - first, q, -1, q)
            here = (pairs[:, 0] >= first) & (pairs[:, 0] < last)
            (i, j), added = (pairs[here] - first).T, entries[here]
            sites[i, :, j] += added
            inside = j < last - first
            sites[j[inside], :, i[inside]] += added[inside].mT
        return copy

    def of_pairs(self, pairs: Tensor, values: int, minus: HalfMatrix | None = None) -> Tensor:
        """Its entries `(P, q, q)` where the q rows of one site meet the q columns of another one.

        Args:
            pairs: of sites, `(P, 2)`, the smaller site first.
            values: q, the `unit` of the matrix.
            minus: a matrix of the same size whose entries are taken off; None for none.
        """
        if pairs.device.type != "cpu":  # a GPU would have to say where blocks begin and end
            full = self.full() if minus is None else self.full().sub_(minus.full())
            i, j = pairs.T
            return full.view(self.size // values, values, -1, values)[i, :, j]
        if (pairs[1:, 0] < pairs[:-1, 0]).any():  # as a checkpoint may hold them
            order = pairs[:, 0].argsort()
            return self.of_pairs(pairs[order], values, minus)[order.argsort()]
        found = self.blocks[0].new_empty(len(pairs), values, values)
        ends = torch.searchsorted(pairs[:, 0].contiguous(), pairs.new_tensor([r.stop // values for r in self.slices()]))
        others = [None] * len(self.blocks) if minus is None else minus.blocks
        firsts = [0, *ends.tolist()]
        for (rows, block), other, first, last in zip(self, others, firsts, firsts[1:], strict=False):
            block = block if other is None else block - other
            i, j = (pairs[first:last] - rows.start // values).T
            found[first:last] = block.view(len(block) // values, values, -1, values)[i, :, j]
        return found
