"""Lattices against loops over their sites, random graphs by their counts, triangles and matrices as inverses."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ebmlab import graphs
from ebmlab.energies import Ising
from ebmlab.errors import UserError
from ebmlab.graphs import Edges


def num_edges(coupling: Tensor) -> int:
    return int((coupling != 0).sum()) // 2


@pytest.mark.parametrize("side", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("periodic", [False, True])
def test_lattice_edges(side: int, periodic: bool) -> None:
    coupling = graphs.lattice(side, 0.3, periodic=periodic)
    expected = 2 * side**2 if periodic and side > 2 else 2 * side * (side - 1)
    assert num_edges(coupling) == expected
    edges = {(min(i, j), max(i, j)) for i, j in coupling.nonzero().tolist()}
    brute = set()
    for row in range(side):
        for column in range(side):
            for r, c in ((row + 1, column), (row, column + 1)):
                if periodic or (r < side and c < side):
                    a, b = row * side + column, r % side * side + c % side
                    brute |= {(min(a, b), max(a, b))} - {(a, a)}
    assert edges == brute
    assert set(coupling.unique().tolist()) <= {0.0, coupling.max().item()}


@pytest.mark.parametrize(("n", "m"), [(400, 4), (10, 1), (5, 4), (2, 1)])
def test_barabasi_albert(n: int, m: int) -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    coupling = graphs.barabasi_albert(n, m, coupling=0.7, seed=3)
    assert torch.equal(torch.get_rng_state(), before), "the global generator was used"
    assert num_edges(coupling) == m * (n - m)
    degree = (coupling != 0).sum(1)
    assert (degree[m + 1 :] >= m).all()
    assert torch.equal(coupling, graphs.barabasi_albert(n, m, coupling=0.7, seed=3))
    if n == 400:
        assert not torch.equal(coupling, graphs.barabasi_albert(n, m, coupling=0.7, seed=4))
        assert degree.max() > 30, "hubs: uniform attachment would have none"


def test_adjacency_is_the_symmetric_matrix_of_the_triangle() -> None:
    x = torch.arange(1.0, 13).view(2, 6)
    assert torch.equal(graphs.triangle(graphs.adjacency(x, 4)), x)
    assert graphs.adjacency(x, 4)[0].tolist() == [[0, 1, 2, 3], [1, 0, 4, 5], [2, 4, 0, 6], [3, 5, 6, 0]]
    torch.manual_seed(0)
    x = torch.rand(5, 7 * 6 // 2, dtype=torch.float64, requires_grad=True)
    matrix = graphs.adjacency(x, 7)
    assert torch.equal(matrix, matrix.mT) and not matrix.diagonal(dim1=1, dim2=2).any()
    assert torch.equal(graphs.triangle(matrix), x)
    weights = torch.rand(7, 7, dtype=torch.float64)
    (grad,) = torch.autograd.grad((matrix * weights).sum(), x)
    torch.testing.assert_close(grad, graphs.triangle((weights + weights.T).expand(5, -1, -1)))
    assert graphs.adjacency(x.detach().byte(), 7).dtype == torch.uint8
    assert graphs.adjacency(x[:0], 7).shape == (0, 7, 7)


def dsatur(coupling: Tensor) -> list[int]:
    """Colours by Brelaz's rule, written out: of equal sites the first one."""
    near = [row.nonzero().squeeze(1).tolist() for row in coupling]
    colours = [-1] * len(near)
    for _ in near:
        taken = [{colours[other] for other in others} - {-1} for others in near]
        left = [site for site, colour in enumerate(colours) if colour < 0]
        site = max(left, key=lambda site: (len(taken[site]), len(near[site]), -site))
        colours[site] = min(set(range(len(near))) - taken[site])
    return colours


def test_sites_are_coloured_by_saturation() -> None:
    """On graphs with several parts and lonely sites, of which half are bipartite."""
    torch.manual_seed(0)
    bipartite = 0
    for share in (0.05, 0.1, 0.15, 0.2):
        for _ in range(50):
            upper = (torch.rand(10, 10) < share).float().triu(1)
            expected = torch.tensor(dsatur(upper + upper.T))
            found = graphs.colour(upper + upper.T)
            bipartite += len(found) == 2
            assert len(found) == expected.max() + 1
            assert all(torch.equal(sites, (expected == c).nonzero().squeeze(1)) for c, sites in enumerate(found))
    assert 50 < bipartite < 150


def test_entries_of_any_order_are_coloured_alike() -> None:
    """On a path 0 - 1 - 2 - 3 whose last site is joined to itself; a value that is no number joins sites as others."""
    ends = [(3, 2), (0, 1), (3, 3), (2, 1), (1, 0), (1, 2), (2, 3)]
    edges = Edges(4, [i for i, _ in ends], [j for _, j in ends], [torch.nan, 1, 1, 1, 1, 1, torch.nan])
    assert [sites.tolist() for sites in graphs.colour(edges)] == [[1, 3], [0, 2]]


def test_graphs_of_few_sites_are_coloured() -> None:
    assert graphs.colour(Edges(0, [], [], [])) == [] == graphs.colour(torch.zeros(0, 0))
    assert [sites.tolist() for sites in graphs.colour(Edges(1, [], [], []))] == [[0]]
    assert [sites.tolist() for sites in graphs.colour(torch.zeros(3, 3))] == [[0, 1, 2]]


@pytest.mark.parametrize(
    ("coupling", "message"),
    [
        (torch.tensor([[0, 1.0, 0], [0, 0, 2.0], [0, 0, 0]]), r"entry \(0, 1\) is 1, but \(1, 0\) is missing"),
        (torch.ones(2, 3), r"entry \(0, 2\) names a site beyond the 2"),
        (Edges(2, [0, -1], [-1, 0], [1.0, 1.0]), r"entry \(0, -1\) names a site beyond the 2"),
    ],
)
def test_only_graphs_are_coloured(coupling: Tensor | Edges, message: str) -> None:
    with pytest.raises(UserError, match=f"^colour: .*{message}"):
        graphs.colour(coupling)


@pytest.mark.parametrize(
    ("ends", "values", "message"),
    [
        ([(0, 1)], [2.0], r"entry \(0, 1\) is 2, but \(1, 0\) is missing: give every edge in both directions"),
        ([(0, 1), (1, 0), (2, 0)], [1.0, 1.0, 1.0], r"entry \(2, 0\) is 1, but \(0, 2\) is missing"),
        ([(0, 1), (1, 0)], [2.0, 3.0], r"entry \(0, 1\) is 2, but \(1, 0\) is not: give both .* the same value"),
        ([(1, 1)], [1.0], r"entry \(1, 1\) is on the diagonal"),
        ([(0, 1), (1, 0), (0, 1), (1, 0)], [1.0] * 4, r"entry \(0, 1\) is given twice"),
        ([(0, 7), (7, 0)], [1.0, 1.0], r"entry \(0, 7\) names a site beyond the 3"),
        ([(0, -1), (-1, 0)], [1.0, 1.0], r"entry \(0, -1\) names a site beyond the 3"),
        ([(0, 1), (1, 0)], [1.0], r"shapes \(2,\), \(2,\), \(1,\), but must be \(n,\) each"),
    ],
)
def test_edges_that_are_no_symmetric_matrix_are_refused(
    ends: list[tuple[int, int]], values: list[float], message: str
) -> None:
    edges = Edges(3, [i for i, _ in ends], [j for _, j in ends], values)
    with pytest.raises(UserError, match=f"^Ising: .*{message}"):
        Ising(edges)


def test_edges_of_any_order_are_those_of_their_matrix() -> None:
    torch.manual_seed(0)
    upper = (torch.randn(20, 20) * (torch.rand(20, 20) < 0.2)).triu(1)
    right = Edges.of(upper + upper.T)
    order = torch.randperm(len(right.values))
    mixed = Edges(20, right.rows[order], right.columns[order], right.values[order])
    assert torch.equal(Ising(mixed).coupling, upper + upper.T)
    for name in ("rows", "columns", "values"):
        assert torch.equal(getattr(mixed.checked("Ising"), name), getattr(right, name))
    assert len(Edges(4, [], [], []).checked("Ising").values) == 0
