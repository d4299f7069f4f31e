"""DMALA, the discrete Metropolis-adjusted Langevin algorithm (Zhang et al. 2022)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from ebmlab.energies import Energy
from ebmlab.samplers.compiled import PureSteps
from ebmlab.samplers.discrete_langevin import DiscreteLangevin
from ebmlab.samplers.metropolis import MetropolisSampler
from ebmlab.samplers.pure_steps import anneal_flips, flip_settings, start_flips, step_flips
from ebmlab.samplers.state import GradientState, Info, Leg, State
from ebmlab.samplers.two_values import compilable, langevin_chain, written_out


class DMALA(DiscreteLangevin, MetropolisSampler):
    """Proposes all coordinates at once from the gradient and accepts by Metropolis (Zhang et al. 2022, Alg. 1, Eq. 3).

    With stochastic gradients, both directions of a step use the gradient of the same minibatch, drawn independently
    of x, and the decision uses the energy of all data. The law therefore stays exact.

    Args:
        step_size: alpha; tunable.
        balance: beta, the weight of the gradient; 1/2 in the paper; tunable.
        precondition: c, a scale for each coordinate's squared distance, in the shape of the domain (App. H).
        window: propose only values within this distance of the current one (App. C); Ordinal domains only.
        stochastic: each step uses the gradient of a new minibatch (Sec. 6), which the energy must provide.

    Example:
        >>> from ebmlab.energies import RBM
        >>> from ebmlab.samplers import DMALA
        >>> rbm = RBM(6, 3)
        >>> x, info = DMALA(step_size=0.2).sample(rbm, rbm.domain.random(4), num_steps=10)
        >>> x.shape
        torch.Size([4, 6])
    """

    @property
    def steady(self) -> bool:
        return not self.options.stochastic

    def step(self, energy: Energy, state: GradientState) -> tuple[Any, Info]:
        return super().step(*self.options.guided(energy, state))

    def pure_steps(self, energy: Energy) -> PureSteps | None:
        if not compilable(self, DMALA, energy) or not self.options.plain:
            return None
        return PureSteps(start_flips, step_flips, flip_settings(energy, self.step_size, self.balance), anneal_flips)

    def chain(self, energy: Energy, x: Tensor, num_steps: int, leg: Leg | None = None) -> Iterator[tuple[State, Info]]:
        self.check(energy)
        if not written_out(self, DMALA, energy, x) or not self.options.plain:
            return super().chain(energy, x, num_steps, leg)
        return langevin_chain(energy, x, num_steps, [(float(self.step_size), float(self.balance))], leg)
