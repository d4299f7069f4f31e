"""The Metropolis-Hastings step, which all kernels with a proposal use."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ebmlab.energies import Energy, PerChain
from ebmlab.native import uniform
from ebmlab.samplers.by_chain import Moved
from ebmlab.samplers.proposals import Proposal
from ebmlab.samplers.sampler import Sampler
from ebmlab.samplers.state import EnergyState, GradientState, Info


def metropolis(log_ratio: Tensor, chance: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Accepts each chain with probability min(1, exp(log_ratio)).

    Args:
        log_ratio: log of p(x') q(x | x') / (p(x) q(x' | x)), `(B,)`.
        chance: uniform numbers `(B,)`, if they have been drawn before.

    Returns:
        The decisions `(B,)`, bool, and the probabilities `(B,)`; a NaN ratio is rejected and its probability stays NaN.
    """
    probability = log_ratio.clamp(max=0).exp()
    return (uniform(log_ratio) if chance is None else chance) < probability, probability


def decide(energy: Energy, log_ratio: Tensor, *, new: Any, old: Any) -> tuple[Any, Info]:
    """The next state, and its report: the new state with probability min(1, exp(log_ratio)), else the old one.

    Args:
        energy: whose domain says how far chains have moved.
        log_ratio: as in `metropolis`.
        new: the state at y, which may be overwritten.
        old: the state at x.

    Example:
        >>> import torch
        >>> from ebmlab.energies import Ising
        >>> from ebmlab.samplers import State
        >>> ising, x, y = Ising.lattice(2, 0.2), torch.ones(1, 4), -torch.ones(1, 4)
        >>> after, info = decide(ising, torch.zeros(1), new=State(x=y), old=State(x=x))
        >>> info.hops
        tensor([4.])
    """
    accepted, probability = metropolis(log_ratio)
    after = new.overwritten(accepted, old)
    return after, Info(probability, Moved(energy.domain, after.x, old.x))


class MetropolisSampler(Sampler):
    """Draws a move from x to y, and accepts with min(1, p(y) q(back | y) / (p(x) q(move | x))).

    A kernel defines the `proposal` at a state. One that needs more than the energy and its gradient also defines what
    to evaluate at x (`evaluate`). It may define the state at y (`arrive`) and what is added to E (`potential`), too. A
    step evaluates the energy once, at y.

    Attributes:
        evaluations: energy-and-gradient evaluations of a step.

    Example:
        >>> import torch
        >>> from ebmlab.domains import Spin
        >>> from ebmlab.energies import Ising
        >>> from ebmlab.samplers.proposals import factorised
        >>> class Kernel(MetropolisSampler):
        ...     domains = (Spin,)
        ...     def proposal(self, energy, state):
        ...         return factorised(energy.domain, state.x, -state.grad / 2, stiffness=torch.tensor(5.0))
        >>> ising = Ising.lattice(3, 0.2)
        >>> x, info = Kernel().sample(ising, ising.domain.random(5), num_steps=10)
        >>> x.shape
        torch.Size([5, 9])
    """

    exact = True
    evaluations: float = 1.0

    @property
    def steady(self) -> bool:
        """Whether all steps make their proposal in the same way, so that the next step can use the one at y."""
        return True

    def proposal(self, energy: Energy, state: Any) -> Proposal:
        """The proposal q( . | x) at an evaluated state, for step number `state.step`."""
        raise NotImplementedError

    def evaluate(self, energy: Energy, x: Tensor, known: PerChain | None = None) -> EnergyState:
        """The state at x `(B, *event)`, with what `proposal` needs there; `known` as in `init`."""
        at = energy.evaluate(x, known)
        return GradientState(x=x, energy=at.energy, grad=at.grad, known=at.known)

    def arrive(self, energy: Energy, state: Any, y: Tensor) -> EnergyState:
        """The evaluated state at y that the proposal of `state` has drawn."""
        return self.evaluate(energy, y)

    def potential(self, state: Any) -> Tensor:
        """-log density of all variables that a step changes, up to a constant, `(B,)`: E(x) if it changes only x."""
        energy: Tensor = state.energy
        return energy

    @torch.no_grad()
    def init(self, energy: Energy, x: Tensor, horizon: int | None = None, known: PerChain | None = None) -> Any:
        return self.evaluate(energy, x, known)

    @torch.no_grad()
    def step(self, energy: Energy, state: Any) -> tuple[Any, Info]:
        if not self.steady:
            state = replace(state, proposal=None)
        here = state.proposal or self.proposal(energy, state)
        draw = here.sample()
        new = self.arrive(energy, state, draw.y)
        new.step = state.step
        there = self.proposal(energy, new)
        forth, back = draw.log_prob, there.log_prob(draw.reverse)
        accepted, probability = metropolis(self.potential(state) - self.potential(new) + back - forth)
        if self.steady:
            new.proposal = there
            if state.proposal is None:
                state = replace(state, proposal=here)
        after = new.overwritten(accepted, state)
        after.step = state.step + 1
        return after, Info(probability, Moved(energy.domain, after.x, state.x), evaluations=self.evaluations)
