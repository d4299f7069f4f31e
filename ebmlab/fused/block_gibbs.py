"""A step of block Gibbs on an RBM as two kernels, which are the same one: products, sigmoids and coins of a layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import triton
import triton.language as tl
from torch import Tensor

from ebmlab.energies import RBM, Energy
from ebmlab.errors import UserError
from ebmlab.fused.interpreter import tile_columns, tile_inner, tile_rows
from ebmlab.fused.tiles import coins, precision, product, seed
from ebmlab.samplers import Info, Kernel, Sampler, State
from ebmlab.samplers.numbers import Number


@triton.jit
def layer_kernel(
    given, weight, bias, seed, drawn, rows, inner, columns, by_inner, by_column,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, INNER: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Draws bits `(rows, columns)` with log-odds given @ weight + bias."""
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    total = product(
        given, weight, row, column, rows, inner, columns, by_inner, by_column, ROWS, COLUMNS, INNER, PRECISION
    )
    total += tl.load(bias + column, mask=column < columns, other=0.0)[None, :]
    place = row[:, None] * columns + column[None, :]
    bits = coins(tl.sigmoid(total), tl.load(seed), place)
    tl.store(drawn + place, bits, mask=(row < rows)[:, None] & (column < columns)[None, :])


def layer(given: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Bits `(B, n)` with log-odds given @ weight + bias, given `(B, m)` and weight `(m, n)`."""
    (rows, inner), columns = given.shape, len(bias)
    drawn, tall, wide = given.new_empty(rows, columns), tile_rows(rows), tile_columns(columns)
    layer_kernel[triton.cdiv(rows, tall), triton.cdiv(columns, wide)](
        given.contiguous(), weight, bias, seed(given.device), drawn, rows, inner, columns, *weight.stride(),
        ROWS=tall, COLUMNS=wide, INNER=tile_inner(inner), PRECISION=precision(bits=True),
    )  # fmt: skip
    return drawn


def start(energy: Energy, x: Tensor, settings: Sequence[Number]) -> State:
    """The state x."""
    return State(x=x)


def step(energy: Energy, state: State, settings: Sequence[Number]) -> tuple[State, Info]:
    """H ~ p(h | x), and then the next x ~ p(v | h). A NaN of the parameters reaches x, and the report."""
    rbm = cast(RBM, energy)
    hidden = layer(state.x, rbm.W.detach(), rbm.b_h.detach())
    x = layer(hidden, rbm.W.detach().T, rbm.b_v.detach())
    return State(x=x), Info(lambda: x.sum(1).clamp(1, 1), lambda: energy.domain.hops(x, state.x))


def kernel(sampler: Sampler, energy: Energy) -> Kernel:
    """The steps as functions."""
    if not cast(RBM, energy).has_bits:
        raise UserError("Fused draws hidden units that are bits, but those of this RBM are not: leave Fused out")
    return Kernel(start, step)
