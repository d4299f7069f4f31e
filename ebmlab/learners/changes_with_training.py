"""Samplers that change from one training iteration to the next."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor

from ebmlab.energies import Energy
from ebmlab.samplers import Sampler


class ChangesWithTraining(ABC):
    """A sampler whose settings depend on the training iteration: any class with this method is one."""

    @classmethod
    def __subclasshook__(cls, kind: type) -> bool:
        return hasattr(kind, "at_iteration")

    @abstractmethod
    def at_iteration(self, energy: Energy, x: Tensor, iteration: int, num_steps: int) -> tuple[Sampler, Tensor, int]:
        """The sampler of the negative chains in a training iteration.

        Args:
            energy: the model with its current parameters.
            x: current states of the chains, `(B, *event)`.
            iteration: number of the training iteration, from 0.
            num_steps: steps that the learner requests.

        Returns:
            The sampler, the states that it starts from, and its number of steps.
        """
