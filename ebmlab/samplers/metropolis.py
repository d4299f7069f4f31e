"""The Metropolis-Hastings decision, and the samplers that propose by a density and decide by it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ebmlab.energies import Energy
from ebmlab.samplers.sampler import EnergyState, Info, Sampler


def metropolis(log_ratio: Tensor) -> tuple[Tensor, Tensor]:
    """Accepts each chain with probability min(1, exp(log_ratio)).

    Args:
        log_ratio: log of p(x') q(x | x') / (p(x) q(x' | x)), `(B,)`.

    Returns:
        The decisions `(B,)`, bool, and the probabilities `(B,)`; a NaN ratio is rejected and its probability stays NaN.
    """
    probability = log_ratio.clamp(max=0).exp()
    return torch.rand_like(log_ratio) < probability, probability


class MetropolisSampler(Sampler):
    """Proposes y from a density q(y | x), accepts with min(1, p(y) q(x | y) / (p(x) q(y | x))).

    A kernel says how to propose, what the proposal's density is, and what its state at y holds.
    """

    @property
    def exact(self) -> bool:
        return True

    def propose(self, energy: Energy, state: Any) -> tuple[Tensor, Tensor]:
        """A draw y `(B, *event)` and log q(y | x) `(B,)`."""
        raise NotImplementedError

    def log_proposal(self, energy: Energy, state: Any, y: Tensor) -> Tensor:
        """Log q(y | x) `(B,)` from the state at x; minus infinity where y cannot be proposed."""
        raise NotImplementedError

    def arrive(self, energy: Energy, state: Any, y: Tensor) -> EnergyState:
        """The state at y that `state` proposed, with everything that `log_proposal` needs there."""
        raise NotImplementedError

    @torch.no_grad()
    def step(self, energy: Energy, state: Any) -> tuple[Any, Info]:
        y, forth = self.propose(energy, state)
        new = self.arrive(energy, state, y)
        back = self.log_proposal(energy, new, state.x)
        accepted, probability = metropolis(state.energy - new.energy + back - forth)
        after = new.where(accepted, state)
        after = replace(after, step=state.step + 1)
        return after, Info(probability, energy.domain.hops(after.x, state.x))
