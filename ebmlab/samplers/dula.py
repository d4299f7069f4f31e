"""DULA, the discrete unadjusted Langevin algorithm (Zhang et al. 2022)."""

from __future__ import annotations

import torch
from torch import Tensor

from ebmlab.energies import Energy, PerChain
from ebmlab.samplers.discrete_langevin import DiscreteLangevin
from ebmlab.samplers.state import GradientState, Info


class DULA(DiscreteLangevin):
    """DMALA without the Metropolis decision: every proposal is accepted (Zhang et al. 2022, Alg. 1).

    The law is biased; on log-quadratic targets the bias falls like exp(-1 / (2 alpha)) (Theorem 5.1).

    Args:
        step_size: alpha; tunable.
        balance: beta, the weight of the gradient; 1/2 in the paper; tunable.
        precondition: as in `DMALA`.
        window: as in `DMALA`.
        stochastic: each step uses the gradient of a new minibatch (Sec. 6) and evaluates nothing else. The energy in
            the state is then NaN.

    Example:
        >>> from ebmlab.energies import Ising
        >>> from ebmlab.samplers import DULA
        >>> ising = Ising.lattice(3, 0.2)
        >>> x, info = DULA(step_size=0.2).sample(ising, ising.domain.random(4), num_steps=10)
        >>> x.shape
        torch.Size([4, 9])
    """

    exact = False

    def init(
        self, energy: Energy, x: Tensor, horizon: int | None = None, known: PerChain | None = None
    ) -> GradientState:
        at = energy.evaluate(x, known)
        return GradientState(x=x, energy=at.energy, grad=at.grad, known=at.known)

    @torch.no_grad()
    def step(self, energy: Energy, state: GradientState) -> tuple[GradientState, Info]:
        if self.options.stochastic:
            value, grad = energy.minibatch().value_and_grad(state.x)  # type: ignore[operator]
            state = GradientState(x=state.x, energy=value, grad=grad, step=state.step)
        draw = self.proposal(energy, state).sample()
        if self.options.stochastic:  # the minibatch is used for one step only, and E(y) is not computed
            new = GradientState(x=draw.y, energy=torch.full_like(state.energy, torch.nan), grad=state.grad)
        else:
            new = self.init(energy, draw.y)
        new.step = state.step + 1
        return new, Info(
            lambda: draw.y.new_ones(len(draw.y)).masked_fill_(state.energy.isnan(), torch.nan),
            lambda: energy.domain.hops(draw.y, state.x),
        )
