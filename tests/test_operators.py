"""Operators that programs call are what torch takes them for, and agree with the functions they are made of."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import ebmlab.native  # noqa: F401 - defines operators
from ebmlab.numerics.operators import operator

SEED, WORDS = torch.tensor(2**61 + 12345), torch.tensor([5, 2**61, 7])
P = torch.linspace(0, 1, 4096).view(64, 64)
CALLS: dict[str, tuple[Any, ...]] = {
    "uniforms": ("drawn", "uniforms", P, SEED),
    "bits": ("drawn", "bits", P.T, SEED),
    "bits of columns": ("drawn", "bits_of_logits", P.T.contiguous().T, SEED),
    "bits of a slice": ("drawn", "bits", P.repeat(2, 2)[:, 3:70], SEED),
    "words": ("words", P, WORDS),
    "affine": ("affine", torch.ones(500), torch.ones(100, 784), torch.ones(784, 500)),
    "affine of columns": ("affine", torch.ones(500), torch.ones(100, 784), torch.ones(500, 784).T),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_shapes_and_layouts_are_as_promised(call: tuple[Any, ...]) -> None:
    name, *args = call
    with torch.no_grad():
        torch.library.opcheck(
            getattr(torch.ops.ebmlab, name).default, args, test_utils=("test_schema", "test_faketensor")
        )


def test_it_is_the_function() -> None:
    twice = operator("twice_for_a_test(Tensor x)", lambda x: 2 * x, torch.empty_like)
    torch.compiler.reset()
    program = torch.compile(lambda x: twice(x) + 1, backend="aot_eager", fullgraph=True)
    assert torch.equal(program(torch.arange(3.0)), torch.tensor([1.0, 3.0, 5.0]))
