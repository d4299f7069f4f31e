"""A step of DMALA on an RBM as three kernels: the hidden side, the visible side, and the decision.

The hidden side draws y while it multiplies, and sums softplus of the inputs. The visible side makes the proposal at y,
and sums what decides. Sums over tiles are numbers for each chain and tile, which the decision adds up: no program waits
for another one, and none adds to another one's numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional

from ebmlab.energies import RBM, Energy
from ebmlab.errors import UserError
from ebmlab.fused.interpreter import tile_columns, tile_inner, tile_rows
from ebmlab.fused.tiles import added, coins, precision, product, seed, softplus
from ebmlab.samplers import DMALA, Info, Kernel, Sampler, State
from ebmlab.samplers.numbers import Number


@triton.jit
def hidden_kernel(
    x, logits, weight, bias, seed, y, means, sums, rows, visible, hidden,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, INNER: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Draws y, which the first tiles write. Writes E[h | y] `(rows, hidden)`, and sums of softplus `(tiles, rows)`."""
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside, along, key = row < rows, column < hidden, tl.load(seed)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for begin in range(0, visible, INNER):
        k = begin + tl.arange(0, INNER)
        here = inside[:, None] & (k < visible)[None, :]
        place = row[:, None] * visible + k[None, :]
        flips = coins(tl.sigmoid(tl.load(logits + place, mask=here, other=0.0)), key, place)
        bits = tl.where(here, tl.abs(tl.load(x + place, mask=here, other=0.0) - flips), 0.0)
        tl.store(y + place, bits, mask=here & (tl.program_id(1) == 0))
        at = weight + k[:, None] * hidden + column[None, :]
        w = tl.load(at, mask=(k < visible)[:, None] & along[None, :], other=0.0)
        total = added(total, bits, w, PRECISION)
    total += tl.load(bias + column, mask=along, other=0.0)[None, :]
    mask = inside[:, None] & along[None, :]
    tl.store(means + row[:, None] * hidden + column[None, :], tl.sigmoid(total), mask=mask)
    tl.store(sums + tl.program_id(1) * rows + row, tl.sum(tl.where(mask, softplus(total), 0.0), 1), mask=inside)


@triton.jit
def visible_kernel(
    x, logits, y, means, weight, bias, alpha, beta, new_logits, sums, rows, visible, hidden,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, INNER: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Writes the logits of flips from y, and sums `(tiles, rows)` of log q(x | y) - log q(y | x) + b_v'(y - x)."""
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    field = product(means, weight, row, column, rows, hidden, visible, 1, hidden, ROWS, COLUMNS, INNER, PRECISION)
    along = tl.load(bias + column, mask=column < visible, other=0.0)[None, :]
    mask = (row < rows)[:, None] & (column < visible)[None, :]
    place = row[:, None] * visible + column[None, :]
    before, after = tl.load(x + place, mask=mask, other=0.0), tl.load(y + place, mask=mask, other=0.0)
    there = tl.load(logits + place, mask=mask, other=0.0)
    back = -2.0 * tl.load(beta) * (after - 0.5) * (field + along) - 0.5 / tl.load(alpha)
    tl.store(new_logits + place, back, mask=mask)
    flips = tl.abs(after - before)
    ratio = flips * (back - there) - softplus(back) + softplus(there) + along * (after - before)
    tl.store(sums + tl.program_id(1) * rows + row, tl.sum(tl.where(mask, ratio, 0.0), 1), mask=row < rows)


@triton.jit
def decide_kernel(
    x, logits, free, y, new_logits, hidden_sums, visible_sums, seed, next_x, next_logits, next_free, probability,
    rows, visible, hidden_tiles, visible_tiles, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Accepts y with min(1, exp(log ratio)). Each tile of a chain decides alike; the first writes its numbers."""
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = row < rows
    there, ratio = tl.zeros((ROWS,), tl.float32), tl.zeros((ROWS,), tl.float32)
    for tile in range(0, hidden_tiles):
        there += tl.load(hidden_sums + tile * rows + row, mask=inside, other=0.0)
    for tile in range(0, visible_tiles):
        ratio += tl.load(visible_sums + tile * rows + row, mask=inside, other=0.0)
    here = tl.load(free + row, mask=inside, other=0.0)
    ratio += there - here
    chance = tl.exp(tl.where(ratio > 0, 0.0, ratio))  # NaN stays, and is rejected
    accepted = tl.rand(tl.load(seed), -1 - row) < chance  # flips have the places from 0 on
    first = inside & (tl.program_id(1) == 0)
    tl.store(probability + row, chance, mask=first)
    tl.store(next_free + row, tl.where(accepted, there, here), mask=first)
    mask = inside[:, None] & (column < visible)[None, :]
    at = row[:, None] * visible + column[None, :]
    old, new = tl.load(x + at, mask=mask, other=0.0), tl.load(y + at, mask=mask, other=0.0)
    tl.store(next_x + at, tl.where(accepted[:, None], new, old), mask=mask)
    old, new = tl.load(logits + at, mask=mask, other=0.0), tl.load(new_logits + at, mask=mask, other=0.0)
    tl.store(next_logits + at, tl.where(accepted[:, None], new, old), mask=mask)


@dataclass(kw_only=True)
class FusedState(State):
    """x with what the next step needs there.

    Attributes:
        logits: of the flips that a step proposes, `(B, V)`.
        free: the sum over hidden units of softplus of their inputs, `(B,)`.
    """

    logits: Tensor
    free: Tensor


def start(energy: Energy, x: Tensor, settings: Sequence[Number]) -> FusedState:
    """The state at x by torch's own operations."""
    alpha, beta = settings
    x = x.contiguous()  # logits get its layout, and kernels read rows
    inputs = cast(RBM, energy).hidden_given_visible(x)
    field = cast(RBM, energy).visible_given_hidden(inputs.sigmoid())
    return FusedState(x=x, logits=-2 * beta * (x - 0.5) * field - 0.5 / alpha, free=functional.softplus(inputs).sum(1))


def step(energy: Energy, state: FusedState, settings: Sequence[Number]) -> tuple[FusedState, Info]:
    """Draws y from q( . | x), and accepts with min(1, p(y) q(x | y) / (p(x) q(y | x)))."""
    rbm, x = cast(RBM, energy), state.x.contiguous()
    weight, (visible, hidden), rows = rbm.W.detach().contiguous(), rbm.W.shape, len(x)
    tall, up, over = tile_rows(rows), tile_columns(hidden), tile_columns(visible)
    alpha, beta = (  # a copy of a number to a GPU would be waited for
        number.to(x) if isinstance(number, Tensor) else x.new_full((), number) for number in settings
    )
    down, ups, overs = (triton.cdiv(n, size) for n, size in ((rows, tall), (hidden, up), (visible, over)))
    y, new_logits, next_x, next_logits = (torch.empty_like(x) for _ in range(4))
    means, hidden_sums, visible_sums = x.new_empty(rows, hidden), x.new_empty(ups, rows), x.new_empty(overs, rows)
    next_free, probability, key = x.new_empty(rows), x.new_empty(rows), seed(x.device)
    hidden_kernel[down, ups](
        x, state.logits, weight, rbm.b_h.detach(), key, y, means, hidden_sums, rows, visible, hidden,
        ROWS=tall, COLUMNS=up, INNER=tile_inner(visible), PRECISION=precision(bits=True),
    )  # fmt: skip
    visible_kernel[down, overs](
        x, state.logits, y, means, weight, rbm.b_v.detach(), alpha, beta, new_logits, visible_sums,
        rows, visible, hidden, ROWS=tall, COLUMNS=over, INNER=tile_inner(hidden), PRECISION=precision(bits=False),
    )  # fmt: skip
    decide_kernel[down, overs](
        x, state.logits, state.free, y, new_logits, hidden_sums, visible_sums, key,
        next_x, next_logits, next_free, probability, rows, visible, ups, overs,
        ROWS=tall, COLUMNS=over,
    )  # fmt: skip
    new = FusedState(x=next_x, logits=next_logits, free=next_free)
    return new, Info(probability, lambda: energy.domain.hops(next_x, x))


def kernel(sampler: Sampler, energy: Energy) -> Kernel:
    """The steps as functions."""
    dmala = cast(DMALA, sampler)
    if not cast(RBM, energy).has_bits:
        raise UserError("Fused sums over hidden units that are bits, but those of this RBM are not: leave Fused out")
    precondition, window, stochastic = dmala.options.plain()
    if precondition is not None or window is not None or stochastic:
        raise UserError("Fused takes DMALA without precondition, window and stochastic gradients: leave Fused out")
    return Kernel(start, step, dmala.settings())
