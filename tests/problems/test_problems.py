"""Problems: the energy's minimum decodes to the optimum by brute force, and the penalty's bound is tight."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from ebmlab.energies import Energy
from ebmlab.errors import UserError
from ebmlab.exchange import read
from ebmlab.graphs import Edges, barabasi_albert_edges
from ebmlab.problems import (
    Clique,
    CutShares,
    IndependentSet,
    MaxCut,
    MissingEdges,
    NormalisedCut,
    Problem,
    Qubo,
    erdos_renyi,
    pose,
)
from ebmlab.problems.clique import cliques

GRAPHS = [erdos_renyi(9, p, seed=seed) for seed, p in enumerate((0.1, 0.3, 0.5, 0.8))] + [
    barabasi_albert_edges(9, 2, coupling=1.0)
]


def pairs(edges: Edges) -> dict[tuple[int, int], float]:
    ends = zip(edges.rows.tolist(), edges.columns.tolist(), edges.values.tolist(), strict=True)
    return {(i, j): w for i, j, w in ends if i < j}


def weighted(edges: Edges, seed: int = 0) -> Edges:
    weights = torch.randn(edges.size, edges.size, generator=torch.Generator().manual_seed(seed))
    return Edges(edges.size, edges.rows, edges.columns, (weights + weights.T)[edges.rows, edges.columns])


def sets(size: int) -> list[tuple[int, ...]]:
    return list(itertools.product((0, 1), repeat=size))


def largest(edges: Edges, joined: bool) -> int:
    """The size of the largest set whose pairs are all joined, or all not."""
    graph = pairs(edges)
    chosen = ([i for i, bit in enumerate(bits) if bit] for bits in sets(edges.size))
    return max(len(s) for s in chosen if all((pair in graph) == joined for pair in itertools.combinations(s, 2)))


def lowest(problem: Problem) -> Tensor:
    """All states of the lowest energy."""
    x = problem.energy.domain.enumerate().to(problem.energy.dtype)
    energies = problem.energy(x)
    return x[energies < energies.min() + 1e-4]


@pytest.mark.parametrize("edges", GRAPHS)
def test_the_minimum_of_max_cut_is_the_largest_cut(edges: Edges) -> None:
    edges = weighted(edges)
    problem, graph = MaxCut(edges), pairs(edges)
    by_hand = max(sum(w for (i, j), w in graph.items() if bits[i] != bits[j]) for bits in sets(edges.size))
    assert problem.decode(lowest(problem)).value.tolist() == pytest.approx([by_hand] * len(lowest(problem)), abs=1e-5)


@pytest.mark.parametrize("penalty", [1.0, 1.5])
@pytest.mark.parametrize("edges", GRAPHS)
@pytest.mark.parametrize(("kind", "joined"), [(IndependentSet, False), (Clique, True)])
def test_the_minimum_is_the_largest_set(
    kind: type[IndependentSet] | type[Clique], joined: bool, edges: Edges, penalty: float
) -> None:
    problem, size = kind(edges, penalty=penalty), largest(edges, joined)
    assert set(problem.decode(lowest(problem)).value.tolist()) == {size}
    offset = problem.offset if isinstance(problem, IndependentSet) else 0.0
    assert float(problem.energy(lowest(problem))[0]) + offset == pytest.approx(-size, abs=1e-4)


@pytest.mark.parametrize("edges", GRAPHS)
@pytest.mark.parametrize(("kind", "joined"), [(IndependentSet, False), (Clique, True)])
def test_every_state_decodes_to_a_feasible_set_no_worse_than_its_energy(
    kind: type[IndependentSet] | type[Clique], joined: bool, edges: Edges
) -> None:
    problem, graph = kind(edges), pairs(edges)
    x = problem.energy.domain.enumerate().to(problem.energy.dtype)
    found = problem.decode(x)
    offset = problem.offset if isinstance(problem, IndependentSet) else 0.0
    assert (found.value >= -(problem.energy(x) + offset) - 1e-4).all()
    assert torch.equal(found.value, found.bits.double().sum(1))
    for bits in found.bits.unique(dim=0).tolist():
        chosen = [i for i, bit in enumerate(bits) if bit]
        assert all((pair in graph) == joined for pair in itertools.combinations(chosen, 2))


def test_a_penalty_below_1_would_pay() -> None:
    pair = Edges(2, [0, 1], [1, 0], [1.0, 1.0])
    apart = Edges(2, [], [], torch.zeros(0))
    assert lowest(IndependentSet(pair)).tolist() == [[-1, 1], [1, -1], [1, 1]], "at 1 all three are as low"
    assert lowest(IndependentSet(pair, penalty=1.01)).tolist() == [[-1, 1], [1, -1]]
    below = MissingEdges(apart, 0.9)
    assert below(torch.tensor([[1.0, 1.0]])) < below(torch.tensor([[1.0, 0.0]]))
    for kind in (IndependentSet, Clique):
        with pytest.raises(UserError, match=r"penalty is 0\.9"):
            kind(pair, penalty=0.9)


@pytest.mark.parametrize("edges", GRAPHS)
def test_flip_differences_are_those_of_the_neighbours(edges: Edges) -> None:
    for problem in (MaxCut(weighted(edges)), IndependentSet(edges, penalty=1.3), Clique(edges, penalty=1.3)):
        energy = problem.energy
        x = energy.domain.enumerate()[::7].to(energy.dtype)
        torch.testing.assert_close(energy.flip_differences(x), Energy.flip_differences(energy, x), atol=1e-4, rtol=0)
        value, slope = energy.value_and_grad(x)
        torch.testing.assert_close(value, energy(x))
        step = 2 * x if isinstance(problem, MaxCut | IndependentSet) else 2 * x - 1
        torch.testing.assert_close(energy.flip_differences(x), -step * slope, atol=1e-4, rtol=0)


def test_qubo_is_the_packages_own_energy() -> None:
    numbers = {(0, 0): 1.5, (0, 1): -2.0, (1, 2): 0.75, (2, 2): -1.0, (0, 2): 0.5}
    problem = Qubo(read(numbers))
    by_hand = [sum(q * bits[i] * bits[j] for (i, j), q in numbers.items()) for bits in sets(3)]
    found = problem.decode(problem.energy.domain.enumerate().to(problem.energy.dtype))
    assert found.value.tolist() == pytest.approx(by_hand) and found.bits.tolist() == [list(bits) for bits in sets(3)]
    assert problem.decode(lowest(problem)).value.tolist() == pytest.approx([min(by_hand)] * len(lowest(problem)))
    assert problem.better(-1, 0) and not problem.better(1, 0)


@pytest.mark.slow
def test_a_large_graph_takes_memory_by_its_edges() -> None:
    edges = erdos_renyi(100_000, 2e-5, seed=1)
    x = -torch.ones(1, 100_000)
    assert float(IndependentSet(edges).decode(x).value[0]) > 35_000
    assert float(Clique(edges).decode((x + 1) / 2).value[0]) >= 2
    assert float(MaxCut(edges).decode(x).value[0]) == 0


def test_a_file_says_which_problem_it_poses(tmp_path: Path) -> None:
    (tmp_path / "a.rud").write_text("3 2\n1 2 1\n2 3 0\n")
    (tmp_path / "a.col").write_text("p edge 3 1\ne 1 2\n")
    (tmp_path / "a.coo").write_text("# vartype=SPIN\n0 1 1\n")
    assert isinstance(pose(tmp_path / "a.rud"), MaxCut) and isinstance(pose(tmp_path / "a.coo"), Qubo)
    for name, problem, message in [
        ("a.col", None, r"say which problem, max_cut, independent_set, clique"),
        ("a.col", "colouring", "say which problem"),
        ("a.coo", "clique", "is no graph"),
        ("a.rud", "clique", "edges of weight 0"),
    ]:
        with pytest.raises(UserError, match=re.escape(message)):
            pose(tmp_path / name, problem)


@pytest.mark.parametrize("edges", GRAPHS)
def test_a_clique_is_redrawn_by_groups_of_joined_nodes(edges: Edges) -> None:
    """All pairs of a group are joined, each node is in one, and the log-odds are differences of the energy."""
    energy, graph = MissingEdges(edges, penalty=1.5), pairs(edges)
    groups = cliques(edges)
    assert sorted(i for group in groups for i in group.tolist()) == list(range(edges.size))
    assert all(pair in graph for group in groups for pair in itertools.combinations(group.tolist(), 2))
    x = energy.domain.enumerate().to(energy.dtype)
    for group in energy.colours or []:
        for site, odds in zip(group.tolist(), energy.conditional(x, group).T, strict=True):
            without, put = x.clone(), x.clone()
            without[:, site], put[:, site] = 0, 1
            torch.testing.assert_close(odds, energy(without) - energy(put))


@pytest.mark.parametrize("kind", [MaxCut, IndependentSet, Clique, MissingEdges, NormalisedCut, CutShares])
def test_edges_of_one_direction_are_refused(kind: type[Problem] | type[Energy]) -> None:
    made: Any = kind
    with pytest.raises(UserError, match=rf"^{kind.__name__}: the entry \(0, 1\) is 2, but \(1, 0\) is missing"):
        made(Edges(2, [0], [1], [2.0]))
