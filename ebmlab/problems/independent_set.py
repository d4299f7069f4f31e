"""Maximum independent set: as many nodes of a graph as possible, no two of them joined."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from ebmlab.energies import Ising
from ebmlab.errors import UserError
from ebmlab.exchange.foreign import from_bits
from ebmlab.graphs import Edges
from ebmlab.problems.problem import Problem, Solutions, joined


class IndependentSet(Problem):
    """-|S| + penalty * (edges within S), as an Ising model: x_i = +1 puts node i into S.

    Penalties of at least 1 are enough. Dropping a node for each edge within S leaves a set that is no smaller than the
    energy says. Below 1, both ends of an edge have a lower energy than one of them.

    Args:
        edges: the graph; its weights do not count.
        penalty: of an edge within S.

    Raises:
        UserError: the penalty is below 1, or an entry of the graph is wrong.

    Example:
        >>> from ebmlab.graphs import lattice_edges
        >>> problem = IndependentSet(lattice_edges(2, 1.0))
        >>> problem.decode(torch.tensor([[1, 1, -1, 1], [-1, -1, -1, -1]])).value.tolist()
        [2.0, 2.0]
    """

    unit: ClassVar[str] = "nodes, no two joined"
    energy: Ising

    def __init__(self, edges: Edges, *, penalty: float = 1.0) -> None:
        if not 1 <= penalty < float("inf"):
            raise UserError(
                f"IndependentSet: penalty is {penalty}, but must be at least 1: below, joined nodes would pay"
            )
        edges = edges.checked("IndependentSet")
        self.graph = joined(edges)
        once = edges.rows < edges.columns
        a, b = (ends[once].numpy() for ends in (edges.rows, edges.columns))
        self.energy, self.offset = from_bits(a, b, np.full(len(a), float(penalty)), -np.ones(edges.size))

    @torch.no_grad()
    def decode(self, x: Tensor) -> Solutions:
        """Sets that no node can be added to.

        Colour by colour, a node stays if none of its neighbours has stayed; then one is added if it has no neighbour.
        """
        wanted, y = (x > 0).T, self.graph.field.new_zeros(x.shape[1], len(x))
        for candidates in (wanted, torch.ones_like(wanted)):
            for sites in self.graph.colours:
                free = self.graph.local_field(y.T, sites).T == 0
                y[sites] = torch.maximum(y[sites], (candidates[sites] & free).to(y))
        return Solutions(y.T.to(torch.int8), y.double().sum(0))
