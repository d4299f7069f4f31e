"""A ladder of temperatures that finds its rungs, and their number, by the communication barrier."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from ebmlab.energies import Energy
from ebmlab.errors import UserError
from ebmlab.samplers.sampler import Sampler
from ebmlab.samplers.tempered import Tempered
from ebmlab.samplers.tuners.tuner import Tuner

LONGEST = 200  # rungs
FLATTEST = 1e-3  # rejections between neighbours that never reject; keeps betas apart
STAGES = 5  # each twice as long as the one before


class EqualRejection(Tuner):
    """Moves the rungs of `Tempered` until all neighbours reject equally often (Syed et al. 2022, Alg. 3 and 4).

    The rejection rates of neighbours add up to the communication barrier from the coldest rung to each. New rungs
    divide it into equal parts, by linear interpolation. That is repeated five times, each time with twice as many
    steps. Without a number of rungs, 1 + 2 barrier of them are taken: then every second swap is rejected.
    `ebmlab.evaluation.exchange_report` says what came of it.

    Args:
        hottest: the last beta; None keeps the sampler's.
        num_temperatures: the number of rungs; None finds it.

    Example:
        >>> from ebmlab.energies import Ising
        >>> from ebmlab.samplers import DMALA, Tempered
        >>> from ebmlab.samplers.tuners import EqualRejection
        >>> ising = Ising.lattice(3, 0.4)
        >>> tuned, x = EqualRejection(hottest=0.1).tune(Tempered(DMALA(0.2)), ising, ising.random(20), num_steps=200)
        >>> bool(tuned.betas[0] == 1), round(float(tuned.betas[-1]), 6)
        (True, 0.1)
    """

    def __init__(self, hottest: float | None = None, num_temperatures: int | None = None) -> None:
        if not (hottest is None or 0 < hottest < 1):
            raise UserError(f"EqualRejection: hottest is {hottest}, but must be between 0 and 1")
        if not (num_temperatures is None or 2 <= num_temperatures <= LONGEST):
            raise UserError(
                f"EqualRejection: num_temperatures is {num_temperatures}, but must be from 2 to {LONGEST}, or null"
            )
        self.hottest = hottest
        self.num_temperatures = num_temperatures

    def check(self, sampler: Sampler, num_steps: int | None = None) -> None:
        if not isinstance(sampler, Tempered):
            raise UserError(f"EqualRejection tunes the ladder of Tempered, but {type(sampler).__name__} has none")
        if len(sampler.betas) < 2:
            raise UserError("EqualRejection: Tempered has one temperature; swaps need at least two")
        shortest = 2 * sampler.swap_every * (2**STAGES - 1)
        if num_steps is not None and num_steps < shortest:
            raise UserError(f"EqualRejection: num_steps is {num_steps}, but {STAGES} stages take at least {shortest}")

    def _tune(self, sampler: Tempered, energy: Energy, x: Tensor, num_steps: int) -> tuple[Sampler, Tensor]:
        if self.hottest is not None:
            reach = math.log(self.hottest) / float(sampler.betas[-1].log())
            sampler.betas = (sampler.betas.log() * reach).exp()
        state, left = sampler.init(energy, x, num_steps), num_steps
        for stage in range(STAGES):
            steps = left if stage == STAGES - 1 else num_steps * 2**stage // (2**STAGES - 1)
            left -= steps
            for _ in range(steps):
                state, _ = sampler.step(energy, state)
            betas, nearest = self._placed(sampler.betas, 1 - state.swap_rates)
            sampler.betas = betas
            state = sampler.start(energy, state.kept[:, nearest], num_steps)
        return sampler, state.x

    def _placed(self, betas: Tensor, rejections: Tensor) -> tuple[Tensor, Tensor]:
        """The new rungs, and which of the old ones is nearest to each."""
        rates = rejections.double().cpu().clamp(min=FLATTEST)
        barrier = torch.cat([rates.new_zeros(1), rates.cumsum(0)])
        rungs = self.num_temperatures or min(LONGEST, max(2, 1 + math.ceil(2 * float(barrier[-1]))))
        even = torch.linspace(0, float(barrier[-1]), rungs, dtype=torch.float64)
        placed = torch.from_numpy(np.interp(even.numpy(), barrier.numpy(), betas.double().cpu().numpy()))
        placed[0], placed[-1] = betas[0], betas[-1]
        nearest = (even.unsqueeze(1) - barrier).abs().argmin(1)
        return placed.to(betas), nearest.to(betas.device)
