"""An affine map of rows, `x W + b`, as compiled programs compute it fastest."""

from __future__ import annotations

from math import isqrt

import torch
from torch import Tensor

WIDE = torch.backends.cpu.get_cpu_capability() == "AVX512"  # whether the compiler writes the product of one row


def by_compiler(x: Tensor) -> bool:
    """Whether a compiled program with AVX-512 writes the products of rows x `(B, ...)` itself: of a single row.

    That took half the time of the library's product on one machine. With AVX2, on another, it took longer.
    """
    return WIDE and len(x) == 1 and x.device.type == "cpu"


def affine(bias: Tensor, x: Tensor, matrix: Tensor) -> Tensor:
    """`x @ matrix + bias` of rows x `(B, n)`, `(B, m)`.

    A program adds the rows of a matrix in two stages. The sums of the first do not wait for each other.
    """
    if not (torch.compiler.is_dynamo_compiling() and by_compiler(x)):
        return torch.addmm(bias, x, matrix)
    if not matrix.is_contiguous():
        return torch.addmv(bias, matrix.T, x[0]).unsqueeze(0)
    parts = _divisor(len(matrix))
    return (x.view(parts, -1, 1) * matrix.view(parts, -1, matrix.shape[1])).sum(1).sum(0, keepdim=True) + bias


def _divisor(number: int) -> int:
    """The largest divisor that is at most the square root."""
    return next(k for k in range(isqrt(number), 0, -1) if number % k == 0)
