"""Samplers that change from one training iteration to the next."""

from __future__ import annotations

from abc import ABC, abstractmethod

from pytorch_lightning.utilities import rank_zero_warn
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


def warn_of_unasked(sampler: Sampler, learner: str, *, asks: bool) -> None:
    """Warns if a sampler, or a part of it, changes with the training, but is not asked to.

    Args:
        sampler: of the learner.
        learner: its name.
        asks: whether it asks the sampler itself. No learner asks the parts.
    """
    for place, part in enumerate(sampler.modules()):  # the first is the sampler itself
        if isinstance(part, ChangesWithTraining) and (place > 0 or not asks):
            owner = type(sampler).__name__ if place > 0 else learner
            rank_zero_warn(
                f"{type(part).__name__} keeps its first settings, for {owner} does not change it with the training: "
                "take DMALA with a step_size of your own, or give it to ContrastiveDivergence itself"
            )
