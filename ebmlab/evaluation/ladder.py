"""The inverse temperatures that annealed chains pass through."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch

from ebmlab.settings import require_choice

Schedule = Literal["linear", "sigmoid", "adaptive"]
SLOPE = 4.0  # of the logistic function in the sigmoid schedule


@dataclass(frozen=True)
class Ladder:
    """Inverse temperatures, and the factor of the sampler's step size at each of them.

    Attributes:
        betas: 0 = b_0 < b_1 < ... < b_K = 1.
        scales: the factors by which the sampler's step size is multiplied, one for each b_k; None leaves the step size
            unchanged.

    Example:
        >>> Ladder([0.0, 0.2, 1.0]).turned().betas
        [1.0, 0.2, 0.0]
    """

    betas: list[float]
    scales: list[float] | None = None

    def turned(self) -> Ladder:
        """The same ladder in reverse order, for chains that start at the energy's law."""
        return Ladder(self.betas[::-1], None if self.scales is None else self.scales[::-1])


def check_schedule(schedule: Schedule) -> None:
    """Raises `UserError` unless `schedule` is the name of a schedule."""
    require_choice("AIS", get_args(Schedule), schedule=schedule)


def fixed_ladder(schedule: Schedule, num_temperatures: int) -> Ladder:
    """The ladder of the schedule "linear" or "sigmoid"; `ais` defines both."""
    check_schedule(schedule)
    line = torch.linspace(0, 1, num_temperatures + 1, dtype=torch.float64)
    if schedule == "linear":
        return Ladder(line.tolist())
    curve = torch.sigmoid(SLOPE * (2 * line - 1))
    scaled = (curve - curve[0]) / (curve[-1] - curve[0])
    return Ladder([0.0, *scaled[1:-1].tolist(), 1.0])
