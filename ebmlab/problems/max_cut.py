"""Max-cut: two sides of a graph with as much weight as possible on the edges between them."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from ebmlab.energies import Ising
from ebmlab.exchange.foreign import exact
from ebmlab.graphs import Edges
from ebmlab.problems.problem import Problem, Solutions


class MaxCut(Problem):
    """E(x) = sum over edges of w_ij x_i x_j on spins, so that the cut is (sum w - E) / 2. Every state is feasible.

    Args:
        edges: the graph, with the weights w as entries.

    Raises:
        UserError: an entry of the graph is wrong.

    Example:
        >>> from ebmlab.graphs import lattice_edges
        >>> problem = MaxCut(lattice_edges(2, 1.0))
        >>> problem.decode(torch.tensor([[1, -1, -1, 1], [1, 1, -1, -1]])).value.tolist()
        [4.0, 2.0]
    """

    unit: ClassVar[str] = "cut"
    energy: Ising

    def __init__(self, edges: Edges) -> None:
        edges = edges.checked("MaxCut")
        self.energy = Ising(edges.with_values(-edges.values))
        self.total = float(edges.values.double().sum()) / 2

    @torch.no_grad()
    def decode(self, x: Tensor) -> Solutions:
        """The sides, and the weight of the edges between them."""
        return Solutions((x > 0).to(torch.int8), (self.total - exact(self.energy, x)) / 2)
