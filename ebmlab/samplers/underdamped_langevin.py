"""Langevin dynamics of position and velocity: BAOAB, and with Metropolis Horowitz's generalised HMC."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from ebmlab.domains import Real
from ebmlab.energies import Bipartite, Energy, PerChain
from ebmlab.native import normal, normal_
from ebmlab.samplers.by_chain import Moved, Sure
from ebmlab.samplers.columns import Columns
from ebmlab.samplers.kernel import Kernel
from ebmlab.samplers.metric import Scale, as_scale, check_scale, drift, kick, kinetic_rise, length_unit
from ebmlab.samplers.metropolis import metropolis
from ebmlab.samplers.numbers import Number, plus, root
from ebmlab.samplers.sampler import Sampler
from ebmlab.samplers.state import BipartiteState, Info
from ebmlab.settings import require_positive


class Options(NamedTuple):
    """What steps take besides the numbers.

    Attributes:
        adjusted: whether steps end in a Metropolis decision.
        scale: S of the metric (`ebmlab.samplers.metric`); None is 1.
    """

    adjusted: bool
    scale: Tensor | None


@dataclass(kw_only=True)
class UnderdampedState(BipartiteState):
    """x and the velocity, with the energy and its gradient at x.

    Attributes:
        velocity: v, N(0, 1) in equilibrium, `(B, *event)`.
        energy: E(x), `(B,)`; None if steps do not need it and the gradient alone is cheaper.
        grad: dE/dx, `(B, *event)`.
    """

    velocity: Tensor
    energy: Tensor | None
    grad: Tensor


def start(
    energy: Energy, x: Tensor, settings: Sequence[Number], options: Options, known: PerChain | None = None
) -> UnderdampedState:
    """A velocity of N(0, 1), dE/dx, and E(x) if steps are adjusted or it costs nothing more."""
    return _arrived(energy, x, normal(x), options, known)


def step(
    energy: Energy, state: UnderdampedState, settings: Sequence[Number], options: Options
) -> tuple[UnderdampedState, Info]:
    """One step of BAOAB (Leimkuhler & Matthews 2013), or of generalised HMC (Horowitz 1991)."""
    if options.adjusted:
        return adjusted(energy, state, settings, options)
    epsilon, kept = settings
    scale, half = options.scale, epsilon / 2
    velocity = kick(state.velocity, scale, half, state.grad)  # B
    x = drift(state.x, scale, half, velocity)  # A
    velocity = refreshed(velocity, kept)  # O
    x = drift(x, scale, half, velocity)  # A
    new = _arrived(energy, x, velocity, options)
    new = replace(new, velocity=kick(velocity, scale, half, new.grad))  # B
    return new, Info(Sure(x), Moved(energy.domain, x, state.x))


def adjusted(
    energy: Energy, state: UnderdampedState, settings: Sequence[Number], options: Options
) -> tuple[UnderdampedState, Info]:
    """Refreshes v in part, takes a leapfrog step, and accepts it with min(1, exp(H - H')); if rejected, v turns round.

    H = E(x) + |v|^2 / 2. Without the turn, the law would not be invariant.
    """
    epsilon, kept = settings
    scale, half = options.scale, epsilon / 2
    begin = refreshed(state.velocity, kept)  # O
    velocity = kick(begin, scale, half, state.grad)  # B
    new = _arrived(energy, drift(state.x, scale, epsilon, velocity), velocity, options)  # A
    end = kick(velocity, scale, half, new.grad)  # B
    assert state.energy is not None and new.energy is not None
    accepted, probability = metropolis(state.energy - new.energy - kinetic_rise(end, begin))
    after = replace(new, velocity=end).overwritten(accepted, replace(state, velocity=-begin))
    return after, Info(probability, Moved(energy.domain, after.x, state.x))


def refreshed(velocity: Tensor, kept: Number) -> Tensor:
    """C v + sqrt(1 - c^2) noise, which leaves N(0, 1) invariant."""
    return plus(kept * velocity, root(1 - kept * kept), normal(velocity))


def _arrived(
    energy: Energy, x: Tensor, velocity: Tensor, options: Options, known: PerChain | None = None
) -> UnderdampedState:
    if not options.adjusted and not isinstance(energy, Bipartite):
        return UnderdampedState(x=x, velocity=velocity, energy=None, grad=energy.gradient(x))
    at = energy.evaluate(x, known)
    return UnderdampedState(x=x, velocity=velocity, energy=at.energy, grad=at.grad, logits=at.logits, known=at.known)


class UnderdampedLangevin(Sampler):
    """Langevin dynamics dx = v dt, dv = -dE/dx dt - friction v dt + sqrt(2 friction) dW, one gradient a step.

    Unadjusted steps are BAOAB (Leimkuhler & Matthews, 2013), whose bias in x is of second order in the step size.
    Adjusted ones are exact: the generalised HMC of Horowitz (1991). It keeps the velocity from step to step, and turns
    it round where a step is rejected. Turns undo progress, so choose a step that nearly always is accepted.

    `init` draws velocities of N(0, 1), their law whatever x is. They live as long as the chain of one call. Training
    and AIS keep x alone, and draw new ones at each training step or temperature. This leaves the law as it is. So give
    training at least 1 / (friction step_size) steps, the memory of a velocity.

    Args:
        step_size: epsilon, in units of the root of `energy.step_unit()`; tunable.
        friction: gamma: a velocity is multiplied by exp(-friction step_size) in each step, and noise makes up for it.
            Large values make it a random walk such as `MALA`, small ones let chains oscillate.
        adjusted: whether to accept by Metropolis.
        scale: as in `HMC`.

    Example:
        >>> from ebmlab.energies import RealMLP
        >>> energy = RealMLP(2)
        >>> sampler = UnderdampedLangevin(0.3, friction=1.0, adjusted=True)
        >>> x, info = sampler.sample(energy, energy.random(4), num_steps=10)
        >>> x.shape, info.evaluations
        (torch.Size([4, 2]), 1.0)
    """

    domains = (Real,)
    step_size: Tensor
    friction: Tensor
    scale: Tensor | None

    def __init__(
        self, step_size: float, friction: float = 1.0, *, adjusted: bool = False, scale: Scale | None = None
    ) -> None:
        super().__init__()
        require_positive("UnderdampedLangevin", step_size=step_size, friction=friction)
        self.register_buffer("step_size", torch.tensor(float(step_size)), persistent=False)
        self.register_buffer("friction", torch.tensor(float(friction)), persistent=False)
        self.register_buffer("scale", as_scale("UnderdampedLangevin", scale), persistent=False)
        self.adjusted = adjusted

    @property
    def exact(self) -> bool:
        return self.adjusted

    def check(self, energy: Energy) -> None:
        super().check(energy)
        check_scale("UnderdampedLangevin", self.scale, energy.domain)

    def kernel_on(self, energy: Energy) -> Kernel:
        return Kernel(start, step, self._settings(energy).view(1, 2), (Options(self.adjusted, self.scale),))

    def _settings(self, energy: Energy) -> Tensor:
        return torch.stack([self.step_size * length_unit(energy), (-self.friction * self.step_size).exp()])

    @torch.no_grad()
    def _in_place(self, energy: Energy, x: Tensor, num_steps: int, hops: Tensor | None = None) -> Tensor | None:
        """BAOAB of `Columns` of few coordinates; the kicks at the end of a step and the beginning of the next are one.

        Metropolis and a metric take the steps as they are.
        """
        own = self._watched or self._by_steps
        if own or self.adjusted or self.scale is not None or not Columns.suit(energy, x):
            return None
        walk, (epsilon, kept) = Columns(x, hops), self._settings(energy).tolist()
        noise, std = torch.empty_like(walk.x), math.sqrt(1 - kept**2)
        velocity = normal(walk.x)
        for k in range(num_steps):
            velocity.add_(walk.gradient(energy), alpha=-epsilon if k else -epsilon / 2)  # BB, or B
            move = torch.mul(velocity, epsilon / 2, out=walk.next_move())  # A
            torch.add(normal_(noise, std=std), velocity, alpha=kept, out=velocity)  # O
            move.add_(velocity, alpha=epsilon / 2)  # A
            walk.move()
        return walk.last()
