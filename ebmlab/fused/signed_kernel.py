"""One colour of a signed graph, with one bit a spin: a word holds one site of 32 chains."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def alike(plane, count):
    """Bits `(counts, words)`: where a digit of each chain's count is the last digit of a row's count."""
    return ~(plane[None, :] ^ -(count & 1))


@triton.jit
def digit(less, open, random, equal, threshold):
    """Compares a further digit, which is the first of `threshold`; spins whose digits are equal so far stay open."""
    random = random.to(tl.int32, bitcast=True)
    wanted = tl.sum(equal & (threshold >> 31), 0)  # each bit is set in one row of `equal`, so that the sum is an or
    return less | (open & wanted & ~random), open & ~(random ^ wanted), threshold << 1


@triton.jit
def colour_kernel(
    words, sites, offsets, neighbours, flips, thresholds, seed, num_sites, size, width,
    TILE: tl.constexpr, COUNTS: tl.constexpr,
):  # fmt: skip
    """Redraws the sites of one colour in place, words `(size, width)`. No site reads one of its colour."""
    at = (tl.program_id(0) * TILE + tl.arange(0, TILE)).to(tl.int64)
    inside = at < num_sites * width
    site, word = tl.load(sites + at // width, mask=inside, other=0), at % width
    begin = tl.load(offsets + site, mask=inside, other=0)
    end = tl.load(offsets + site + 1, mask=inside, other=0)
    ones, twos = tl.zeros((TILE,), tl.int32), tl.zeros((TILE,), tl.int32)
    fours, eights, sixteens = ones, ones, ones
    for n in range(0, tl.max(end - begin, 0)):
        some = begin + n < end
        other = tl.load(neighbours + begin + n, mask=some, other=0)
        pull = tl.load(words + other * width + word, mask=some, other=0)
        pull ^= tl.load(flips + begin + n, mask=some, other=0)
        ones, pull = ones ^ pull, ones & pull  # what was 1 and becomes 0 is carried
        twos, pull = twos ^ pull, twos & pull
        fours, pull = fours ^ pull, fours & pull
        eights, sixteens = eights ^ pull, sixteens ^ (eights & pull)
    count = tl.arange(0, COUNTS)[:, None]
    equal = alike(ones, count) & alike(twos, count >> 1) & alike(fours, count >> 2)
    equal &= alike(eights, count >> 3) & alike(sixteens, count >> 4)
    threshold = tl.load(thresholds + count * size + site[None, :])
    key, place = tl.load(seed), site * width + word
    less, open = tl.zeros((TILE,), tl.int32), tl.where(inside, -1, 0)
    turn = 0
    while turn < 8:
        r0, r1, r2, r3 = tl.randint4x(key, place * 8 + turn)
        less, open, threshold = digit(less, open, r0, equal, threshold)
        less, open, threshold = digit(less, open, r1, equal, threshold)
        less, open, threshold = digit(less, open, r2, equal, threshold)
        less, open, threshold = digit(less, open, r3, equal, threshold)
        turn = tl.where(tl.max((open != 0).to(tl.int32), 0) == 0, 8, turn + 1)
    tl.store(words + place, less, mask=inside)
