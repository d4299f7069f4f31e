from __future__ import annotations

import itertools

import networkx as nx
import pytest
import torch
from helpers_errors import refused
from networkx.algorithms.isomorphism import GraphMatcher

from ebmlab.evaluation import orbit_counts, orbits

GRAPHLETS = [  # edges, and the orbit of each node
    ([(0, 1)], [0, 0]),
    ([(0, 1), (1, 2)], [1, 2, 1]),
    ([(0, 1), (1, 2), (0, 2)], [3, 3, 3]),
    ([(0, 1), (1, 2), (2, 3)], [4, 5, 5, 4]),
    ([(0, 1), (0, 2), (0, 3)], [7, 6, 6, 6]),
    ([(0, 1), (1, 2), (2, 3), (3, 0)], [8, 8, 8, 8]),
    ([(0, 1), (1, 2), (1, 3), (2, 3)], [9, 11, 10, 10]),
    ([(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)], [13, 12, 13, 12]),
    (list(itertools.combinations(range(4), 2)), [14, 14, 14, 14]),
]


def matrix(graph: nx.Graph, n: int) -> torch.Tensor:
    a = torch.zeros(n, n)
    for i, j in graph.edges:
        a[i, j] = a[j, i] = 1
    return a


def brute_force(graph: nx.Graph, n: int) -> list[list[int]]:
    """By networkx's isomorphisms of every set of 2 to 4 nodes."""
    counts = [[0] * 15 for _ in range(n)]
    for size in (2, 3, 4):
        for nodes in itertools.combinations(range(n), size):
            part = graph.subgraph(nodes)
            for edges, places in GRAPHLETS:
                if len(places) == size and len(edges) == part.number_of_edges():
                    matcher = GraphMatcher(part, nx.Graph(edges))
                    if matcher.is_isomorphic():
                        for node, place in matcher.mapping.items():
                            counts[node][places[place]] += 1
    return counts


def test_the_table_holds_the_orbits_of_automorphisms():
    """Checks the table above: two nodes share an orbit if and only if an automorphism maps one to the other."""
    for edges, places in GRAPHLETS:
        graph = nx.Graph(edges)
        reached = {pair for m in GraphMatcher(graph, graph).isomorphisms_iter() for pair in m.items()}
        assert reached == {(i, j) for i in graph for j in graph if places[i] == places[j]}


@pytest.mark.parametrize("chunk", [1, 800, 2**20])
def test_agrees_with_brute_force(chunk, monkeypatch):
    monkeypatch.setattr(orbits, "CHUNK", chunk)
    graphs = [nx.gnp_random_graph(8, p, seed=i) for i, p in enumerate([0.1, 0.3, 0.5, 0.7, 0.9])]
    counts = orbit_counts(torch.stack([matrix(g, 8) for g in graphs]))
    assert counts.dtype == torch.int64
    assert counts.tolist() == [brute_force(g, 8) for g in graphs]
    assert counts.sum((0, 1)).min() > 0, "an orbit is not tried"


def row(**counts: int) -> list[int]:
    """`o0=3, ...` as a list of 15."""
    return [counts.get(f"o{k}", 0) for k in range(15)]


KNOWN = {
    "K4": (nx.complete_graph(4), [row(o0=3, o3=3, o14=1)] * 4),
    "C4": (nx.cycle_graph(4), [row(o0=2, o1=2, o2=1, o8=1)] * 4),
    "star": (nx.star_graph(3), [row(o0=3, o2=3, o7=1)] + [row(o0=1, o1=2, o6=1)] * 3),
    "path": (
        nx.path_graph(4),
        [row(o0=1, o1=1, o4=1), row(o0=2, o1=1, o2=1, o5=1), row(o0=2, o1=1, o2=1, o5=1), row(o0=1, o1=1, o4=1)],
    ),
    "paw": (
        nx.Graph([(0, 1), (1, 2), (1, 3), (2, 3)]),
        [row(o0=1, o1=2, o9=1), row(o0=3, o2=2, o3=1, o11=1)] + [row(o0=2, o1=1, o3=1, o10=1)] * 2,
    ),
    "diamond": (
        nx.Graph([(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)]),
        [row(o0=3, o2=1, o3=2, o13=1), row(o0=2, o1=2, o3=1, o12=1)] * 2,
    ),
}


@pytest.mark.parametrize("name", KNOWN)
def test_by_hand(name):
    graph, expected = KNOWN[name]
    assert orbit_counts(matrix(graph, 4)[None])[0].tolist() == expected


def test_large_counts_are_exact():
    """Every set of 4 of 40 nodes is complete."""
    counts = orbit_counts(matrix(nx.complete_graph(40), 40)[None])
    assert (counts[0] == torch.tensor(row(o0=39, o3=741, o14=9139))).all()


def test_isolated_nodes_count_nothing():
    graph = nx.gnp_random_graph(6, 0.5, seed=1)
    small, large = orbit_counts(matrix(graph, 6)[None]), orbit_counts(matrix(graph, 9)[None])
    assert torch.equal(large[:, :6], small) and not large[:, 6:].any()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bool, torch.float64])
def test_any_dtype_and_size(dtype):
    a = matrix(nx.cycle_graph(5), 5).to(dtype)
    assert orbit_counts(a[None])[0, 0].tolist() == row(o0=2, o1=2, o2=1, o4=2, o5=2)
    assert orbit_counts(a[None, :2, :2])[0].tolist() == [row(o0=1)] * 2
    assert orbit_counts(a.expand(0, -1, -1)).shape == (0, 5, 15)


@pytest.mark.parametrize(
    ("adjacency", "message"),
    [
        (torch.zeros(3, 3), r"shape \(3, 3\), but must be \(B, n, n\)"),
        (torch.zeros(1, 3, 4), r"must be \(B, n, n\)"),
        (torch.full((1, 3, 3), 0.5), "other than 0 and 1"),
        (torch.full((1, 3, 3), torch.nan), "other than 0 and 1"),
        (torch.ones(1, 3, 3), "zero diagonal"),
        (torch.tensor([[[0, 1], [0, 0]]]), "symmetric"),
    ],
)
def test_wrong_matrices(adjacency, message):
    with refused(message):
        orbit_counts(adjacency)
