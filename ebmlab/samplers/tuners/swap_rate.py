"""A ladder of temperatures on which all neighbours swap equally often."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from ebmlab.energies import Energy
from ebmlab.errors import UserError
from ebmlab.samplers.sampler import Sampler
from ebmlab.samplers.tempered import Tempered
from ebmlab.samplers.tuners.tuner import Tuner

# The smallest gap keeps betas different in float32; the largest sum of all gaps keeps the last beta above 0.
NARROWEST, WIDEST = 1e-4, 20.0


class SwapRate(Tuner):
    """Moves the rungs of `Tempered` until neighbours swap at the target rate (Miasojedow et al. 2013).

    The gaps are log b_k - log b_(k+1). A Robbins-Monro search on the logarithm of each gap widens it if the pair swaps
    too often. The first rung stays at 1. With K rungs no gap exceeds 20 / (K - 1).

    Args:
        target: the target acceptance of swaps.

    Example:
        >>> from ebmlab.energies import Ising
        >>> from ebmlab.samplers import DMALA, Tempered
        >>> from ebmlab.samplers.tuners import SwapRate
        >>> ising, sampler = Ising.lattice(3, 0.2), Tempered(DMALA(0.2), num_temperatures=3)
        >>> tuned, x = SwapRate().tune(sampler, ising, ising.domain.random(9), num_steps=20)
        >>> float(tuned.betas[0])
        1.0
    """

    def __init__(self, target: float = 0.234) -> None:
        if not 0 < target < 1:
            raise UserError(f"SwapRate: target is {target}, but must be between 0 and 1")
        self.target = target

    def check(self, sampler: Sampler, num_steps: int | None = None) -> None:
        if not isinstance(sampler, Tempered):
            raise UserError(f"SwapRate tunes the ladder of Tempered, but {type(sampler).__name__} has none")
        if len(sampler.betas) < 2:
            raise UserError("SwapRate: Tempered has one temperature; swaps need at least two")

    def _tune(self, sampler: Tempered, energy: Energy, x: Tensor, num_steps: int) -> tuple[Sampler, Tensor]:
        pairs = len(sampler.betas) - 1
        gaps = -sampler.betas.log().diff()
        state = sampler.init(energy, x, num_steps)
        every = sampler.swap_every * min(2, pairs)  # after these steps every pair has tried to swap
        for k in range(1, num_steps + 1):
            state, _ = sampler.step(energy, state)
            if k % every == 0:
                gain = (k // every) ** -0.6
                gaps = (gaps * (gain * (state.swap_rates - self.target)).exp()).clamp(NARROWEST, WIDEST / pairs)
                sampler.betas[1:] = (-gaps.cumsum(0)).exp()
                state = replace(state, swap_rates=torch.zeros_like(gaps), rounds=0)
                state = sampler.refresh(energy, state, state.replicas.x)
        return sampler, state.x
