"""Schedules of the inverse temperature beta along an annealing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch

from ebmlab.domains import Spin
from ebmlab.energies import Energy
from ebmlab.errors import UserError
from ebmlab.native import uniform
from ebmlab.numerics.streams import own_numbers

DESCENT = 60  # steps of the descent that shows what flips cost near a minimum


class Schedule(Protocol):
    """Beta as a function of how far an annealing has come.

    Example:
        >>> schedule: Schedule = Linear(0.5, 1.5)
        >>> schedule.beta(0.5)
        1.0
    """

    def beta(self, progress: float) -> float:
        """Beta at a progress from 0 to 1."""


@dataclass(frozen=True)
class _Rise:
    """The first and the last beta."""

    first: float
    last: float

    def __post_init__(self) -> None:
        if not 0 < self.first <= self.last < math.inf:
            name = type(self).__name__
            raise UserError(f"{name}: beta goes from {self.first} to {self.last}, but must be positive and not fall")


@dataclass(frozen=True)
class Geometric(_Rise):
    """first (last / first)^progress: beta grows by the same factor at each step (Kirkpatrick et al., 1983).

    Example:
        >>> [round(Geometric(0.1, 10.0).beta(p), 6) for p in (0, 0.5, 1)]
        [0.1, 1.0, 10.0]
    """

    def beta(self, progress: float) -> float:
        return float(self.first * (self.last / self.first) ** progress)


@dataclass(frozen=True)
class Linear(_Rise):
    """first + (last - first) progress.

    Example:
        >>> [Linear(0.0625, 1.0625).beta(p) for p in (0, 0.5, 1)]
        [0.0625, 0.5625, 1.0625]
    """

    def beta(self, progress: float) -> float:
        return self.first + (self.last - self.first) * progress


@torch.no_grad()
def beta_range(energy: Energy, num_states: int = 16) -> tuple[float, float]:
    """Where an annealing may begin and end, by what flips cost near a minimum: at random states after a descent.

    The same energy has the same range, whatever torch's generator has drawn before.

    At the first beta a flip upwards of median cost has probability 1/2. At the last one a cheap one, by the 5 %
    quantile, has probability 1/100 / d. Random states themselves say little: sets of half of all nodes have dozens of
    conflicts at each node. An annealing that begins there spends half of its steps on melting.

    Args:
        energy: on bits or spins.
        num_states: random states that are looked at.

    Raises:
        UserError: all states have the same energy.

    Example:
        >>> from ebmlab.energies import Ising
        >>> round(beta_range(Ising.lattice(3, coupling=1.0))[0], 3)
        0.087
    """
    with own_numbers(0, energy.device):
        return _range(energy, num_states)


def _range(energy: Energy, num_states: int) -> tuple[float, float]:
    x = energy.random(num_states)
    costs = energy.flip_differences(x)
    dearest = float(costs.abs().max())  # from here on only to tell a cost from rounding
    for _ in range(DESCENT):  # few flips at a time, as they change each other's costs
        flips = (costs < 0) & (uniform(costs) < 0.1)
        x = torch.where(flips, -x if isinstance(energy.domain, Spin) else 1 - x, x)
        costs = energy.flip_differences(x)
    upwards = costs[costs > 1e-3 * dearest]
    if dearest == 0 or upwards.numel() == 0:
        raise UserError("the energy is the same at all states: there is nothing to minimise")
    cheap = float(upwards.kthvalue(1 + len(upwards) // 20).values)
    return math.log(2) / float(upwards.median()), math.log(100 * energy.domain.size) / cheap
