"""Nesterov's dual averaging of a step size (Hoffman & Gelman, 2014, Sec. 3.2)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from ebmlab.energies import Energy
from ebmlab.errors import UserError
from ebmlab.samplers.sampler import Sampler
from ebmlab.samplers.tuners.tuner import Tuner
from ebmlab.settings import LARGEST, SMALLEST, require_count, require_inside

SHRINKAGE, DELAY, FORGETTING = 0.05, 10.0, 0.75  # gamma, t_0 and kappa of the paper
PATIENCE, IDLE = 10, 0.01  # steps with less than this acceptance after which a chain is stuck


@dataclass(frozen=True)
class DualAveraging(Tuner):
    """Brings the acceptance of `HMC`, `NUTS` and their like to a rate, by a new step size after each step.

    A step size that is far off is first doubled or halved until the acceptance passes 1/2 (Algorithm 4). From that e_1,
    with a_t the acceptance of step t, the mean over all chains (Algorithm 5, with h_0 = 0),

        h_t = (1 - 1 / (t + 10)) h_{t-1} + (rate - a_t) / (t + 10),    log e_t = log(10 e_1) - sqrt(t) h_t / 0.05.

    The step size found is exp of the mean of log e_t, which weighs step t by t^-0.75 against all before it. While a
    chain has accepted next to nothing for ten steps, a_t is 0. In the mean over many chains one would not be seen that
    begins where the energy is stiff, and it would never leave. (The harmonic mean of Hoffman, Radul & Sountsov, 2021,
    serves the same end.)

    The a_t of few chains are noisy, and log e_t swings. Its mean then accepts more than the rate, as the acceptance
    falls ever faster while the step size grows. Many chains come closer.

    `TargetAcceptance` changes settings less often, and other parameters than step sizes, too.

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
        require_inside("DualAveraging", "(0, 1)", rate=self.rate)

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
        epsilon = sampler.get_buffer("step_size").double().cpu()
        mean, excess, t = epsilon.log(), 0.0, 0
        centre: Tensor | None = None
        longer: bool | None = None
        idle = x.new_zeros(len(x))  # steps since each chain accepted something
        for _ in range(num_steps):
            x, info = sampler.sample(energy, x, 1)
            if observe is not None:
                observe(x)
            accepted = info.acceptance.nan_to_num(0.0)  # a proposal with NaN energy was rejected
            idle = (idle + 1).masked_fill(accepted > IDLE, 0)
            acceptance = 0.0 if bool((idle >= PATIENCE).any()) else float(accepted.mean())
            longer = acceptance > 0.5 if longer is None else longer
            if centre is None and (acceptance > 0.5) is longer:
                epsilon = (epsilon * (2.0 if longer else 0.5)).clamp(SMALLEST, LARGEST)
                mean = epsilon.log()
            else:
                centre, t = (10 * epsilon).log() if centre is None else centre, t + 1
                excess += (self.rate - acceptance - excess) / (t + DELAY)
                epsilon = (centre - math.sqrt(t) / SHRINKAGE * excess).exp().clamp(SMALLEST, LARGEST)
                mean = mean + t**-FORGETTING * (epsilon.log() - mean)
            _set(sampler, epsilon)
        _set(sampler, mean.exp())
        return x


def _set(sampler: Sampler, epsilon: Tensor) -> None:
    sampler.step_size = epsilon.to(sampler.get_buffer("step_size"))
