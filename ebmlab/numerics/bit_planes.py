"""Arithmetic on planes: tensors of int64 words, of which each bit is a digit of a number of its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from ebmlab.numerics.noise import raw_words

LEVELS = 32  # binary digits of a probability, which is rounded to a multiple of 2^-32
REST = 22  # of them, the last, which are compared in the words alone that have a bit not decided before: 6 %
FEW = 2**12  # words of a plane, from which on adding rows takes less time than looking at each bit

Random = Callable[..., Tensor]
Planes = list[Tensor]


def random_words(device: torch.device) -> Random:
    """A source of words of 64 random bits, seeded by torch's global generator; it is called with a shape."""
    if device.type != "cpu":
        return lambda *shape: torch.empty(shape, dtype=torch.int64, device=device).random_(-(2**63), None)
    generator = raw_words(torch.randint(2**62, (3,)))
    return lambda *shape: torch.from_numpy(generator.random_raw(math.prod(shape)).view(np.int64)).view(shape)


def added(columns: Sequence[Planes]) -> Planes:
    """The binary digits of the sum over b of 2^b times the planes of column b, bit by bit, by full adders."""
    columns, digits = [list(column) for column in columns], []
    while columns:
        column, carries = columns.pop(0), []
        while len(column) > 2:
            a, b, c = column.pop(), column.pop(), column.pop()
            half = a ^ b
            column.append(half ^ c)
            carries.append((a & b) | (half & c))
        if len(column) == 2:
            a, b = column
            column = [a ^ b]
            carries.append(a & b)
        digits += column
        if carries:
            columns = [[*(columns[0] if columns else []), *carries], *columns[1:]]
    return digits


def chosen(digits: Planes, leaves: Sequence[Tensor | int | None]) -> Tensor | int | None:
    """For each bit, the leaf whose index its digits spell. A leaf may be 0 or -1; None means that any value will do."""
    if not digits:
        return leaves[0]
    low, high = (chosen(digits[1:], half) for half in (leaves[::2], leaves[1::2]))
    if low is None or high is None or low is high:
        return high if low is None else low
    if isinstance(low, int) and low == 0:
        return digits[0] if isinstance(high, int) else digits[0] & high
    return low ^ ((low ^ high) & digits[0])


def below(
    digits: Planes, shape: tuple[int, ...], thresholds: Sequence[int | None], levels: int, random: Random
) -> Tensor:
    """The bits whose uniform number, one of 2^levels, is below the threshold whose index their digits spell.

    The comparison begins at a threshold's lowest digit: each digit combines the result so far with random bits, by `or`
    if it is 1, else by `and`. The last `REST` levels are drawn only where all others equal the threshold's digits.
    """
    rest = REST if levels > REST else 0
    wanted = [t for t in thresholds if t is not None]
    no: dict[int, Tensor | int] = {t >> rest: 0 for t in wanted}
    yes: dict[int, Tensor | int] = {t >> rest: -1 for t in wanted if t % 2**rest}
    for level in range(levels - rest):
        bits = random(*shape)
        for planes in (no, yes):
            for top, plane in planes.items():
                planes[top] = _joined(plane, bits, top >> level & 1)
    lower = _plane(chosen(digits, [None if t is None else no[t >> rest] for t in thresholds]), bits)
    if not rest:
        return lower
    maybe = lower ^ _plane(chosen(digits, [None if t is None else (no | yes)[t >> rest] for t in thresholds]), bits)
    where = maybe.flatten().nonzero().squeeze(1)
    if len(where):
        lows = [None if t is None else t & (2**rest - 1) for t in thresholds]
        narrowed = [digit.flatten().index_select(0, where) for digit in digits]
        decided = below(narrowed, where.shape, lows, rest, random) & maybe.flatten().index_select(0, where)
        lower = lower.flatten().index_add_(0, where, decided).view(shape)
    return lower


def _plane(leaf: Tensor | int | None, like: Tensor) -> Tensor:
    return leaf if isinstance(leaf, Tensor) else torch.full_like(like, leaf or 0)


def _joined(plane: Tensor | int, bits: Tensor, digit: int) -> Tensor | int:
    """`plane | bits` if the digit is 1, `plane & bits` if it is 0; tensors are overwritten. A plane may be 0 or -1."""
    if isinstance(plane, int):
        return bits.clone() if (plane == 0) == (digit == 1) else plane
    return plane.bitwise_or_(bits) if digit else plane.bitwise_and_(bits)


def count(plane: Tensor, columns: list[Planes]) -> None:
    """Adds a plane of bits to numbers that are sums over b of 2^b times the planes of column b, two at most in each."""
    for column in columns:
        column.append(plane)
        if len(column) < 3:
            return
        digit, plane = added([column])
        column[:] = [digit]
    columns.append([plane])


def counted(columns: list[Planes]) -> Tensor:
    """The sum over b of 2^b times the bits of column b, `(64 W,)`, int64, by full adders as long as there are many."""
    rows, width = max(len(plane) for column in columns for plane in column), columns[0][0].shape[1]
    while rows > 1 and rows * width > FEW:
        rows = -(-rows // 3)
        threes = [
            [p for plane in c for p in pad(plane, (0, 0, 0, 3 * rows - len(plane))).tensor_split(3)] for c in columns
        ]
        columns = [[digit] for digit in added(threes)]
    total = np.zeros(64 * width, np.int64)
    for b, column in enumerate(columns):
        for plane in column:
            bits = np.unpackbits(plane.cpu().numpy().view(np.uint8), axis=1, bitorder="little")
            total += bits.sum(0, dtype=np.uint16).astype(np.int64) << b  # rows are few enough
    return torch.from_numpy(total).to(columns[0][0].device)
