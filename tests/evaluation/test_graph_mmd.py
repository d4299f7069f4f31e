from __future__ import annotations

import importlib
import itertools
import math
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
import torch
from helpers_errors import refused
from helpers_tier import cases
from scipy.stats import wasserstein_distance

from ebmlab.errors import UserError
from ebmlab.evaluation import graph_mmd, graph_mmds, orbit_counts
from ebmlab.evaluation.metrics import GraphMMD
from ebmlab.graphs import adjacency

module = importlib.import_module("ebmlab.evaluation.graph_mmd")  # `ebmlab.evaluation.graph_mmd` is the function
N = 9
BITS = N * (N - 1) // 2
STATISTICS = ("degree", "clustering", "orbit")


def draw(n: int, p: float, seed: int) -> torch.Tensor:
    """Random graphs `(n, BITS)`, every third without edges at some slots, the first without any."""
    x = (torch.rand(n, BITS, generator=torch.Generator().manual_seed(seed)) < p).float()
    matrices = adjacency(x, N)
    matrices[::3, -3:], matrices[::3, :, -3:], matrices[0] = 0, 0, 0
    rows, columns = torch.triu_indices(N, N, 1)
    return matrices[:, rows, columns]


def to_networkx(bits: torch.Tensor) -> nx.Graph:
    """Without its isolated nodes; one node if there are no others."""
    pairs = itertools.combinations(range(N), 2)
    graph = nx.Graph([pair for pair, bit in zip(pairs, bits.tolist(), strict=True) if bit])
    if not graph:
        graph.add_node(0)
    return graph


def degree_kernel(a: nx.Graph, b: nx.Graph) -> float:
    return math.exp(-(wasserstein_distance(*([d for _, d in g.degree] for g in (a, b))) ** 2) / 2)


def clustering_kernel(a: nx.Graph, b: nx.Graph) -> float:
    def bins(graph: nx.Graph) -> list[float]:
        shares = [Fraction(c).limit_denominator(1000) for c in nx.clustering(graph).values()]
        return [min(99, math.floor(100 * c)) / 100 for c in shares]

    return math.exp(-(wasserstein_distance(bins(a), bins(b)) ** 2) / (2 * 0.1**2))


def orbit_kernel(a: nx.Graph, b: nx.Graph) -> float:
    means = [orbit_counts(torch.tensor(nx.to_numpy_array(g))[None])[0].double().mean(0).numpy() for g in (a, b)]
    return math.exp(-np.square(means[0] - means[1]).sum() / (2 * 30**2))


KERNELS = dict(zip(STATISTICS, (degree_kernel, clustering_kernel, orbit_kernel), strict=True))


def by_loops(x: torch.Tensor, y: torch.Tensor, statistic: str) -> float:
    x, y, kernel = [to_networkx(b) for b in x], [to_networkx(b) for b in y], KERNELS[statistic]

    def mean(a: list[nx.Graph], b: list[nx.Graph]) -> float:
        return sum(itertools.starmap(kernel, itertools.product(a, b))) / (len(a) * len(b))

    return mean(x, x) + mean(y, y) - 2 * mean(x, y)


@cases("chunk", [1, 20, 2**22], fast=[1])
@pytest.mark.parametrize("statistic", STATISTICS)
def test_agrees_with_loops_over_networkx(statistic, chunk, monkeypatch):
    monkeypatch.setattr(module, "CHUNK", chunk)
    x, y = draw(12, 0.2, 0), draw(8, 0.6, 1)
    expected = by_loops(x, y, statistic)
    value = graph_mmd(x, y, num_nodes=N, statistic=statistic)
    assert value.dtype == torch.float64 and value.shape == ()
    assert value.item() == pytest.approx(expected, rel=1e-9) and expected > 0.01
    assert graph_mmd(x.byte(), y.bool(), num_nodes=N, statistic=statistic) == value


def test_two_graphs_by_hand():
    """Stars of 3 and 5 nodes: 2/3 of nodes have degree 1 and 1/3 degree 2; 4/5 have degree 1 and 1/5 degree 4."""
    x, y = torch.zeros(1, BITS), torch.zeros(1, BITS)
    x[0, :2], y[0, :4] = 1, 1  # the first row of the triangle: edges of node 0
    area = abs(2 / 3 - 4 / 5) + 2 * (1 - 4 / 5)  # between the two cumulative histograms, from 1 to 2 and from 2 to 4
    assert graph_mmd(x, y, num_nodes=N).item() == pytest.approx(2 - 2 * math.exp(-(area**2) / 2))
    assert graph_mmd(x, y, num_nodes=N, statistic="clustering") == 0
    # Orbits 0, 1, 2 of x sum to 4, 2, 1 over its nodes; orbits 0, 1, 2, 6, 7 of y to 8, 12, 6, 12, 4.
    difference = [4 / 3 - 8 / 5, 2 / 3 - 12 / 5, 1 / 3 - 6 / 5, 12 / 5, 4 / 5]
    orbit = 2 - 2 * math.exp(-sum(d * d for d in difference) / 1800)
    assert graph_mmd(x, y, num_nodes=N, statistic="orbit").item() == pytest.approx(orbit)


def test_a_graph_without_edges_is_one_isolated_node():
    empty, edge = torch.zeros(1, BITS), torch.eye(BITS)[:1]
    assert graph_mmd(empty, edge, num_nodes=N).item() == pytest.approx(2 - 2 * math.exp(-1 / 2)), (
        "all degrees 0 against all 1"
    )
    assert graph_mmd(empty, edge, num_nodes=N, statistic="clustering") == 0
    assert graph_mmd(empty, edge, num_nodes=N, statistic="orbit").item() == pytest.approx(2 - 2 * math.exp(-1 / 1800))
    assert all(v == 0 for v in graph_mmds(empty, empty, num_nodes=N).values())


def test_a_clustering_coefficient_is_in_the_bin_that_starts_there():
    """A hub with 5 neighbours and 7 edges among them has the coefficient 7/10, which is below 0.7 in floating point."""
    graph = nx.Graph([(0, i) for i in range(1, 6)])
    graph.add_edges_from([(1, 2), (1, 3), (1, 4), (1, 5), (2, 3), (2, 4), (2, 5)])
    x = torch.tensor(nx.to_numpy_array(graph, nodelist=range(N - 3)))[None].double()
    steps = module._clustering_steps(x)[0] * 100
    jumps = {round(k) for k in steps.diff(prepend=steps.new_zeros(1)).nonzero()[:, 0].tolist()}
    exact = {min(99, math.floor(100 * Fraction(c).limit_denominator(1000))) for c in nx.clustering(graph).values()}
    assert jumps == exact and 70 in jumps


def test_reordered_graphs_and_nodes_have_distance_zero():
    x = draw(20, 0.3, 2)
    assert all(v == 0 for v in graph_mmds(x, x, num_nodes=N).values())
    matrices = adjacency(x, N)
    renamed = torch.stack([m[p][:, p] for m in matrices for p in [torch.randperm(N)]])
    rows, columns = torch.triu_indices(N, N, 1)
    y = renamed[:, rows, columns][torch.randperm(20)].repeat(2, 1)
    assert all(abs(v) < 1e-12 for v in graph_mmds(x, y, num_nodes=N).values())


def test_empty_slots_change_nothing():
    x, y = draw(6, 0.3, 3), draw(5, 0.5, 4)
    rows, columns = torch.triu_indices(N + 4, N + 4, 1)

    def pad(bits: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.pad(adjacency(bits, N), (0, 4, 0, 4))[:, rows, columns]

    wide, narrow = graph_mmds(pad(x), pad(y), num_nodes=N + 4), graph_mmds(x, y, num_nodes=N)
    torch.testing.assert_close(wide, narrow, rtol=1e-12, atol=1e-14)


def test_dictionary():
    x, y = draw(6, 0.3, 5), draw(5, 0.5, 6)
    values = graph_mmds(x, y, num_nodes=N)
    assert list(values) == [*STATISTICS, "average"]
    assert all(
        values[s]
        == graph_mmd(x, y, num_nodes=N, statistic=s)
        == pytest.approx(graph_mmd(y, x, num_nodes=N, statistic=s).item())
        for s in STATISTICS
    )
    assert values["average"].item() == pytest.approx(sum(values[s].item() for s in STATISTICS) / 3)


def test_metric_in_parts_and_on_ranks_is_the_function_of_all():
    x, y = draw(13, 0.3, 7), draw(10, 0.5, 8)
    metric = GraphMMD(N)
    for part in x.split(4):
        metric.update(part, real=False)
    for part in (*y.split(3), y[:0]):
        metric.update(part, real=True)
    torch.testing.assert_close(metric.compute(), graph_mmds(x, y, num_nodes=N), rtol=1e-12, atol=1e-14)
    ranks = [GraphMMD(N), GraphMMD(N)]
    for r, rank in enumerate(ranks):
        rank.update(x[r::2], real=False)
        rank.update(y if r else y[:0], real=True)
    assert {f.__name__ for f in ranks[0]._reductions.values()} == {"dim_zero_cat"}
    gathered = GraphMMD(N)
    gathered.update(x[:0], real=True)
    for name in gathered._reductions:
        setattr(gathered, name, torch.cat([part for rank in ranks for part in getattr(rank, name)]))
    torch.testing.assert_close(gathered.compute(), graph_mmds(x, y, num_nodes=N), rtol=1e-12, atol=1e-14)
    metric.reset()
    metric.update(x, real=False)
    with pytest.raises(UserError, match="1 or more graphs, got 13 and 0"):
        metric.compute()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"statistic": "spectrum"}, '"degree", "clustering" or "orbit"'),
        ({"y": torch.zeros(5, 3)}, r"upper triangle of 9 nodes takes \(B, 36\)"),
        ({"y": torch.zeros(0, BITS)}, "1 or more graphs, got 4 and 0"),
        ({"x": torch.full((4, BITS), 0.5)}, "0 or 1"),
        ({"x": torch.full((4, BITS), torch.nan)}, "0 or 1"),
        ({"num_nodes": 8}, r"upper triangle of 8 nodes takes \(B, 28\)"),
    ],
)
def test_wrong_arguments_are_refused(change, message):
    with refused(message):
        graph_mmd(**{"x": torch.zeros(4, BITS), "y": torch.ones(6, BITS), "num_nodes": N, **change})


def test_metric_refuses_what_is_no_graph():
    with pytest.raises(UserError, match="0 or 1"):
        GraphMMD(N).update(torch.full((2, BITS), 2.0), real=True)
    with pytest.raises(UserError, match="upper triangle"):
        GraphMMD(N).update(torch.zeros(2, 3), real=True)
