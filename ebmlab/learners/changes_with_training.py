"""Samplers that change from one training iteration to the next."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from torch import Tensor

from ebmlab.energies import Energy
from ebmlab.samplers import Sampler


@runtime_checkable
class ChangesWithTraining(Protocol):
    """A sampler with other settings at every training iteration.

    Example:
        >>> from ebmlab.learners import PersistentACS
        >>> from ebmlab.samplers import DMALA
        >>> isinstance(PersistentACS(), ChangesWithTraining), isinstance(DMALA(0.1), ChangesWithTraining)
        (True, False)
    """

    def at_iteration(self, energy: Energy, x: Tensor, iteration: int, num_steps: int) -> tuple[Sampler, Tensor, int]:
        """The sampler of the negative chains in a training iteration.

        Args:
            energy: as it is now.
            x: where the chains are, `(B, *event)`.
            iteration: counts from 0.
            num_steps: steps that the learner asks for.

        Returns:
            The sampler, where it starts, and how many steps it takes.
        """
        ...
