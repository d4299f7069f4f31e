"""A combinatorial problem: an energy whose lowest states are its best solutions, and what its states mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from ebmlab.energies import Energy, Ising
from ebmlab.errors import UserError
from ebmlab.graphs import Edges


@dataclass(frozen=True)
class Solutions:
    """Feasible solutions.

    Attributes:
        bits: `(B, d)`, int8, 0 or 1: the side of each node, whether it is chosen, or the value of each variable.
        value: `(B,)`, float64, in the problem's own terms.

    Example:
        >>> from ebmlab.graphs import lattice_edges
        >>> from ebmlab.problems import MaxCut
        >>> MaxCut(lattice_edges(2, 1.0)).decode(torch.tensor([[1, -1, -1, 1]])).bits.tolist()
        [[1, 0, 0, 1]]
    """

    bits: Tensor
    value: Tensor


class Problem:
    """What all problems share.

    Attributes:
        energy: E(x) on bits or spins; memory grows with the number of edges.
        goal: whether a large or a small value is good.
        unit: what the value counts, in a few words.

    Example:
        >>> from ebmlab.exchange import read
        >>> from ebmlab.problems import Qubo
        >>> problem = Qubo(read({("a", "b"): -3.0}))
        >>> problem.goal, problem.unit, problem.better(-3.0, 0.0)
        ('min', 'energy', True)
    """

    goal: ClassVar[Literal["max", "min"]] = "max"
    unit: ClassVar[str]
    energy: Energy

    def decode(self, x: Tensor) -> Solutions:
        """Feasible solutions from states `(B, d)` of the energy, none worse than its energy says."""
        raise NotImplementedError

    def better(self, value: float, other: float) -> bool:
        """Whether a value is at least as good as another one."""
        return value >= other if self.goal == "max" else value <= other


def joined(edges: Edges) -> Ising:
    """The adjacency matrix A of a graph, so that `joined(edges).local_field(bits)` counts chosen neighbours.

    Raises:
        UserError: it has no nodes.
    """
    if edges.size < 1:
        raise UserError("a graph must have a node")
    return Ising(edges.with_values(edges.values.new_ones(len(edges.values))))
