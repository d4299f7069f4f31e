"""Normalised cut: little weight between two sides, relative to what each of them has (Shi & Malik, 2000)."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from ebmlab.domains import Spin
from ebmlab.energies import Energy, Ising
from ebmlab.energies.energy import Around
from ebmlab.errors import UserError
from ebmlab.graphs import Edges
from ebmlab.problems.problem import Problem, Solutions

EMPTY = 1e-6  # share of the volume below which a side has none: rounding
WORST = 2.0  # what no division exceeds, as a cut is at most the volume of each side


class CutShares(Energy):
    """E(x) = cut / vol(A) + cut / vol(B) on spins, A the nodes with x_i = +1; 2 where a side has no edges.

    The volume of a side is the sum of its nodes' weighted degrees. E is not quadratic, but all flips cost one product
    with the weights.

    Args:
        edges: the graph, with positive weights as entries.

    Example:
        >>> from ebmlab.graphs import lattice_edges
        >>> CutShares(lattice_edges(2, 1.0))(torch.tensor([[1.0, 1, -1, -1], [1, 1, 1, 1]])).tolist()
        [1.0, 2.0]
    """

    domains = (Spin,)

    def __init__(self, edges: Edges) -> None:
        super().__init__()
        edges = edges.checked("CutShares")
        self.graph, self.domain = Ising(edges), Spin(edges.size)
        degree = edges.values.new_zeros(edges.size).index_add_(0, edges.rows, edges.values)
        self.degree: Tensor
        self.register_buffer("degree", degree, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return self._shares(*self._parts(x)[:2])

    @torch.no_grad()
    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        cut, lead, pull = self._parts(x)
        value, total = self._shares(cut, lead), self.degree.to(x).sum()
        product = total.square() - lead.square()
        slope = 4 * total * (2 * cut * lead * self.degree.to(x) / product - pull / 2) / product
        return value, torch.where(self._empty(lead), 0.0, slope)

    @torch.no_grad()
    def flip_differences(self, x: Tensor, index: Tensor | None = None, around: Around | None = None) -> Tensor:
        """E(x with x_i turned round) - E(x), `(B, k)`."""
        cut, lead, pull = (part if part.dim() == 2 else part.unsqueeze(1) for part in self._parts(x))
        flipped = self._shares(cut + x * pull, lead - 2 * self.degree.to(x) * x, keep=True)
        differences = flipped - self._shares(cut, lead, keep=True)
        return differences if index is None else differences.gather(1, index)

    def empty(self, x: Tensor) -> Tensor:
        """Whether a side has no edges, `(B,)`."""
        return self._empty(self._parts(x)[1]).squeeze(1)

    def _parts(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The cut and vol(A) - vol(B), `(B, 1)`, and the weights times x, `(B, d)`."""
        pull, degree = self.graph.local_field(x), self.degree.to(x)
        cut = (degree.sum() - (x * pull).sum(1, keepdim=True)) / 4
        return cut, (degree * x).sum(1, keepdim=True), pull

    def _shares(self, cut: Tensor, lead: Tensor, keep: bool = False) -> Tensor:
        """The sum of the two shares, `(B,)`, or in the shape of the arguments."""
        total, empty = self.degree.to(cut).sum(), self._empty(lead)
        product = torch.where(empty, 1.0, total.square() - lead.square())
        shares = torch.where(empty, WORST, 4 * total * cut / product)
        return shares if keep else shares.squeeze(1)

    def _empty(self, lead: Tensor) -> Tensor:
        total = self.degree.to(lead).sum()
        return total - lead.abs() < 2 * EMPTY * total


class NormalisedCut(Problem):
    """E(x) = cut / vol(A) + cut / vol(B), the energy `CutShares`, to be made small.

    The penalty is for a side without edges: such a state has the energy 2, which no division exceeds. Decoding turns
    one node round there.

    Args:
        edges: the graph; its weights must be positive.

    Raises:
        UserError: a weight is not positive, there is no edge, or an entry of the graph is wrong.

    Example:
        >>> from ebmlab.graphs import lattice_edges
        >>> problem = NormalisedCut(lattice_edges(2, 1.0))
        >>> problem.decode(torch.tensor([[1, 1, -1, -1], [1, 1, 1, 1]])).value.tolist()
        [1.0, 1.3333333333333333]
    """

    goal = "min"
    unit: ClassVar[str] = "normalised cut"
    energy: CutShares

    def __init__(self, edges: Edges) -> None:
        edges = edges.checked("NormalisedCut")
        if len(edges.values) == 0 or not bool((edges.values > 0).all()):
            raise UserError("NormalisedCut: all weights of edges must be positive, and there must be an edge")
        self.energy = CutShares(edges)
        self._exact = CutShares(edges.with_values(edges.values.double()))

    @torch.no_grad()
    def decode(self, x: Tensor) -> Solutions:
        """The sides, 1 for x_i = +1, and their normalised cut; where a side has no edges, the best node changes it."""
        y = torch.where(x > 0, 1.0, -1.0).double()
        rows = self._exact.empty(y).nonzero().squeeze(1)
        y[rows, self._exact.flip_differences(y[rows]).argmin(1)] *= -1
        return Solutions((y > 0).to(torch.int8), self._exact(y))
