"""An affine map of rows, `x W + b`, as compiled programs compute it fastest."""

from __future__ import annotations

import torch
from torch import Tensor

WIDE = torch.backends.cpu.get_cpu_capability() == "AVX512"  # whether the compiler writes the product of one row


def affine(bias: Tensor, x: Tensor, matrix: Tensor) -> Tensor:
    """`x @ matrix + bias` of rows x `(B, n)`, `(B, m)`.

    A compiled program with AVX-512 computes a single row as a product of a matrix and a vector. The compiler writes it
    itself, which took half the time of the library's product on one machine. With AVX2, on another, it took longer.
    """
    if WIDE and torch.compiler.is_dynamo_compiling() and len(x) == 1:
        return torch.addmv(bias, matrix.T, x[0]).unsqueeze(0)
    return torch.addmm(bias, x, matrix)
