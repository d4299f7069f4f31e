"""NormalisedCut: values by hand over all divisions, differences and gradients, two groups that are found."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
import torch
from helpers_tier import cases

from ebmlab.app.cli import main
from ebmlab.errors import UserError
from ebmlab.graphs import Edges
from ebmlab.problems import CutShares, NormalisedCut, erdos_renyi, minimise, pose
from ebmlab.samplers import GibbsSweep, PathAuxiliary


def weighted(size: int, p: float, seed: int) -> Edges:
    edges = erdos_renyi(size, p, seed=seed)
    """Weights in float64."""
    weights = torch.rand(size, size, generator=torch.Generator().manual_seed(seed)).double() + 0.1
    return Edges(size, edges.rows, edges.columns, (weights + weights.T)[edges.rows, edges.columns])


GRAPHS = [weighted(8, 0.5, seed=1), weighted(8, 0.6, seed=2), weighted(8, 0.2, seed=3)]
every_graph = pytest.mark.parametrize("edges", GRAPHS)


def by_hand(edges: Edges, side: tuple[int, ...]) -> float:
    """From the definition; infinite where a side has no edges."""
    w = edges.matrix().double()
    a = torch.tensor(side, dtype=torch.bool)
    cut, volumes = float(w[a][:, ~a].sum()), (float(w[a].sum()), float(w[~a].sum()))
    return sum(cut / v for v in volumes) if min(volumes) > 0 else float("inf")


@every_graph
def test_every_state_has_its_normalised_cut_and_none_above_2(edges: Edges) -> None:
    energy, sides = CutShares(edges), list(itertools.product((0, 1), repeat=8))
    found = energy(2 * torch.tensor(sides).double() - 1)
    wanted = torch.tensor([min(2.0, by_hand(edges, side)) for side in sides], dtype=torch.float64)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-6)
    assert all(by_hand(edges, side) in (float("inf"),) or by_hand(edges, side) < 2 + 1e-9 for side in sides)


@every_graph
def test_the_differences_are_those_of_the_energies_and_the_gradient_is_autograds(edges: Edges) -> None:
    energy = CutShares(edges)
    x = energy.domain.enumerate().double()
    flipped = x.unsqueeze(1) * (1 - 2 * torch.eye(8, dtype=torch.float64))
    wanted = energy(flipped.flatten(0, 1)).view(-1, 8) - energy(x).unsqueeze(1)
    torch.testing.assert_close(energy.flip_differences(x), wanted, rtol=0, atol=1e-9)
    index = torch.tensor([[3, 0]]).expand(len(x), -1)
    torch.testing.assert_close(energy.flip_differences(x, index), wanted[:, [3, 0]], rtol=0, atol=1e-9)
    inside = (0.9 * x).requires_grad_()
    value = energy(inside)
    (grad,) = torch.autograd.grad(value.sum(), inside)
    torch.testing.assert_close(energy.value_and_grad(inside.detach()), (value.detach(), grad), rtol=1e-6, atol=1e-7)
    assert energy.value_and_grad(x)[1].isfinite().all()


@every_graph
def test_every_state_decodes_to_two_sides_no_worse_than_its_energy(edges: Edges) -> None:
    problem = NormalisedCut(edges)
    x = problem.energy.domain.enumerate().double()
    found = problem.decode(x)
    values = [by_hand(edges, tuple(side)) for side in found.bits.tolist()]
    assert found.value.tolist() == pytest.approx(values, abs=1e-6)
    assert (found.value <= problem.energy(x).double() + 1e-5).all()
    sides = itertools.product((0, 1), repeat=8)
    assert float(found.value.min()) == pytest.approx(min(by_hand(edges, side) for side in sides), abs=1e-6)


@cases("sampler", [GibbsSweep(), PathAuxiliary()], fast=[1])
def test_two_groups_are_found(sampler: GibbsSweep | PathAuxiliary) -> None:
    """20 nodes in two complete groups of 10 with one edge between: 1 / 91 on each side."""
    torch.manual_seed(0)
    w = torch.block_diag(torch.ones(10, 10), torch.ones(10, 10)) - torch.eye(20)
    w[0, 10] = w[10, 0] = 1.0
    problem = NormalisedCut(Edges.of(w))
    found = minimise(problem.energy, sampler, num_chains=30, num_steps=200)
    assert float(problem.decode(found.x).value.min()) == pytest.approx(2 / 91, abs=1e-6)


def test_weights_that_are_not_positive_are_one_line() -> None:
    for weights in (torch.zeros(3, 3), torch.eye(3) - 1):
        with pytest.raises(UserError, match="all weights of edges must be positive"):
            NormalisedCut(Edges.of(weights))


def test_it_is_solved_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.col").write_text("p edge 6 7\ne 1 2\ne 2 3\ne 1 3\ne 4 5\ne 5 6\ne 4 6\ne 3 4\n")
    assert isinstance(pose("a.col", "normalised_cut"), NormalisedCut)
    main(["solve", "a.col", "--problem=normalised_cut", "--seconds=0.3", "--chains=20", "--steps=50", "--name=b"])
    there = json.loads(Path("runs/a/b/solution.json").read_text())
    assert there["value"] == pytest.approx(2 / 7) and sum(there["bits"]) == 3
