"""Sums of log(1 + exp(x)), against torch's softplus in double precision."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from helpers_mutants import mutant
from helpers_tier import cases
from torch import Tensor
from torch.nn.functional import softplus

import ebmlab.numerics.softplus as module
from ebmlab.numerics.softplus import sum_softplus

WIDTHS = [1, 2, 7, 64, 499, 500, 784, 1024]
SPREADS = [0.1, 3.0, 30.0, 3000.0]


def agrees(function: Callable[[Tensor], Tensor], x: Tensor) -> bool:
    """Whether each sum is as exact as a sum of float32 numbers can be."""
    with torch.no_grad():
        found, terms = function(x), softplus(x.double())
    error = (found.double() - terms.sum(-1)).abs()
    return bool((error < 1.2e-7 * x.shape[-1] + 1e-6 * terms.sum(-1)).all())


@cases("width", WIDTHS, fast=[0, 2, 4, 7])
@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("rows", [(), (1,), (2000,), (3, 700)])
def test_sums_are_exact(width: int, spread: float, rows: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    x = spread * torch.randn(*rows, width)
    assert sum_softplus(x).shape == rows and agrees(sum_softplus, x)
    if spread == 30 and len(rows) < 2:
        torch.compiler.reset()  # after eight shapes the function would no longer be compiled
        assert agrees(torch.compile(sum_softplus, backend="eager", fullgraph=True), x)


def test_double_precision_is_kept() -> None:
    x = torch.randn(2000, 500, dtype=torch.float64)
    with torch.no_grad():
        torch.testing.assert_close(sum_softplus(x), softplus(x).sum(-1), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(
    ("old", "new"),
    [("x.abs()", "x"), ("x.relu().sum(-1) + ", ""), ("x.relu().sum(-1)", "x.sum(-1)")],
)
def test_mutants_differ(old: str, new: str) -> None:
    wrong = mutant(sum_softplus, old, new)
    assert not agrees(wrong, torch.randn(2000, 100))
    torch.compiler.reset()
    assert not agrees(torch.compile(wrong, backend="eager", fullgraph=True), torch.randn(2000, 100))


@pytest.mark.parametrize(("old", "new"), [("1 + (-x).exp()", "(-x).exp()"), ("(-x).exp()", "x.exp()")])
def test_mutants_in_programs_differ(old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "sum_log1p_exp_minus", mutant(module.sum_log1p_exp_minus, old, new))
    torch.compiler.reset()
    assert agrees(sum_softplus, torch.randn(2000, 100))
    assert not agrees(torch.compile(sum_softplus, backend="eager", fullgraph=True), torch.randn(2000, 100))


def test_products_stay_above_the_smallest_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.zeros(10, 1024)  # the smallest factors, 1 / 2
    assert agrees(sum_softplus, x)
    monkeypatch.setattr(module, "FOLDS", 8)
    assert not agrees(sum_softplus, x)


def test_infinite_numbers_and_nan_are_not_masked() -> None:
    x = torch.zeros(4, 500)
    x[0, 3], x[1, 3], x[2, 3] = torch.nan, torch.inf, -torch.inf
    with torch.no_grad():
        found = sum_softplus(x)
    assert found[0].isnan() and found[1] == torch.inf
    torch.testing.assert_close(found[2:], torch.tensor([499.0, 500.0]) * torch.tensor(2.0).log())


def test_gradients_are_those_of_softplus() -> None:
    """At 0, too, where the formula without a gradient has a kink."""
    x = torch.linspace(-20, 20, 2001)
    x[1000] = 0.0
    x.requires_grad_()
    sum_softplus(x).backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    torch.testing.assert_close(x.grad, x.detach().sigmoid())
    with torch.no_grad():  # as samplers differentiate inside a compiled program
        pulled = torch.func.grad(sum_softplus)(x.detach())
        compiled = torch.compile(torch.func.grad(sum_softplus), backend="eager")(x.detach())
    torch.testing.assert_close(pulled, x.detach().sigmoid())
    torch.testing.assert_close(compiled, x.detach().sigmoid())
