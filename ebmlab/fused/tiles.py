"""What several kernels share: products of tiles, coins, and a fresh seed."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ebmlab.fused.interpreter import interpreted
from ebmlab.numerics.float32 import Float32Settings

HALF = tl.constexpr(tl.float32 if interpreted() else tl.bfloat16)  # the interpreter cannot multiply bfloat16 numbers


def precision(*, bits: bool) -> str:
    """How products are computed, as `torch.set_float32_matmul_precision` says: in float32 ("highest"), or faster.

    Bits are then multiplied by "pieces" of the weights, which lose no digit; other numbers are rounded to TF32.
    """
    return "ieee" if Float32Settings.now().matmul == "highest" else "pieces" if bits else "tf32"


def seed(device: torch.device) -> Tensor:
    """63 random bits from torch's generator on the device, `(1,)`: a CUDA graph draws them anew at each replay."""
    return torch.empty(1, dtype=torch.int64, device=device).random_()


@triton.jit
def coins(p, seed, place):
    """1 with probability p, else 0; NaN where p is NaN. Uniform numbers are multiples of 2^-31, in float32."""
    return tl.where(p == p, (tl.rand(seed, place) < p).to(tl.float32), p)


@triton.jit
def softplus(x):
    """log(1 + exp(x)); NaN stays."""
    return tl.where(x > 0, x, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(x))) + x * 0.0


@triton.jit
def added(total, left, right, PRECISION: tl.constexpr):
    """Total + left @ right. "pieces" takes bits: each weight is the sum of three bfloat16 numbers, for tensor cores."""
    if PRECISION == "pieces":
        for _ in tl.static_range(3):
            piece = right.to(tl.bfloat16)
            total = tl.dot(left.to(HALF), piece.to(HALF), total)
            right -= piece.to(tl.float32)
    else:
        total = tl.dot(left, right, total, input_precision=PRECISION)
    return total


@triton.jit
def product(
    left, right, row, column, rows, inner, columns, by_inner, by_column, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    INNER: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """A tile of left `(rows, inner)` @ right `(inner, columns)`, whose strides are given; 0 outside of them."""
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    inside, along = row < rows, column < columns
    for begin in range(0, inner, INNER):
        k = begin + tl.arange(0, INNER)
        a = tl.load(left + row[:, None] * inner + k[None, :], mask=inside[:, None] & (k < inner)[None, :], other=0.0)
        at = right + k[:, None] * by_inner + column[None, :] * by_column
        b = tl.load(at, mask=(k < inner)[:, None] & along[None, :], other=0.0)
        total = added(total, a, b, PRECISION)
    return total
