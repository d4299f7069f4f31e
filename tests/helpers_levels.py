"""A function of numbers that its module, a class and a default hold."""

from __future__ import annotations

from torch import Tensor

LEVEL, SWITCH, NOTHING, WORD, SIZES, TABLE = 2.0, True, None, "up", (1, 2), {"shift": 1.0}


class Level:
    """Numbers that a class has."""

    height = 3.0


def levelled(x: Tensor, factor: float = LEVEL) -> Tensor:
    """A number from each of these."""
    y = LEVEL * x + Level.height + SIZES[0] + 10 * SIZES[1] + TABLE["shift"] + factor
    y = y + 100 if SWITCH else y
    y = y + 1000 if NOTHING is None else y
    return y + 10_000 if WORD == "up" else y
