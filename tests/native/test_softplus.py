"""Sums of log(1 + exp(x)) in C++: against float64, with sigmoids, odd shapes and numbers, threads, and mutants."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from helpers_native import replace, unchecked
from helpers_tier import cases
from torch import Tensor

from ebmlab.native import softplus, sum_softplus, sum_softplus_and_sigmoid
from ebmlab.native.softplus import kernel

pytestmark = pytest.mark.usefixtures("sampling")
needs_kernel = pytest.mark.skipif(kernel() is None, reason="needs a C++ compiler, Linux, and AVX2 or AVX-512")
SHAPES = [(1, 1024), (3, 500), (100, 784), (1030, 1), (700, 7), (33, 97), (5, 16 * 96), (2, 16 * 97 + 3)]


def agrees(x: Tensor) -> bool:
    """Whether sums and sigmoids are as exact as float32 numbers can be."""
    sums, sigmoids = sum_softplus_and_sigmoid(x)
    terms = torch.nn.functional.softplus(x.double())
    errors = [(found.double() - terms.sum(-1)).abs() for found in (sums, sum_softplus(x))]
    close = all(bool((e < 1.2e-7 * x.shape[-1] + 1e-6 * terms.sum(-1)).all()) for e in errors)
    return close and torch.allclose(sigmoids.double(), x.double().sigmoid(), rtol=1e-6, atol=1e-37)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("spread", [0.0, 0.1, 3.0, 30.0, 3000.0])
def test_sums_and_sigmoids_are_exact(shape: tuple[int, int], spread: float) -> None:
    torch.manual_seed(0)
    assert agrees(spread * torch.randn(shape))


@needs_kernel
def test_the_kernel_is_what_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch's way is out of reach. Rows may lie apart."""
    monkeypatch.setattr(softplus.softplus, "sum_softplus", None)
    for x in (torch.randn(100, 784), torch.randn(100, 900)[:, 50:834], torch.randn(200, 50)[::2], torch.randn(1030, 1)):
        assert agrees(x)


def test_rows_of_any_layout_are_summed() -> None:
    x = torch.randn(784, 100)
    for part in (x.T, x[:, ::2], torch.randn(784).expand(50, -1), torch.randn(1, 2000)):
        assert agrees(part)
    assert torch.equal(sum_softplus(torch.zeros(2000, 0)), torch.zeros(2000))
    assert sum_softplus(torch.randn(3, 50, 20)).shape == (3, 50)


def test_what_is_not_finite_stays() -> None:
    x = torch.randn(4, 784)
    x[0, 783], x[1, 5], x[2, 16] = torch.nan, torch.inf, -torch.inf
    sums, sigmoids = sum_softplus_and_sigmoid(x)
    assert sums[0].isnan() and sums[1] == torch.inf and sums[2:].isfinite().all()
    assert sigmoids[0, 783].isnan() and sigmoids[1, 5] == 1 and sigmoids[2, 16] == 0
    assert sigmoids.isnan().sum() == 1


def test_autograd_and_float64_have_torchs() -> None:
    x = torch.randn(100, 100, dtype=torch.float64)
    torch.testing.assert_close(sum_softplus(x), torch.nn.functional.softplus(x).sum(1), rtol=1e-13, atol=0)
    with torch.enable_grad():
        y = torch.randn(100, 100, requires_grad=True)
        sums, sigmoids = sum_softplus_and_sigmoid(y)
        (slope,) = torch.autograd.grad(sums.sum(), y)
    torch.testing.assert_close(slope, sigmoids.detach())


@needs_kernel
def test_the_number_of_threads_changes_no_bit() -> None:
    x, before, found = torch.randn(130, 784), torch.get_num_threads(), []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            found.append(sum_softplus_and_sigmoid(x))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(one, three) for one, three in zip(*found, strict=True))


MUTANTS = {
    "no logarithm at the end": ("sum(sum + logarithm(product))", "sum(sum)"),
    "products are lost": ("sum += logarithm(product);", ""),
    "products go on": ("      product = all(1.f);", ""),
    "no positive part": ("sum += x < 0.f ? Floats{} : x;", ""),
    "sigmoids": ("(x < 0.f ? e : all(1.f)) / factor", "e / factor"),
    "the rest of a row": ("Floats rest = all(-INFINITY);", "Floats rest{};"),
    "rows": ("x + i * stride, count, means + i * count", "x, count, means + i * count"),
}


@needs_kernel
@cases(("old", "new"), MUTANTS, fast=["products are lost"])
def test_a_wrong_kernel_is_noticed(old: str, new: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    right = kernel()
    replace(old, new, tmp_path, monkeypatch)
    library = unchecked("softplus", right)
    monkeypatch.setattr(softplus, "kernel", lambda: library)
    assert not all(agrees(3 * torch.randn(shape)) for shape in SHAPES)


@needs_kernel
def test_a_kernel_whose_sums_come_out_wrong_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    replace("x < 0.f ? Floats{} : x;", "x;", tmp_path, monkeypatch)
    assert kernel.__wrapped__() is None
