"""The affine map of rows, and of a single row in a compiled program."""

from __future__ import annotations

import pytest
import torch
from helpers_tier import cases

import ebmlab.numerics.affine as module
from ebmlab.energies import GRBM, RBM
from ebmlab.numerics.affine import affine


@pytest.fixture(autouse=True, params=[False, True], ids=["library's product", "written out"])
def wide(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WIDE", request.param)
    torch.compiler.reset()


@cases("rows", [0, 1, 3], fast=[0, 1])
@pytest.mark.parametrize(("turned", "size"), [(False, 5), (False, 12), (True, 5)])  # 12 rows are added in three parts
def test_it_is_the_same_in_a_program(rows: int, turned: bool, size: int) -> None:
    bias, x, matrix = torch.randn(4), torch.randn(rows, size), torch.randn(size, 4)
    matrix = matrix.T.contiguous().T if turned else matrix
    expected = bias + x @ matrix
    torch.testing.assert_close(affine(bias, x, matrix), expected)
    torch.compiler.reset()  # after eight shapes the function would no longer be compiled
    torch.testing.assert_close(torch.compile(affine, backend="eager", fullgraph=True)(bias, x, matrix), expected)


@pytest.mark.parametrize("energy", [RBM(5, 4), GRBM(5, 4)])
def test_energies_of_one_state_are_the_same_in_a_program(energy: RBM | GRBM) -> None:
    x = torch.randn(1, 5).sign().relu()
    value, grad = torch.compile(energy.value_and_grad, backend="eager")(x)
    torch.testing.assert_close((value, grad), energy.value_and_grad(x))
