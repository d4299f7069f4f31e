"""DMALA, the discrete Metropolis-adjusted Langevin algorithm (Zhang et al. 2022)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from ebmlab.energies import Energy, PerChain
from ebmlab.native.dmala import dmala_steps
from ebmlab.native.few_chains import Moved, Weights
from ebmlab.samplers.at_once import at_once
from ebmlab.samplers.discrete_langevin import DiscreteLangevin, GuidedEnergy, Options, propose
from ebmlab.samplers.kernel import Kernel
from ebmlab.samplers.metropolis import decide
from ebmlab.samplers.numbers import Number
from ebmlab.samplers.state import EnergyState, Info

MOST = 56  # chains that move at once


def start(
    energy: Energy, x: Tensor, settings: Sequence[Number], options: Options, known: PerChain | None = None
) -> EnergyState:
    """E(x), and the proposal there (Eq. 2), which the next step draws from."""
    at = energy.evaluate(x, known)
    law = propose(energy, x, at.grad, settings, options)
    return EnergyState(x=x, energy=at.energy, proposal=law, known=at.known)


def step(energy: Energy, state: EnergyState, settings: Sequence[Number], options: Options) -> tuple[EnergyState, Info]:
    """Draws y from q( . | x), and accepts with min(1, p(y) q(x | y) / (p(x) q(y | x))) (Alg. 1, Eq. 3)."""
    here = state.proposal
    if options.stochastic:  # both directions use the gradient of the same new minibatch (Sec. 6)
        energy = GuidedEnergy(energy)
        here = propose(energy, state.x, energy.gradient(state.x), settings, options)
        state = replace(state, proposal=here)
    assert here is not None
    draw = here.sample()
    new = start(energy, draw.y, settings, options)
    log_ratio = state.energy - new.energy + here.log_ratio(draw, new.proposal)
    return decide(energy, log_ratio, new=new, old=state)


class DMALA(DiscreteLangevin):
    """Proposes all coordinates at once from the gradient and accepts by Metropolis (Zhang et al. 2022, Alg. 1, Eq. 3).

    With stochastic gradients, both directions of a step use the gradient of the same minibatch, drawn independently of
    x. The decision uses the energy of all data. The law therefore stays exact.

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

    exact = True

    def kernel_on(self, energy: Energy) -> Kernel:
        return Kernel(start, step, self.settings(), (self.options.plain(),))

    def _at_once(self, energy: Energy, x: Tensor, num_steps: int) -> tuple[Tensor, Info] | None:
        if type(self) is not DMALA or self.options.plain() != Options():
            return None

        def steps(weights: Weights) -> Moved | None:
            alpha, beta = float(self.step_size), float(self.balance)
            return dmala_steps(weights, x, num_steps, step_size=alpha, balance=beta)

        return at_once(steps, energy, x=x, num_steps=num_steps, most=MOST)
