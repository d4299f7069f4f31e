"""What moves spins in words: a heat bath, or Metropolis flips, whose probabilities are compared digit by digit."""

from __future__ import annotations

import math
from collections.abc import Callable

from torch import Tensor

from ebmlab.numerics.bit_planes import LEVELS, Planes, Random, below, chosen

Rule = Callable[[Tensor, Planes, int, float, Random], Tensor]

TIES = 15 / 16  # how likely a flip that costs nothing is: certain ones would take turns for ever


def heat_bath(spins: Tensor, digits: Planes, total: int, beta: float, random: Random) -> Tensor:
    """Spins that are up with probability sigmoid(2 beta h), h = 2 n - total, n the number of the digits.

    They follow the sign of h, but for those whose uniform number is below sigmoid(-2 beta |h|).
    """
    fields = _fields(digits, total)
    against = _below(_against_field, digits, spins.shape, fields, beta, random)
    sign = chosen(digits, [None if not h else -1 if h > 0 else 0 for h in fields])
    return against if sign is None else against ^ sign


def metropolis(spins: Tensor, digits: Planes, total: int, beta: float, random: Random) -> Tensor:
    """Spins that flip with probability min(1, exp(-2 beta s h)), and `TIES` where h = 0.

    Those along h flip where their uniform number is below exp(-2 beta |h|); all others get the sign of h.
    """
    fields = _fields(digits, total)
    against = _below(_flip_along, digits, spins.shape, fields, beta, random)
    along = chosen(digits, [None if h is None else spins if not h else -1 if h > 0 else 0 for h in fields])
    assert isinstance(along, Tensor)
    return against.bitwise_and_((spins ^ along).bitwise_not_()).bitwise_xor_(along)


def _against_field(beta: float, h: int) -> float:
    return 1 / (1 + math.exp(min(2 * beta * h, 700)))


def _flip_along(beta: float, h: int) -> float:
    return math.exp(-2 * beta * h) if h else TIES


def thresholds(odds: Callable[[float, int], float], total: int, beta: float) -> list[int]:
    """2^LEVELS times the probabilities at h = 0, 2, ..., total or 1, 3, ..., total."""
    return [min(2**LEVELS - 1, round(2**LEVELS * odds(beta, h))) for h in range(total % 2, total + 1, 2)]


def _below(
    odds: Callable[[float, int], float],
    digits: Planes,
    shape: tuple[int, ...],
    fields: list[int | None],
    beta: float,
    random: Random,
) -> Tensor:
    """Where a uniform number is below the probability at |h|."""
    places = [None if h is None else abs(h) // 2 for h in fields]
    found = thresholds(odds, max(h for h in fields if h is not None), beta)
    return below(digits, shape, [None if place is None else found[place] for place in places], LEVELS, random)


def _fields(digits: Planes, total: int) -> list[int | None]:
    """The local field, in quanta, for each number of pulls that the digits may say; None where it is none."""
    return [2 * n - total if n <= total else None for n in range(2 ** len(digits))]


ODDS: dict[Rule, Callable[[float, int], float]] = {heat_bath: _against_field, metropolis: _flip_along}
