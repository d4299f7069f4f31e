"""A ladder of temperatures on which all neighbours swap equally often."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ebmlab.energies import Energy
from ebmlab.errors import UserError
from ebmlab.samplers.sampler import Sampler
from ebmlab.samplers.tempered import Tempered
from ebmlab.samplers.tuners.tuner import Tuner

# The smallest gap keeps betas different in float32; the largest sum of all gaps keeps the last beta above 0.
NARROWEST, WIDEST = 1e-4, 20.0
LONGEST = 200  # pairs


class SwapRate(Tuner):
    """Moves the rungs of `Tempered` until neighbours swap at the target rate (Miasojedow et al. 2013).

    The gaps are log b_k - log b_(k+1). A Robbins-Monro search on the logarithm of each gap widens it if the pair swaps
    too often. The first rung stays at 1. With K rungs no gap exceeds 20 / (K - 1).

    With `hottest` the ladder's length adapts as well. A rung is added, at the last replicas, as long as the last beta
    is above `hottest`. It is removed if the one before is below.

    Args:
        target: the target acceptance of swaps.
        hottest: the beta that the last rung shall reach; None keeps the number of rungs.

    Example:
        >>> from ebmlab.energies import Ising
        >>> from ebmlab.samplers import DMALA, Tempered
        >>> from ebmlab.samplers.tuners import SwapRate
        >>> ising, sampler = Ising.lattice(3, 0.2), Tempered(DMALA(0.2), num_temperatures=3)
        >>> tuned, x = SwapRate().tune(sampler, ising, ising.domain.random(9), num_steps=20)
        >>> float(tuned.betas[0])
        1.0
    """

    def __init__(self, target: float = 0.234, hottest: float | None = None) -> None:
        if not 0 < target < 1 or not (hottest is None or 0 < hottest < 1):
            raise UserError(f"SwapRate: target is {target} and hottest {hottest}, but must be between 0 and 1")
        self.target = target
        self.hottest = hottest

    def check(self, sampler: Sampler, num_steps: int | None = None) -> None:
        if not isinstance(sampler, Tempered):
            raise UserError(f"SwapRate tunes the ladder of Tempered, but {type(sampler).__name__} has none")
        if len(sampler.betas) < 2:
            raise UserError("SwapRate: Tempered has one temperature; swaps need at least two")

    def _tune(self, sampler: Tempered, energy: Energy, x: Tensor, num_steps: int) -> tuple[Sampler, Tensor]:
        gaps = -sampler.betas.log().diff()
        state = sampler.init(energy, x, num_steps)
        rounds = since = 0
        for k in range(1, num_steps + 1):
            state, _ = sampler.step(energy, state)
            pairs = len(gaps)
            if k - since < sampler.swap_every * min(2, pairs):  # steps in which every pair tries to swap once
                continue
            rounds, since = rounds + 1, k
            gaps = (gaps * (rounds**-0.6 * (state.swap_rates - self.target)).exp()).clamp(NARROWEST, WIDEST / pairs)
            replicas = state.kept
            if self.hottest is not None:
                reach = -math.log(self.hottest)
                if float(gaps.sum()) < reach and pairs < LONGEST:
                    gaps, replicas = torch.cat([gaps, gaps[-1:]]), torch.cat([replicas, replicas[:, -1:]], 1)
                elif pairs > 1 and float(gaps[:-1].sum()) > reach:
                    gaps, replicas = gaps[:-1], replicas[:, :-1]
            sampler.betas = torch.cat([sampler.betas[:1], (-gaps.cumsum(0)).exp()])
            state = sampler.start(energy, replicas, num_steps)
        return sampler, state.x
