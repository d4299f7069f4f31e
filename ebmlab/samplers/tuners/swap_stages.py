"""The stages of a training between which replicas swap often enough."""

from __future__ import annotations

import itertools
import warnings

import torch
from torch import Tensor, nn

from ebmlab.energies import Energy
from ebmlab.errors import UserError
from ebmlab.samplers.sampler import Sampler
from ebmlab.samplers.trajectory_tempered import TrajectoryTempered, rise
from ebmlab.samplers.tuners.tuner import Tuner
from ebmlab.settings import require_inside


class SwapStages(Tuner):
    """Drops the stages of `TrajectoryTempered` that are not needed (Bereux et al. 2025).

    It runs all stages, and then goes from the sampled energy back to the earliest stage. The next stage to keep is the
    earliest one with which the last kept one still swaps at the target rate. The states of all chains at the end decide
    this. The earliest stage is always kept. Where even neighbours swap less often, both stay, and a warning says so.

    Args:
        target: the smallest acceptance of swaps between stages that are kept.

    Example:
        >>> from ebmlab.energies import Ising
        >>> from ebmlab.samplers import Gibbs
        >>> path = [Ising.lattice(3, 0.05 * k) for k in range(8, 0, -1)]
        >>> sampler, x = TrajectoryTempered(Gibbs(), path[1:]), path[0].domain.random(200)
        >>> tuned, x = SwapStages().tune(sampler, path[0], x, num_steps=100)
        >>> len(tuned.stages) < 7
        True
    """

    def __init__(self, target: float = 0.25) -> None:
        require_inside("SwapStages", "(0, 1)", target=target)
        self.target = target

    def check(self, sampler: Sampler, num_steps: int | None = None) -> None:
        if not isinstance(sampler, TrajectoryTempered) or not len(sampler.stages):
            raise UserError(
                f"SwapStages chooses among the stages of TrajectoryTempered; {type(sampler).__name__} has none"
            )

    def _tune(self, sampler: TrajectoryTempered, energy: Energy, x: Tensor, num_steps: int) -> tuple[Sampler, Tensor]:
        path, state = sampler.path(energy), sampler.init(energy, x, num_steps)
        for _ in range(num_steps):
            state, _ = sampler.step(energy, state)
        at = state.replicas

        def rate(k: int, m: int) -> float:
            log_ratio = rise(path[k], path[m], at[m]) - rise(path[k], path[m], at[k])
            return float(log_ratio.clamp(max=0).exp().mean())

        kept = [0]
        for k in range(1, len(path)):
            if k == len(path) - 1 or rate(kept[-1], k + 1) < self.target:
                kept.append(k)
        rates = [rate(k, m) for k, m in itertools.pairwise(kept)]
        if min(rates) < self.target:
            worst = int(torch.tensor(rates).argmin())
            warnings.warn(
                f"SwapStages: stages {kept[worst] - 1} and {kept[worst + 1] - 1} (-1 is the sampled energy) swap at a "
                f"rate of {rates[worst]:.2g}, below {self.target:g}: give it more checkpoints from between the two",
                stacklevel=2,
            )
        sampler.stages = nn.ModuleList(path[k] for k in kept[1:])
        return sampler, at[0].x
