"""Maximum clique: as many nodes of a graph as possible, all of them joined."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from ebmlab.domains import Binary
from ebmlab.energies import Energy
from ebmlab.energies.energy import Around
from ebmlab.errors import UserError
from ebmlab.graphs import Edges
from ebmlab.problems.problem import Problem, Solutions, joined

LARGEST = 4096  # nodes, with more of which a sweep over all groups takes too long


class MissingEdges(Energy):
    """E(x) = -|S| + penalty * (pairs within S that are not joined), x_i = 1 for the nodes of S.

    The pairs are |S| (|S| - 1) / 2 less the edges within S, so that the complement of the graph is never made. Nodes
    that are joined do not interact: groups of them are the colours of `ChromaticGibbs`.

    Args:
        edges: the graph; its weights do not count.
        penalty: of a pair within S that is not joined.

    Example:
        >>> from ebmlab.graphs import lattice_edges
        >>> MissingEdges(lattice_edges(2, 1.0))(torch.tensor([[1, 1, 0, 0], [1, 0, 0, 1]])).tolist()
        [-2.0, -1.0]
    """

    domains = (Binary,)

    def __init__(self, edges: Edges, penalty: float = 1.0) -> None:
        super().__init__()
        self.graph = joined(edges.checked("MissingEdges"))
        self.domain = Binary(edges.size)
        self.penalty = penalty
        self._colours: list[Tensor] | None = None

    def slope(self, x: Tensor) -> Tensor:
        """dE/dx `(B, d)` of the energy as a function that is linear in each x_i."""
        missing: Tensor = x.sum(1, keepdim=True) - x - self.graph.local_field(x)
        return missing.mul_(self.penalty).sub_(1)

    def forward(self, x: Tensor) -> Tensor:
        return self._energy(x, self.slope(x))

    @torch.no_grad()
    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        slope = self.slope(x)
        return self._energy(x, slope), slope

    def around(self, x: Tensor) -> Around:
        """E(x) `(B,)` and its slope `(B, d)`."""
        slope = self.slope(x)
        return self._energy(x, slope), slope

    def flip_differences(self, x: Tensor, index: Tensor | None = None, around: Around | None = None) -> Tensor:
        """(1 - 2 x_i) dE/dx_i, `(B, k)`: exact, since E is linear in each bit."""
        differences = (1 - 2 * x) * (around[1] if around else self.slope(x))
        return differences if index is None else differences.gather(1, index)

    @property
    def colours(self) -> list[Tensor] | None:
        """Groups of nodes that are all joined, so that they do not interact; None if there are too many nodes."""
        if self._colours is None and self.domain.size <= LARGEST:
            self._colours = [nodes.to(self.graph.field.device) for nodes in cliques(self.graph.edges())]
        return self._colours

    def conditional(self, x: Tensor, sites: Tensor) -> Tensor:
        """Log of the odds of x_i = 1 given the rest, for the sites of one colour, `(B, k)`."""
        missing = x.sum(1, keepdim=True) - x[:, sites] - self.graph.local_field(x, sites)
        return 1 - self.penalty * missing

    def _energy(self, x: Tensor, slope: Tensor) -> Tensor:
        return (x * (slope - 1)).sum(1) / 2  # each missing pair is in the slopes of both its nodes


def cliques(edges: Edges) -> list[Tensor]:
    """Divides a graph into cliques: each node joins the first one whose nodes are all its neighbours.

    Example:
        >>> from ebmlab.graphs import lattice_edges
        >>> [nodes.tolist() for nodes in cliques(lattice_edges(2, 1.0))]
        [[0, 1], [2, 3]]
    """
    group, sizes = torch.full((edges.size,), -1), torch.zeros(edges.size + 1, dtype=torch.int64)
    degrees = torch.bincount(edges.rows, minlength=edges.size)
    for node, neighbours in enumerate(torch.split(edges.columns.cpu(), degrees.tolist())):
        there = group[neighbours]
        shared = torch.bincount(there[there >= 0], minlength=len(sizes))
        chosen = int((shared == sizes).int().argmax())  # an empty group is always found
        group[node] = chosen
        sizes[chosen] += 1
    return [(group == k).nonzero().squeeze(1) for k in range(int(group.max()) + 1)]


class Clique(Problem):
    """-|S| + penalty * (pairs within S that are not joined), the energy `MissingEdges`.

    Penalties of at least 1 are enough, as for `IndependentSet`.

    Args:
        edges: the graph; its weights do not count.
        penalty: of a pair within S that is not joined.

    Raises:
        UserError: the penalty is below 1, or an entry of the graph is wrong.

    Example:
        >>> from ebmlab.graphs import lattice_edges
        >>> Clique(lattice_edges(2, 1.0)).decode(torch.tensor([[1, 1, 1, 0], [0, 0, 0, 0]])).value.tolist()
        [2.0, 2.0]
    """

    unit: ClassVar[str] = "nodes, all joined"
    energy: MissingEdges

    def __init__(self, edges: Edges, *, penalty: float = 1.0) -> None:
        if not 1 <= penalty < float("inf"):
            raise UserError(f"Clique: penalty is {penalty}, but must be at least 1: below, nodes apart would pay")
        self.energy = MissingEdges(edges.checked("Clique"), penalty)

    @torch.no_grad()
    def decode(self, x: Tensor) -> Solutions:
        """Cliques that no node can be added to.

        While pairs are missing, the node that misses most of them is dropped. Then, while nodes are joined to all
        others, the one with the most neighbours is added.
        """
        y, degree = self.energy.as_states(x).clone(), self.energy.graph.local_field(x.new_ones(1, x.shape[1]).float())
        rows = torch.arange(len(y))
        while True:
            missing = y * (y.sum(1, keepdim=True) - y - self.energy.graph.local_field(y))
            most = missing.max(1)
            if not bool((bad := most.values > 0).any()):
                break
            y[rows[bad], most.indices[bad]] = 0
        while True:
            free = (y == 0) & (self.energy.graph.local_field(y) == y.sum(1, keepdim=True))
            if not bool((some := free.any(1)).any()):
                break
            best = torch.where(free, degree, -1).argmax(1)
            y[rows[some], best[some]] = 1
        return Solutions(y.to(torch.int8), y.double().sum(1))
