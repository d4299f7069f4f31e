"""One colour of the square lattice, with one bit a spin."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def digit(less, open, random, odd, two, four, level):
    """Compares a further digit, from 31 down: spins whose digits are equal so far stay open."""
    wanted = tl.where((two >> level) & 1 != 0, odd, 0) | tl.where((four >> level) & 1 != 0, ~odd, 0)
    random = random.to(tl.int32, bitcast=True)
    return less | (open & wanted & ~random), open & ~(random ^ wanted)


@triton.jit
def colour_kernel(words, others, seed, side, width, colour, two, four, TILE: tl.constexpr):
    """Redraws the spins of one colour, `(side, width)` words, given those of the other one."""
    place = tl.program_id(0) * TILE + tl.arange(0, TILE)
    inside = place < side * width
    row, column = place // width, place % width
    back = (row + colour) % 2 == 0  # the fourth neighbour is one place before in its word, or one after
    a = tl.load(others + ((row + side - 1) % side) * width + column, mask=inside, other=0)
    b = tl.load(others + ((row + 1) % side) * width + column, mask=inside, other=0)
    c = tl.load(others + place, mask=inside, other=0)
    next_column = tl.where(back, column + width - 1, column + 1) % width
    beyond = tl.load(others + row * width + next_column, mask=inside, other=0)
    d = tl.where(back, (c << 1) | ((beyond >> 31) & 1), ((c >> 1) & 0x7FFFFFFF) | (beyond << 31))
    odd = a ^ b ^ c ^ d  # 1 or 3 neighbours up
    three = (a & b & (c | d)) | (c & d & (a | b))  # at least 3
    equal = ~odd & ((a ^ b) | (c ^ d) | (a ^ c))  # 2 up
    key = tl.load(seed)
    less, open = tl.zeros((TILE,), tl.int32), tl.where(inside, ~equal, 0)
    fair = tl.zeros((TILE,), tl.int32)
    turn = 0
    while turn < 8:
        r0, r1, r2, r3 = tl.randint4x(key, (place.to(tl.int64) * 2 + colour) * 8 + turn)
        fair = tl.where(turn == 0, r0.to(tl.int32, bitcast=True), fair)  # decides where 2 are up, and nothing else
        level = 31 - 4 * turn
        less, open = digit(less, open, r0, odd, two, four, level)
        less, open = digit(less, open, r1, odd, two, four, level - 1)
        less, open = digit(less, open, r2, odd, two, four, level - 2)
        less, open = digit(less, open, r3, odd, two, four, level - 3)
        turn = tl.where(tl.max((open != 0).to(tl.int32), 0) == 0, 8, turn + 1)
    spins = (equal & fair) | (~equal & (three ^ less))
    tl.store(words + place, spins, mask=inside)
