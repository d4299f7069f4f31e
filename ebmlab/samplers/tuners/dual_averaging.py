"""Nesterov's dual averaging of a step size (Hoffman & Gelman, 2014, Sec. 3.2)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ebmlab.energies import Energy
from ebmlab.errors import UserError
from ebmlab.samplers.sampler import Sampler
from ebmlab.samplers.tuners.tuner import Tuner
from ebmlab.settings import require_count, require_positive

SHRINKAGE, DELAY, FORGETTING = 0.05, 10.0, 0.75  # gamma, t_0 and kappa of the paper
LOWEST, HIGHEST = math.log(1e-12), math.log(1e12)


@dataclass(frozen=True)
class DualAveraging(Tuner):
    """Brings the acceptance of `HMC`, `NUTS` and their like to a rate, by a new step size after each step.

    With a_t the acceptance of step t, the mean over all chains (Eq. 6 and Algorithm 5),

        h_t = (1 - 1 / (t + 10)) h_{t-1} + (rate - a_t) / (t + 10),    log e_t = log(10 e_1) - sqrt(t) h_t / 0.05.

    The step size found is exp of the mean of log e_t, weighted by t^-0.75 against the earlier ones. Steps far too large
    are left within a few steps, so the first step size hardly matters. `TargetAcceptance` moves slower, and has less
    noise where few chains accept or reject.

    Args:
        rate: the acceptance: 0.8 for HMC and NUTS (Stan's), 0.574 for MALA, above 0.95 for `UnderdampedLangevin`.

    Example:
        >>> from ebmlab.energies import RealMLP
        >>> from ebmlab.samplers import HMC
        >>> from ebmlab.samplers.tuners import DualAveraging
        >>> energy = RealMLP(2)
        >>> tuned, x = DualAveraging(0.8).tune(HMC(0.01, 5), energy, energy.random(50), num_steps=50)
        >>> bool(tuned.step_size > 0.1)
        True
    """

    rate: float = 0.8

    def __post_init__(self) -> None:
        if not 0 < self.rate < 1:
            raise UserError(f"DualAveraging: rate is {self.rate}, but must be an acceptance between 0 and 1")

    def check(self, sampler: Sampler, num_steps: int | None = None) -> None:
        name = type(sampler).__name__
        if "step_size" not in dict(sampler.named_buffers(recurse=False)):
            raise UserError(f"DualAveraging: {name} has no step_size to tune")
        if not sampler.exact:
            raise UserError(f"DualAveraging: this {name} accepts proposals without a Metropolis decision")
        if num_steps is not None:
            require_count("DualAveraging", num_steps=num_steps)

    def _tune(self, sampler: Sampler, energy: Energy, x: Tensor, num_steps: int) -> tuple[Sampler, Tensor]:
        return sampler, self.search(sampler, energy, x, num_steps)

    def search(
        self,
        sampler: Sampler,
        energy: Energy,
        x: Tensor,
        num_steps: int,
        *,
        observe: Callable[[Tensor], None] | None = None,
    ) -> Tensor:
        """Sets the sampler's step size while chains take steps from x; `observe` sees each x. Returns the last x."""
        first = sampler.get_buffer("step_size")
        require_positive("DualAveraging", step_size=first)
        centre, excess, mean = math.log(10) + first.double().log().cpu(), 0.0, torch.zeros((), dtype=torch.float64)
        for t in range(1, num_steps + 1):
            x, info = sampler.sample(energy, x, 1)
            if observe is not None:
                observe(x)
            acceptance = float(info.acceptance.nan_to_num(0.0).mean())  # a proposal with NaN energy was rejected
            excess += (self.rate - acceptance - excess) / (t + DELAY)
            log = (centre - math.sqrt(t) / SHRINKAGE * excess).clamp(LOWEST, HIGHEST)
            mean = mean + t**-FORGETTING * (log - mean)
            sampler.step_size = log.exp().to(first)
        sampler.step_size = mean.exp().to(first)
        return x
