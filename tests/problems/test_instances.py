"""Instances: their laws by counts, and planted ground states by enumeration."""

from __future__ import annotations

import pytest
import torch

from ebmlab.errors import UserError
from ebmlab.problems import erdos_renyi, frustrated_loops, plus_minus_j


def test_pairs_are_edges_with_the_probability() -> None:
    n, p, graphs = 7, 0.3, 1000
    counts = torch.zeros(n, n)
    for seed in range(graphs):
        matrix = erdos_renyi(n, p, seed=seed).matrix()
        assert torch.equal(matrix, matrix.T) and matrix.diagonal().sum() == 0
        counts += matrix
    above = counts[torch.triu(torch.ones(n, n), 1) == 1]
    z = (above - graphs * p) / (graphs * p * (1 - p)) ** 0.5
    assert z.abs().max() < 4.5 and 5 < z.square().sum() < 45, "21 pairs"


def test_a_large_graph_has_its_number_of_edges_in_range() -> None:
    edges = erdos_renyi(100_000, 1e-4, seed=3)
    assert abs(len(edges.values) / 2 - 499_995) < 4 * 707
    assert int(edges.rows.max()) > 99_900 and int(edges.columns.min()) < 100
    assert len(erdos_renyi(50, 0.0).values) == 0 and len(erdos_renyi(1, 0.5).values) == 0


def test_couplings_of_a_glass_are_fair_coins() -> None:
    values = plus_minus_j(100).edges().values
    assert len(values) == 40_000 and set(values.tolist()) == {-1.0, 1.0}
    assert abs(float(values.mean())) < 4 / 20_000**0.5


@pytest.mark.parametrize("seed", range(5))
def test_the_planted_state_is_a_ground_state(seed: int) -> None:
    planted = frustrated_loops(4, 12, seed=seed)
    energies = planted.energy(planted.energy.domain.enumerate().to(planted.energy.dtype))
    assert float(energies.min()) == planted.ground == float(planted.energy(planted.state.unsqueeze(0)))


def test_what_cannot_be_made_is_refused() -> None:
    for make in (lambda: erdos_renyi(5, 1.5), lambda: erdos_renyi(0, 0.5), lambda: frustrated_loops(2, 3)):
        with pytest.raises(UserError):
            make()
