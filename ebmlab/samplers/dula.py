"""DULA, the discrete unadjusted Langevin algorithm (Zhang et al. 2022)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ebmlab.energies import Energy, PerChain
from ebmlab.samplers.by_chain import Moved, Sure
from ebmlab.samplers.discrete_langevin import DiscreteLangevin, Options, propose
from ebmlab.samplers.kernel import Kernel
from ebmlab.samplers.numbers import Number
from ebmlab.samplers.proposals import Proposal
from ebmlab.samplers.state import GradientState, Info


def start(
    energy: Energy, x: Tensor, settings: Sequence[Number], options: Options, known: PerChain | None = None
) -> GradientState:
    """E(x) and its gradient. With stochastic gradients nothing but the minibatch of a step is ever evaluated."""
    at = energy.evaluate(x, known)
    return GradientState(x=x, energy=at.energy, grad=at.grad, known=at.known)


def step(
    energy: Energy, state: GradientState, settings: Sequence[Number], options: Options
) -> tuple[GradientState, Info]:
    """Moves to y, drawn from q( . | x) (Eq. 2)."""
    value, grad = state.energy, state.grad
    if options.stochastic:
        value, grad = energy.minibatch().value_and_grad(state.x)  # type: ignore[operator]
    draw = propose(energy, state.x, grad, settings, options).sample()
    if options.stochastic:  # the minibatch is used for one step only, and E(y) is not computed
        new = GradientState(x=draw.y, energy=torch.full_like(value, torch.nan), grad=grad)
    else:
        new = start(energy, draw.y, settings, options)
    return new, Info(Sure(draw.y, value.unsqueeze(1)), Moved(energy.domain, draw.y, state.x))


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

    def proposal(self, energy: Energy, state: GradientState) -> Proposal:
        """q( . | x) of the step that follows a state."""
        return propose(energy, state.x, state.grad, self.settings()[0].tolist(), self.options.plain())

    def kernel_on(self, energy: Energy) -> Kernel:
        return Kernel(start, step, self.settings(), (self.options.plain(),))
