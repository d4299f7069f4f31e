"""DMALA inside contrastive divergence, with a step size that follows the model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import torch
from torch import Tensor

from ebmlab.domains import Categorical, Finite
from ebmlab.energies import Energy
from ebmlab.numerics.ranks import mean_over_ranks
from ebmlab.samplers import DMALA, Info, Leg, Sampler, State
from ebmlab.settings import require_inside, require_positive

# Bounds of the step size, in units of the largest squared distance; beyond them proposals hardly change.
SMALLEST, LARGEST = 1e-8, 10.0


class AdaptiveDMALA(DMALA):
    """DMALA whose negative chains keep their acceptance while the model changes.

    A model becomes steeper as it learns, so that a fixed step size is refused more and more often. After each training
    iteration with mean acceptance a, gain (a - rate) / (rate (1 - rate)) is added to the log of the step size (Robbins
    and Monro 1951). The gain is constant, because the target moves. A model that is still flat accepts nearly all
    proposals of any step size. The step then grows to ten times the largest squared distance of two values and stays
    there. Outside of training this sampler is DMALA with the last step size, which the learner's checkpoints contain.
    Under DDP the mean is that over the chains of all ranks, and all use the same step size.

    Args:
        step_size: alpha in the first iteration.
        balance: beta, the weight of the gradient.
        rate: the acceptance to keep; 0.574 is best for locally balanced proposals (Sun et al. 2022).
        gain: factor of the change in one iteration.

    Example:
        >>> from ebmlab.energies import RBM
        >>> from ebmlab.learners import AdaptiveDMALA, ContrastiveDivergence, ReplayBuffer
        >>> learner = ContrastiveDivergence(RBM(4, 3), AdaptiveDMALA(0.1), start=ReplayBuffer(100), num_steps=10)
        >>> float(learner.sampler.step_size)
        0.1...
    """

    def __init__(self, step_size: float = 0.1, balance: float = 0.5, *, rate: float = 0.574, gain: float = 0.1) -> None:
        super().__init__(step_size, balance)
        require_inside("AdaptiveDMALA", "(0, 1)", rate=rate)
        require_positive("AdaptiveDMALA", gain=gain)
        self.register_buffer("step_size", torch.tensor(float(step_size)))  # saved in checkpoints, unlike that of DMALA
        self.rate, self.gain = rate, gain
        self._adapts = False  # whether the next chain changes the step size
        self._adapted: int | None = None  # the last iteration whose chain did

    def at_iteration(self, energy: Energy, x: Tensor, iteration: int, num_steps: int) -> tuple[Sampler, Tensor, int]:
        """As in `ChangesWithTraining`: the next chain changes the step size when it ends, once in an iteration."""
        self._adapts, self._adapted = iteration != self._adapted, iteration
        return self, x, num_steps

    def _load_from_state_dict(self, *args: Any) -> None:
        self._adapted = None  # after a rollback the iteration comes again
        super()._load_from_state_dict(*args)

    def chain(self, energy: Energy, x: Tensor, num_steps: int, leg: Leg | None = None) -> Iterator[tuple[State, Info]]:
        adapts, self._adapts = self._adapts, False
        total: Any = 0.0
        for state, info in super().chain(energy, x, num_steps, leg):
            total = total + info.acceptance.nan_to_num(0.0).mean()  # a proposal with NaN energy was rejected
            yield state, info
        if adapts:
            excess = (mean_over_ranks(total / num_steps) - self.rate) / (self.rate * (1 - self.rate))
            self.step_size.mul_((self.gain * excess).exp().to(self.step_size))
            largest = _largest_squared_distance(cast(Finite, energy.domain))
            self.step_size.clamp_(SMALLEST * largest, LARGEST * largest)


def _largest_squared_distance(domain: Finite) -> float:
    """The largest squared distance of two values of a coordinate."""
    if isinstance(domain, Categorical):
        return 2.0  # of two one-hot vectors
    return float(domain.values.max() - domain.values.min()) ** 2
