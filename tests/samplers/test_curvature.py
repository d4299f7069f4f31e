"""W by least squares, D by the three rules: known Hessians, optimality certificates, cvxpy as the reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import networkx as nx
import pytest
import torch
from helpers_tier import cases
from torch import Tensor

from ebmlab.samplers.tuners.curvature import GradientDifferences, diagonal_max, diagonal_shift, diagonal_trace

RULES = {"shift": diagonal_shift, "max": diagonal_max, "trace": diagonal_trace}


def symmetric(d: int, seed: int = 0) -> Tensor:
    a = torch.randn(d, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return (a + a.T) / 2


def adjacency(graph: Any) -> Tensor:
    return 0.4407 * torch.tensor(nx.to_numpy_array(graph))


def rotated(d: int) -> Tensor:
    q, _ = torch.linalg.qr(symmetric(d))
    return -(q * torch.linspace(1, 50, d, dtype=torch.float64)) @ q.T


MATRICES = {
    "one": torch.tensor([[-3.0]], dtype=torch.float64),
    "indefinite": symmetric(12),
    "rotated Gaussian": rotated(20),
    "grid": adjacency(nx.grid_2d_graph(5, 5)),
    "scale-free graph": adjacency(nx.barabasi_albert_graph(30, 4, seed=0)),
    "large": 1e6 * symmetric(8),
    "small": 1e-6 * symmetric(8),
    "positive": symmetric(8) @ symmetric(8),
    "singular": torch.ones(6, 6, dtype=torch.float64),
    "zero": torch.zeros(5, 5, dtype=torch.float64),
}


def fitted(dx: Tensor, dgrad: Tensor, ridge: float = 1e-6) -> Tensor:
    pairs = GradientDifferences(dx.shape[1])
    pairs.add(dx, dgrad)
    return pairs.curvature(ridge)


def lowest(M: Tensor) -> float:
    return float(torch.linalg.eigvalsh(M)[0])


@pytest.mark.parametrize("ridge", [0.0, 1e-6])
def test_a_quadratic_gives_back_its_hessian(ridge: float) -> None:
    torch.manual_seed(0)
    W, dx = symmetric(10), torch.randint(-2, 3, (300, 2, 5)).double()
    pairs = GradientDifferences(10)
    for chunk in dx.split(70):
        pairs.add(chunk, (chunk.flatten(1) @ W).view_as(chunk))
    torch.testing.assert_close(pairs.curvature(ridge), W, rtol=0, atol=1e-12 + 10 * ridge)


def test_it_is_the_least_squares_optimum_over_symmetric_matrices() -> None:
    """For gradients that no matrix fits, the slope is zero in all symmetric directions and in no others."""
    torch.manual_seed(0)
    dx, dgrad = torch.randn(2, 200, 6, dtype=torch.float64)
    W = fitted(dx, dgrad, 0.0).requires_grad_()
    (dx @ W - dgrad).square().sum().backward()
    assert W.grad is not None and (W.grad + W.grad.T).abs().max() < 1e-10
    assert torch.equal(W, W.T) and (W.grad - W.grad.T).abs().max() > 1


def test_the_ridge_is_in_units_of_the_mean_eigenvalue() -> None:
    """With it the slope of |W dx - dgrad|^2 + ridge mean |W|^2 is zero in all symmetric directions."""
    torch.manual_seed(0)
    dx, dgrad = torch.randn(2, 200, 6, dtype=torch.float64)
    W = fitted(dx, dgrad, 0.5).requires_grad_()
    mean = torch.linalg.eigvalsh(dx.T @ dx).mean()
    ((dx @ W - dgrad).square().sum() + 0.5 * mean * W.square().sum()).backward()
    assert W.grad is not None and (W.grad + W.grad.T).abs().max() < 1e-10


def test_entries_that_no_pair_determines_are_zero() -> None:
    """Coordinate 2 never moves. The moves of the others determine its column, and its own curvature stays 0."""
    torch.manual_seed(0)
    W, dx = symmetric(4), torch.randn(100, 4, dtype=torch.float64)
    dx[:, 2] = 0
    estimate = fitted(dx, dx @ W)
    expected = W.clone()
    expected[2, 2] = 0
    torch.testing.assert_close(estimate, expected, rtol=0, atol=1e-4)
    assert torch.equal(fitted(0 * dx, 0 * dx), torch.zeros(4, 4, dtype=torch.float64))
    few = fitted(dx[:2], dx[:2] @ W)  # two pairs do not determine ten numbers
    torch.testing.assert_close(dx[:2] @ few, dx[:2] @ W, rtol=0, atol=1e-4)
    assert few.abs().max() < 2 * W.abs().max()


def test_sums_are_float64_for_float32_chains() -> None:
    torch.manual_seed(0)
    W, pairs = symmetric(3), GradientDifferences(3)
    for _ in range(50):
        dx = 1e-3 * torch.randn(10, 3)
        pairs.add(dx, dx @ W.float())
    assert pairs.squares.dtype == torch.float64
    torch.testing.assert_close(pairs.curvature(), W, rtol=0, atol=1e-4)


@pytest.mark.parametrize("W", MATRICES.values(), ids=MATRICES)
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_rule_is_feasible(rule: Callable[[Tensor], Tensor], W: Tensor, dtype: torch.dtype) -> None:
    D = rule(W.to(dtype))
    rounding = (1e-14 if dtype == torch.float64 else 1e-6) * float(W.abs().max()) * len(W)
    assert D.dtype == dtype and D.shape == W.shape[:1] and D.min() >= 0
    assert lowest(W + D.double().diag()) >= -rounding


@pytest.mark.parametrize("W", MATRICES.values(), ids=MATRICES)
def test_rules_are_ordered_by_what_they_minimise(W: Tensor) -> None:
    D = {name: rule(W) for name, rule in RULES.items()}
    slack = 1e-5 * max(float(W.abs().max()), 1e-2) * len(W)
    assert D["trace"].sum() <= min(D["max"].sum(), D["shift"].sum()) + slack
    top = {name: float(torch.linalg.eigvalsh(W + d.diag())[-1]) for name, d in D.items()}
    assert top["max"] <= min(top["trace"], top["shift"]) + slack
    assert torch.equal(D["shift"], D["shift"][0].expand(len(W)))
    assert float(D["shift"][0]) == pytest.approx(max(0.0, -lowest(W)), abs=slack)


def test_the_papers_example() -> None:
    """Sec. 3.2: `shift` gives all coordinates the variance of the narrowest one; `trace` does not."""
    W = -torch.ones(20, dtype=torch.float64)
    W[0] = -100
    torch.testing.assert_close(diagonal_shift(W.diag()), torch.full_like(W, 100))
    torch.testing.assert_close(diagonal_trace(W.diag()), -W, rtol=1e-3, atol=1e-3)


def test_closed_forms() -> None:
    """Two coordinates: least D_1 + D_2 with (a + D_1) (b + D_2) = c^2. Bipartite graph: D_i is the weighted degree."""
    W = torch.tensor([[-1.0, 2.0], [2.0, 0.5]], dtype=torch.float64)
    torch.testing.assert_close(diagonal_trace(W), torch.tensor([3, 1.5], dtype=torch.float64), rtol=1e-4, atol=0)
    grid = MATRICES["grid"]
    torch.testing.assert_close(diagonal_trace(grid).sum(), grid.sum(), rtol=1e-6, atol=0)


@cases("W", MATRICES, fast=list(MATRICES)[:4])
def test_dual_bound_of_the_trace(W: Tensor) -> None:
    """tr D is at least -tr(W V V') for rows of V no longer than 1; coordinate ascent on them finds the best V."""
    torch.manual_seed(0)
    V = torch.nn.functional.normalize(torch.randn_like(W))
    for i in [*range(len(W))] * 300:
        pull = W[i] @ V - W[i, i] * V[i]
        V[i] = -pull / torch.maximum(pull.norm(), W[i, i]) if pull.any() else (W[i, i] < 0) * V[i]
    assert V.norm(dim=1).max() < 1 + 1e-12
    bound, scale = -float((W * (V @ V.T)).sum()), float(W.abs().max()) * len(W)
    assert bound - 1e-9 * scale <= float(diagonal_trace(W).sum()) <= bound + 1e-4 * scale + 1e-5


@cases("W", MATRICES, fast=list(MATRICES)[:4])
@pytest.mark.parametrize("rule", ["trace", "max"])
def test_against_cvxpy(rule: str, W: Tensor) -> None:
    cp = pytest.importorskip("cvxpy")
    scale = float(W.abs().max()) or 1.0
    d = len(W)
    D, top = cp.Variable(d, nonneg=True), cp.Variable()
    M = (W / scale).numpy() + cp.diag(D)
    eye = torch.eye(d).numpy()
    goal, constraints = (cp.sum(D), []) if rule == "trace" else (top, [top * eye - M >> 0])
    best = cp.Problem(cp.Minimize(goal), [M >> 0, *constraints]).solve(solver="CLARABEL")
    mine = RULES[rule](W)
    value = mine.sum() if rule == "trace" else torch.linalg.eigvalsh(W + mine.diag())[-1]
    assert float(value) / scale == pytest.approx(best, abs=1e-4, rel=1e-4)
