"""DLMC, discrete Langevin Monte Carlo (Sun et al. 2023, Discrete Langevin Samplers via Wasserstein Gradient Flow)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

from ebmlab.domains import Binary, Categorical, Ordinal, Spin
from ebmlab.energies import Energy, PerChain
from ebmlab.samplers.kernel import Kernel
from ebmlab.samplers.metropolis import decide
from ebmlab.samplers.numbers import Number
from ebmlab.samplers.proposals import Proposal, factorised
from ebmlab.samplers.sampler import Sampler
from ebmlab.samplers.state import EnergyState, Info
from ebmlab.settings import require_choice, require_positive

Solver = Literal["flow", "euler"]


def propose(energy: Energy, x: Tensor, grad: Tensor, settings: Sequence[Number], solver: Solver) -> Proposal:
    """Where each coordinate is after a time h, if it jumps with the rates sqrt(p(y_i) / p(x_i)) of the gradient at x.

    Let nu be the softmax of -dE/dx_i (y_i - x_i), which these rates leave invariant. `flow` has the probability
    nu(y_i) (1 - exp(-h / sqrt(nu(x_i) nu(y_i)))), exact for two values; `euler` the smaller one of h sqrt(nu(y_i) /
    nu(x_i)) and nu(y_i).
    """
    (time,) = settings
    log_time = time.log() if isinstance(time, Tensor) else torch.tensor(time).log().item()
    law = factorised(energy.domain, x, grad, stiffness=0.0, weight=-1.0)

    def flow_flip(rise: Tensor) -> Tensor:
        passed = time * ((rise / 2).exp() + (-rise / 2).exp())  # h times the sum of the rates of both directions
        return rise + (-torch.expm1(-passed)).log() - softplus(rise - passed)

    def flow_move(there: Tensor, here: Tensor) -> Tensor:
        passed = (log_time - (there + here) / 2).exp()
        return there + (-torch.expm1(-passed)).log()

    def euler_flip(rise: Tensor) -> Tensor:
        log_flip = torch.minimum(log_time + rise / 2, logsigmoid(rise))
        return torch.minimum(log_flip - (-log_flip.exp()).log1p(), rise)

    def euler_move(there: Tensor, here: Tensor) -> Tensor:
        return torch.minimum(log_time + (there - here) / 2, there)

    return law.remade(flow_flip, flow_move, 1.0) if solver == "flow" else law.remade(euler_flip, euler_move, 1.0)


def start(
    energy: Energy, x: Tensor, settings: Sequence[Number], solver: Solver, known: PerChain | None = None
) -> EnergyState:
    """E(x), and the proposal there."""
    at = energy.evaluate(x, known)
    law = propose(energy, x, at.grad, settings, solver)
    return EnergyState(x=x, energy=at.energy, proposal=law, known=at.known)


def step(energy: Energy, state: EnergyState, settings: Sequence[Number], solver: Solver) -> tuple[EnergyState, Info]:
    """Draws y from q( . | x), and accepts with min(1, p(y) q(x | y) / (p(x) q(y | x)))."""
    assert state.proposal is not None
    draw = state.proposal.sample()
    new = start(energy, draw.y, settings, solver)
    log_ratio = state.energy - new.energy + state.proposal.log_ratio(draw, new.proposal)
    return decide(energy, log_ratio, new=new, old=state)


class DLMC(Sampler):
    """Discrete Langevin Monte Carlo (Sun et al., ICLR 2023): steps along the Wasserstein gradient flow of a law.

    The flow is a jump process whose rate from x to a neighbour y is sqrt(p(y) / p(x)). With the gradient at x in place
    of p, the coordinates jump independently. A proposal follows them for a time h; Metropolis accepts or rejects it.
    On linear energies every proposal is accepted.

    Args:
        step_size: h, the time; tunable.
        solver: `flow` (DLMC) follows each coordinate through its jumps, exactly for two values and by interpolation
            for more; `euler` (DLMCf) takes one forward Euler step.

    Example:
        >>> from ebmlab.energies import Ising
        >>> from ebmlab.samplers import DLMC
        >>> ising = Ising.lattice(3, 0.2)
        >>> x, info = DLMC(step_size=0.3).sample(ising, ising.domain.random(4), num_steps=10)
        >>> x.shape
        torch.Size([4, 9])
    """

    domains = (Binary, Spin, Ordinal, Categorical)
    exact = True
    step_size: Tensor

    def __init__(self, step_size: float, solver: Solver = "flow") -> None:
        super().__init__()
        require_positive("DLMC", step_size=step_size)
        require_choice("DLMC", ("flow", "euler"), solver=solver)
        self.solver: Solver = solver
        self.register_buffer("step_size", torch.tensor(float(step_size)), persistent=False)

    def kernel_on(self, energy: Energy) -> Kernel:
        return Kernel(start, step, self.step_size.view(1, 1), (self.solver,))
