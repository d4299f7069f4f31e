"""DMALA inside contrastive divergence, with a step size that follows the model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ebmlab.energies import Energy
from ebmlab.errors import UserError
from ebmlab.samplers import DMALA, Info, Sampler, State
from ebmlab.samplers.sampler import require_positive


class AdaptiveDMALA(DMALA):
    """DMALA whose negative chains keep their acceptance while the model changes.

    A model becomes steeper as it learns, so that a fixed step size is refused more and more often. After each training
    iteration with mean acceptance a, gain (a - rate) / (rate (1 - rate)) is added to the log of the step size (Robbins
    and Monro 1951, with a constant gain, because the target moves). Outside of training this sampler is DMALA with the
    last step size, which the learner's checkpoints contain. Several processes use that of the first.

    Args:
        step_size: alpha in the first iteration.
        balance: beta, the weight of the gradient.
        rate: the acceptance to keep; 0.574 is best for locally balanced proposals (Sun et al. 2022).
        gain: of one iteration.

    Example:
        >>> from ebmlab.energies import RBM
        >>> from ebmlab.learners import AdaptiveDMALA, ContrastiveDivergence, ReplayBuffer
        >>> learner = ContrastiveDivergence(RBM(4, 3), AdaptiveDMALA(0.1), ReplayBuffer(100), num_steps=10)
        >>> float(learner.sampler.step_size)
        0.1...
    """

    def __init__(self, step_size: float = 0.1, balance: float = 0.5, rate: float = 0.574, gain: float = 0.1) -> None:
        super().__init__(step_size, balance)
        if not 0 < rate < 1:
            raise UserError(f"AdaptiveDMALA: rate is {rate}, but must be an acceptance between 0 and 1")
        require_positive("AdaptiveDMALA", gain=gain)
        self.register_buffer("step_size", torch.tensor(float(step_size)))  # saved in checkpoints, unlike that of DMALA
        self.rate, self.gain = rate, gain
        self._adapts = False

    def at_iteration(self, energy: Energy, x: Tensor, iteration: int, num_steps: int) -> tuple[Sampler, Tensor, int]:
        """As in `ChangesWithTraining`: the next chain changes the step size when it ends."""
        self._adapts = True
        return self, x, num_steps

    def chain(self, energy: Energy, x: Tensor, num_steps: int) -> Iterator[tuple[State, Info]]:
        adapts, self._adapts = self._adapts, False
        total: Any = 0.0
        for state, info in super().chain(energy, x, num_steps):
            total = total + info.acceptance.mean()
            yield state, info
        if adapts:
            excess = (total / num_steps).nan_to_num(0.0) - self.rate  # energies that are NaN are refused
            self.step_size.mul_((self.gain * excess / (self.rate * (1 - self.rate))).exp().to(self.step_size))
