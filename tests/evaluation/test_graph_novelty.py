"""Shares of unique and novel graphs, against networkx and against every permutation."""

from __future__ import annotations

from itertools import combinations, permutations

import pytest
import torch
from torch import Tensor

from ebmlab.domains import Binary
from ebmlab.errors import UserError
from ebmlab.evaluation import graph_novelty
from ebmlab.graphs import adjacency

nx = pytest.importorskip("networkx")


def upper(matrix: Tensor) -> Tensor:
    rows, columns = torch.triu_indices(len(matrix), len(matrix), 1)
    return matrix[rows, columns]


def smallest(x: Tensor, n: int) -> tuple[float, ...]:
    """The same for isomorphic graphs: the smallest upper triangle of all numberings."""
    matrix = adjacency(x[None], n)[0]
    return min(tuple(upper(matrix[list(p)][:, list(p)]).tolist()) for p in permutations(range(n)))


@pytest.mark.slow
def test_shares_are_those_by_every_permutation() -> None:
    """All 64 graphs of 4 slots are 11 classes; the graph without edges is one of them."""
    x = Binary(6).enumerate()
    torch.manual_seed(0)
    training = x[torch.randperm(len(x))[:10]]
    known = {smallest(graph, 4) for graph in training}
    names = [smallest(graph, 4) for graph in x]
    assert len(set(names)) == 11
    found = graph_novelty(x, training, num_nodes=4)
    assert found.unique == 11 / 64
    assert found.novel == sum(name not in known for name in names) / 64 > 0


def test_numbering_does_not_matter_and_one_edge_does() -> None:
    torch.manual_seed(0)
    graphs, moved, changed = [], [], []
    for _ in range(20):
        x = torch.randint(0, 2, (18 * 17 // 2,)).float() * (torch.rand(18 * 17 // 2) < 0.4)
        order = torch.randperm(18)
        other = x.clone()
        other[0] = 1 - other[0]
        graphs.append(x)
        moved.append(upper(adjacency(x[None], 18)[0][order][:, order]))
        changed.append(other)
    x, training = torch.stack(graphs), torch.stack(moved)
    assert graph_novelty(x, training, num_nodes=18) == (1.0, 0.0)
    assert graph_novelty(torch.stack(changed), training, num_nodes=18) == (1.0, 1.0)


def test_graphs_with_equal_invariants_are_told_apart() -> None:
    """Two triangles and a hexagon: all degrees are 2, whatever the number of rounds."""

    def cycles(*groups: tuple[int, ...]) -> Tensor:
        edges = {frozenset(e) for g in groups for e in zip(g, g[1:] + g[:1], strict=True)}
        return torch.tensor([float(frozenset(pair) in edges) for pair in combinations(range(6), 2)])

    x = torch.stack([cycles((0, 1, 2), (3, 4, 5)), cycles((0, 1, 2, 3, 4, 5))])
    assert graph_novelty(x, x[:1], num_nodes=6) == (1.0, 0.5)


def test_wrong_input_is_refused() -> None:
    x = torch.zeros(2, 10)
    with pytest.raises(UserError, match="1 or more graphs, got 0"):
        graph_novelty(x[:0], x, num_nodes=5)
    with pytest.raises(UserError, match="given by bits"):
        graph_novelty(x + 0.5, x, num_nodes=5)


def test_graphs_without_edges_are_alike() -> None:
    empty = torch.zeros(4, 3)
    found = graph_novelty(empty, empty[:1], num_nodes=3)
    assert (found.unique, found.novel) == (0.25, 0.0)
