"""The search for a step size with a given acceptance."""

from __future__ import annotations

import math
import warnings
from dataclasses import KW_ONLY, dataclass

import torch
from torch import Tensor

from ebmlab.energies import Energy
from ebmlab.errors import UserError
from ebmlab.samplers.sampler import Sampler
from ebmlab.samplers.tuners.tuner import Tuner
from ebmlab.settings import require_inside, require_positive

_LIMITS = {"probability": (1e-6, 0.5), "balance": (1e-6, 1.0)}  # above 1/2 a random walk jumps back and forth
_WIDE = (1e-8, 1e8)
_NEAR = 0.1  # distance of logs


@dataclass(frozen=True)
class TargetAcceptance(Tuner):
    """Robbins and Monro's (1951) search for the log of a parameter: window t adds gain t^-0.6 times the excess to it.

    The excess is (acceptance - rate) / (rate (1 - rate)), where acceptance is the mean over the chains and the steps of
    the window. The final log is its mean over the second half of the windows (Polyak and Juditsky 1992). All entries of
    a parameter are multiplied by the same factor. Each window calls the sampler's `init`, because a state may depend on
    the parameter; the evaluations of `init` come on top of the steps. A warning names a parameter that ends at a limit
    of its range. Proposals of neighbouring values alone, for example, may be accepted more often at any step size.

    Args:
        rate: the target acceptance: 0.574 is best for locally balanced proposals, 0.234 for random walks (Sun et al.
            2022).
        parameter: the sampler's buffer to tune; acceptance must fall as it grows. A `probability` stays below 1/2 and
            a `balance` below 1.
        window: steps between two changes. Each window restarts the sampler's schedule, so give ACS whole cycles.
        gain: factor of the first change.

    Example:
        >>> from ebmlab.energies import Ising
        >>> from ebmlab.samplers import DMALA
        >>> from ebmlab.samplers.tuners import TargetAcceptance
        >>> ising = Ising.lattice(3, 0.2)
        >>> tuned, x = TargetAcceptance(rate=0.574).tune(DMALA(0.01), ising, ising.domain.random(50), num_steps=20)
        >>> bool(tuned.step_size > 0.01)
        True
    """

    rate: float = 0.574
    parameter: str = "step_size"
    _: KW_ONLY
    window: int = 5
    gain: float = 1.0

    def __post_init__(self) -> None:
        require_inside("TargetAcceptance", "(0, 1)", rate=self.rate)
        require_positive("TargetAcceptance", gain=self.gain)
        if self.window < 1:
            raise UserError(
                f"TargetAcceptance: window is {self.window} and gain {self.gain}; need a window of at least 1 step and "
                f"a positive gain"
            )

    def check(self, sampler: Sampler, num_steps: int | None = None) -> None:
        name, buffers = type(sampler).__name__, dict(sampler.named_buffers(recurse=False))
        if self.parameter not in buffers:
            known = ", ".join(buffers) or "nothing"
            raise UserError(f"TargetAcceptance: {name} has no {self.parameter} to tune; it has {known}")
        if not sampler.exact:
            raise UserError(f"TargetAcceptance: this {name} accepts proposals without a Metropolis decision")
        if num_steps is not None and num_steps < 1:
            raise UserError(f"TargetAcceptance: num_steps is {num_steps}, but tuning takes at least 1")

    def _tune(self, sampler: Sampler, energy: Energy, x: Tensor, num_steps: int) -> tuple[Sampler, Tensor]:
        low, high = (math.log(limit) for limit in _LIMITS.get(self.parameter, _WIDE))
        log = getattr(sampler, self.parameter).log().clamp(low, high)
        total, num_windows = torch.zeros_like(log), math.ceil(num_steps / self.window)
        for t in range(num_windows):
            x, info = sampler.sample(energy, x, min(self.window, num_steps - t * self.window))
            acceptance = info.acceptance.nan_to_num(0.0).mean()  # a proposal with NaN energy was rejected
            excess = (acceptance - self.rate) / (self.rate * (1 - self.rate))
            log = (log + self.gain * (t + 1) ** -0.6 * excess.to(log)).clamp(low, high)
            setattr(sampler, self.parameter, log.exp())
            if t >= num_windows // 2:
                total = total + log
        mean = total / (num_windows - num_windows // 2)
        setattr(sampler, self.parameter, mean.exp())
        distance = high - mean if acceptance > self.rate else mean - low  # to the limit that it still moves to
        if num_windows > 1 and bool((distance < _NEAR).any()):
            warnings.warn(
                f"TargetAcceptance: {self.parameter} went to {float(mean.exp().max()):.2g}, the end of its range, "
                f"where the acceptance is {float(acceptance):.2g}: no value accepts {self.rate:g} from these chains",
                stacklevel=2,
            )
        return sampler, x
