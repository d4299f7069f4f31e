"""Discrete-HAMS: discrete Hamiltonian-assisted Metropolis sampling (Zhou & Tan 2025)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ebmlab.domains import Binary, Categorical, Ordinal, Spin
from ebmlab.energies import Energy, PerChain
from ebmlab.errors import UserError
from ebmlab.numerics.noise import normal
from ebmlab.samplers.kernel import Kernel
from ebmlab.samplers.metropolis import decide
from ebmlab.samplers.numbers import Number, plus, root
from ebmlab.samplers.proposals import Proposal, factorised
from ebmlab.samplers.sampler import Sampler
from ebmlab.samplers.state import GradientState, Info
from ebmlab.settings import require_positive


@dataclass(kw_only=True)
class HamsState(GradientState):
    """x with its momentum, and the energy and its gradient.

    Attributes:
        momentum: u, `(B, *event)`, standard normal under the law that a step leaves invariant.
    """

    momentum: Tensor


def propose(energy: Energy, x: Tensor, momentum: Tensor, grad: Tensor, settings: Sequence[Number]) -> Proposal:
    """Each y_i over-relaxed with respect to q(y) ~ exp(-grad E(x) . y - |z - y|^2 / (2 delta^2)), z = x + delta u."""
    delta, _, _, relaxation = settings
    law = factorised(energy.domain, x, plus(-grad, 1 / delta, momentum), stiffness=1 / (delta * delta))

    def flip(logits: Tensor) -> Tensor:
        """The logits of (1 - r) sigmoid(l) + r min(1, exp(l))."""
        below = (-logits.abs()).exp()
        least = torch.where(logits < 0, below.square(), 1.0)
        return logits + (relaxation * below).log1p() - (-relaxation * least).log1p()

    def move(there: Tensor, here: Tensor) -> Tensor:
        """Log of q(y_i) times (1 - r) + r / (1 - min(q(x_i), q(y_i))): Metropolised Gibbs where r = 1 (Liu 1996)."""
        rarer = torch.minimum(there, here).exp()
        return there + (relaxation * rarer / (1 - rarer)).log1p()

    return law.remade(flip, move, 1 - relaxation)


def start(energy: Energy, x: Tensor, settings: Sequence[Number], known: PerChain | None = None) -> HamsState:
    """E(x) and its gradient, and a momentum that is drawn anew."""
    at = energy.evaluate(x, known)
    return HamsState(x=x, energy=at.energy, grad=at.grad, momentum=normal(x), known=at.known)


def refresh(state: HamsState, settings: Sequence[Number]) -> HamsState:
    """The state with u' = epsilon u + sqrt(1 - epsilon^2) times standard normal noise."""
    persistence = settings[1]
    fresh = root(1 - persistence * persistence) * normal(state.x)
    return replace(state, momentum=plus(fresh, persistence, state.momentum))


def move(energy: Energy, state: HamsState, settings: Sequence[Number]) -> tuple[HamsState, Info]:
    """Draws y, turns u into (y - x) / delta - u - phi delta (grad E(y) - grad E(x)), and accepts both, or negates u.

    A proposal from y with the new momentum negated leads back to x and -u. So the ratio is that of
    exp(-E - |u|^2 / 2) q( . | x, u) at both ends, and generalised detailed balance holds.
    """
    delta, _, correction, _ = settings
    u = state.momentum
    here = propose(energy, state.x, u, state.grad, settings)
    draw = here.sample()
    at = energy.evaluate(draw.y, None)
    kick = plus((draw.y - state.x) / delta, -correction * delta, at.grad - state.grad)
    new = HamsState(x=draw.y, energy=at.energy, grad=at.grad, momentum=kick - u, known=at.known)
    there = propose(energy, new.x, -new.momentum, new.grad, settings)
    kinetic = (u.square() - new.momentum.square()).flatten(1).sum(1) / 2
    log_ratio = state.energy - new.energy + kinetic + here.log_ratio(draw, there)
    return decide(energy, log_ratio, draw=draw, new=new, old=replace(state, momentum=-u))


def step(energy: Energy, state: HamsState, settings: Sequence[Number]) -> tuple[HamsState, Info]:
    """Refreshes a part of the momentum, then moves."""
    return move(energy, refresh(state, settings), settings)


class DiscreteHAMS(Sampler):
    """Discrete Hamiltonian-assisted Metropolis sampling (Zhou & Tan 2025, arXiv:2507.09807), irreversible.

    The law is extended to p(x) N(u; 0, I). A step refreshes a part of u, proposes y near z = x + delta u, and reflects
    the momentum there, so that an accepted move goes on in its direction. A rejected one turns back: u is negated.
    Each y_i is over-relaxed: it moves by a kernel that is reversible with respect to its law given z, and that leaves
    x_i more often than a draw from the law does. On linear energies every proposal is accepted, on quadratic ones not.

    Args:
        step_size: delta, in the units of x; tunable. `DMALA` calls its square alpha.
        persistence: epsilon, the share of the momentum that a step keeps; from 0 to below 1.
        correction: phi, the weight of the gradient's change in the momentum, times delta; a leapfrog step has 1/2.
        over_relaxation: r, from 0 (an independent draw) to below 1.

    Example:
        >>> from ebmlab.energies import Ising
        >>> from ebmlab.samplers import DiscreteHAMS
        >>> ising = Ising.lattice(3, 0.2)
        >>> x, info = DiscreteHAMS(step_size=1.0).sample(ising, ising.domain.random(4), num_steps=10)
        >>> x.shape
        torch.Size([4, 9])
    """

    domains = (Binary, Spin, Ordinal, Categorical)
    exact = True
    step_size: Tensor
    persistence: Tensor
    correction: Tensor
    over_relaxation: Tensor

    def __init__(
        self, step_size: float, persistence: float = 0.9, *, correction: float = 0.0, over_relaxation: float = 0.0
    ) -> None:
        super().__init__()
        require_positive("DiscreteHAMS", step_size=step_size)
        for name, value in {"persistence": persistence, "over_relaxation": over_relaxation}.items():
            if not 0 <= value < 1:
                raise UserError(f"DiscreteHAMS: {name} is {value}, but must be from 0 to below 1")
        if not 0 <= correction < torch.inf:
            raise UserError(f"DiscreteHAMS: correction is {correction}, but must be 0 or positive")
        for name, value in (
            ("step_size", step_size),
            ("persistence", persistence),
            ("correction", correction),
            ("over_relaxation", over_relaxation),
        ):
            self.register_buffer(name, torch.tensor(float(value)), persistent=False)

    def kernel_on(self, energy: Energy) -> Kernel:
        numbers = [self.step_size, self.persistence, self.correction, self.over_relaxation]
        return Kernel(start, step, torch.stack(numbers).unsqueeze(0))
