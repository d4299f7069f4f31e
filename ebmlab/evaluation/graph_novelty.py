"""How many generated graphs differ from each other, and from the graphs of training, up to the numbering of nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from torch import Tensor

from ebmlab.errors import UserError
from ebmlab.evaluation.graph_mmd import matrices
from ebmlab.extras import require

ROUNDS = 3
MODULUS = 2**31 - 1


class GraphNovelty(NamedTuple):
    """Shares of generated graphs, from 0 to 1.

    Attributes:
        unique: number of different graphs over number of graphs: 1 if no two are isomorphic.
        novel: share of graphs that are isomorphic to none of training.

    Example:
        >>> import torch
        >>> triangle, path, other_path = [1.0, 1.0, 1.0], [1.0, 1.0, 0.0], [0.0, 1.0, 1.0]
        >>> graph_novelty(torch.tensor([triangle, path, other_path, path]), torch.tensor([triangle]), num_nodes=3)
        GraphNovelty(unique=0.5, novel=0.75)
    """

    unique: float
    novel: float


def graph_novelty(x: Tensor, training: Tensor, *, num_nodes: int) -> GraphNovelty:
    """Compares generated graphs with each other and with those of training (needs networkx).

    A node's invariant is its degree, combined three times with its neighbours' invariants. Graphs whose nodes have
    different invariants differ; the others are tested for isomorphism. Slots without edges are no nodes, as in
    `graph_mmd`.

    Args:
        x: upper triangles of adjacency matrices, row by row, `(N, n (n - 1) / 2)`, 0 and 1.
        training: the other set, `(M, n (n - 1) / 2)`.
        num_nodes: n, the number of slots.

    Raises:
        UserError: networkx is missing, x is empty, or entries are not 0 or 1.

    Example:
        >>> import torch
        >>> path, other_path = [1.0, 1.0, 0.0], [0.0, 1.0, 1.0]
        >>> graph_novelty(torch.tensor([path, other_path]), torch.tensor([path]), num_nodes=3)
        GraphNovelty(unique=0.5, novel=0.0)
    """
    if not len(x):
        raise UserError("graph_novelty compares 1 or more graphs, got 0")
    seen: dict[Any, list[Any]] = defaultdict(list)
    known = {_class(seen, *entry) for entry in _entries(training, num_nodes)}
    found = [_class(seen, *entry) for entry in _entries(x, num_nodes)]
    return GraphNovelty(len(set(found)) / len(found), sum(name not in known for name in found) / len(found))


def _entries(x: Tensor, num_nodes: int) -> Iterator[tuple[Any, Any]]:
    """Of each graph its invariant, and itself without isolated nodes."""
    require("graph_novelty", "networkx")
    import networkx as nx

    adjacent = matrices(x.cpu(), num_nodes)
    label = adjacent.sum(2).long()
    for _ in range(ROUNDS):
        around = (label * label + 7 * label + 1) % MODULUS
        label = (31 * label + (adjacent.long() @ around.unsqueeze(2)).squeeze(2)) % MODULUS
    for matrix, key in zip(adjacent, label.sort(1).values.tolist(), strict=True):
        yield tuple(key), nx.Graph(matrix.triu().nonzero().tolist())


def _class(seen: dict[Any, list[Any]], key: Any, graph: Any) -> tuple[Any, int]:
    """A name that isomorphic graphs share; adds the graph to `seen` if it is the first of its kind."""
    import networkx as nx

    alike = seen[key]
    for k, other in enumerate(alike):
        if not (graph or other) or nx.vf2pp_is_isomorphic(graph, other):  # networkx says False of two empty graphs
            return key, k
    alike.append(graph)
    return key, len(alike) - 1
