"""Hamiltonian Monte Carlo (Duane et al., 1987; Neal, 2011, MCMC using Hamiltonian dynamics)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from ebmlab.domains import Real
from ebmlab.energies import Energy, PerChain
from ebmlab.native import normal, uniform
from ebmlab.numerics.noise import wide
from ebmlab.samplers.by_chain import Moved
from ebmlab.samplers.kernel import Kernel, UnevenKernel
from ebmlab.samplers.metric import Scale, as_scale, check_scale, drift, kick, kinetic_rise, length_unit
from ebmlab.samplers.metropolis import metropolis
from ebmlab.samplers.numbers import Number
from ebmlab.samplers.sampler import Sampler
from ebmlab.samplers.state import BipartiteState, Info
from ebmlab.settings import require_count, require_positive


class Options(NamedTuple):
    """What steps take besides the step size.

    Attributes:
        num_leapfrog: leapfrog steps of a trajectory.
        scale: S of the metric (`ebmlab.samplers.metric`); None is 1.
    """

    num_leapfrog: int
    scale: Tensor | None


@dataclass(kw_only=True)
class HMCState(BipartiteState):
    """x with the energy and its gradient there.

    Attributes:
        energy: E(x), `(B,)`.
        grad: dE/dx, `(B, *event)`.
    """

    energy: Tensor
    grad: Tensor


def start(
    energy: Energy, x: Tensor, settings: Sequence[Number], options: Options, known: PerChain | None = None
) -> HMCState:
    """E(x) and dE/dx."""
    at = energy.evaluate(x, known)
    return HMCState(x=x, energy=at.energy, grad=at.grad, logits=at.logits, known=at.known)


def leapfrog(
    energy: Energy, state: HMCState, velocity: Tensor, settings: Sequence[Number], options: Options
) -> tuple[HMCState, Tensor]:
    """Follows x and v along dx/dt = S v, dv/dt = -S' dE/dx (Neal 2011, Eq. 5.18-5.20).

    In z of x = S z all masses are 1. A trajectory of -v from the end leads back.
    """
    new, velocity, _ = _followed(energy, state, velocity, settings, options, watch=False)
    return new, velocity


def step(
    energy: Energy,
    state: HMCState,
    settings: Sequence[Number],
    options: Options,
    velocity: Tensor | None = None,
    chance: Tensor | None = None,
) -> tuple[HMCState, Info]:
    """Draws v of N(0, 1), follows a trajectory, and accepts its end with min(1, exp(H - H')) (Neal 2011, Eq. 5.21).

    H = E(x) + |v|^2 / 2 is nearly constant along it. `velocity` and `chance` are v and a uniform number `(B,)`, where
    they have been drawn before.

    A trajectory that diverges may end in NaN, as of infinity less infinity, and is rejected with probability 0. It is
    told by a velocity for which H loses all digits after the point. NaN after any other one is the energy's own.
    Compiled programs do not look, which would take a quarter of their time: the acceptance is NaN there.
    """
    begin = normal(state.x) if velocity is None else velocity
    watch, compiled = not begin.is_cpu, torch.compiler.is_compiling()
    new, end, diverged = _followed(energy, state, begin, settings, options, watch and not compiled)
    log_ratio = state.energy - new.energy - kinetic_rise(end, begin)
    evaluations = options.num_leapfrog
    if not (watch or compiled) and bool(log_ratio.isnan().any()):  # rarely, so that all are followed once more
        diverged = _followed(energy, state, begin, settings, options, watch=True)[2]
        evaluations *= 2
    if diverged is not None:
        log_ratio = log_ratio.masked_fill(diverged & log_ratio.isnan(), -torch.inf)
    accepted, probability = metropolis(log_ratio, chance)
    after = new.overwritten(accepted, state)
    return after, Info(probability, Moved(energy.domain, after.x, state.x), evaluations=float(evaluations))


def _followed(
    energy: Energy, state: HMCState, velocity: Tensor, settings: Sequence[Number], options: Options, watch: bool
) -> tuple[HMCState, Tensor, Tensor | None]:
    """The end of a trajectory, its velocity, and with `watch` which ones have diverged, `(B,)`."""
    (epsilon,), scale = settings, options.scale
    limit = torch.finfo(velocity.dtype).eps ** -0.5
    x, velocity = state.x, kick(velocity, scale, 0.5 * epsilon, state.grad)
    fast = velocity.abs() > limit if watch else None
    for _ in range(options.num_leapfrog - 1):
        x = drift(x, scale, epsilon, velocity)
        velocity = kick(velocity, scale, epsilon, energy.gradient(x))
        fast = None if fast is None else fast | (velocity.abs() > limit)
    new = start(energy, drift(x, scale, epsilon, velocity), settings, options)
    diverged = None if fast is None else fast.flatten(1).any(1)
    return new, kick(velocity, scale, 0.5 * epsilon, new.grad), diverged


class Numbers(NamedTuple):
    """All random numbers of some steps.

    Attributes:
        velocity: `(steps, B, *event)`.
        chance: uniform, `(steps, B)`.
        steps: how many steps chains take, `()`.
    """

    velocity: Tensor
    chance: Tensor
    steps: Tensor


@dataclass
class Outcome(PerChain):
    """What chains have come to.

    Attributes:
        state: where they are.
        acceptance: the sum over the steps, `(B,)`.
        hops: likewise.
        evaluations: likewise.
    """

    state: HMCState
    acceptance: Tensor
    hops: Tensor
    evaluations: Tensor


@dataclass
class Walk(PerChain):
    """Chains after `taken` `()` of their steps."""

    taken: Tensor
    outcome: Outcome


def drawn(x: Tensor, steps: int, room: int) -> Numbers:
    """The random numbers of so many steps, in room for more."""
    velocity, chance = x.new_empty(room, *x.shape), wide(x.new_empty(0)).new_empty(room, len(x))
    velocity[:steps], chance[:steps] = normal(velocity[:steps]), uniform(chance[:steps])
    return Numbers(velocity, chance, torch.tensor(steps, device=x.device))


def begun(state: HMCState, numbers: Numbers, options: Options) -> Walk:
    """The chains before their first step."""
    nothing = torch.zeros_like(wide(state.energy))
    return Walk(torch.zeros_like(numbers.steps), Outcome(state, nothing, nothing, nothing))


def tick(energy: Energy, walk: Walk, numbers: Numbers, settings: Sequence[Number], options: Options) -> Walk:
    """One step of all chains."""
    done = walk.outcome
    velocity, chance = (part.index_select(0, walk.taken.view(1)).squeeze(0) for part in numbers[:2])
    state, info = step(energy, done.state, settings, options, velocity, chance)
    sums = done.acceptance + info.acceptance, done.hops + info.hops, done.evaluations + info.evaluations
    return Walk(walk.taken + 1, Outcome(state, *sums))


class HMC(Sampler):
    """Hamiltonian Monte Carlo with a fixed number of leapfrog steps, which is exact.

    Each step draws new velocities. With one leapfrog step it is `MALA` of half the squared step size. A trajectory of
    about a quarter of the slowest oscillation mixes best; at half of an oscillation chains can return to where they
    were.

    With `compile=True` on a CPU, up to 256 steps are one loop within a program, which takes random numbers drawn before
    it.

    Args:
        step_size: epsilon of a leapfrog step, in units of the root of `energy.step_unit()`; tunable.
        num_leapfrog: leapfrog steps of a trajectory, each an evaluation of the gradient.
        scale: what is known of the spread of x, 1 by default. Standard deviations have the shape of the domain, and
            steps of coordinates are proportional to them. Or it is a Cholesky factor of the covariance, `(size, size)`.
            `WarmUp` finds it.

    Example:
        >>> from ebmlab.energies import RealMLP
        >>> energy = RealMLP(2)
        >>> x, info = HMC(0.5, num_leapfrog=5).sample(energy, energy.random(4), num_steps=10)
        >>> x.shape, info.evaluations
        (torch.Size([4, 2]), 5.0)
    """

    domains = (Real,)
    exact = True
    step_size: Tensor
    scale: Tensor | None

    def __init__(self, step_size: float, num_leapfrog: int = 10, *, scale: Scale | None = None) -> None:
        super().__init__()
        require_positive("HMC", step_size=step_size)
        require_count("HMC", num_leapfrog=num_leapfrog)
        self.register_buffer("step_size", torch.tensor(float(step_size)), persistent=False)
        self.register_buffer("scale", as_scale("HMC", scale), persistent=False)
        self.num_leapfrog = num_leapfrog

    def check(self, energy: Energy) -> None:
        super().check(energy)
        check_scale("HMC", self.scale, energy.domain)

    def kernel_on(self, energy: Energy) -> Kernel:
        epsilon = self.step_size * length_unit(energy)
        return Kernel(start, step, epsilon.view(1, 1), (Options(self.num_leapfrog, self.scale),))

    def uneven_on(self, energy: Energy) -> UnevenKernel | None:
        """On a CPU, where steps of few numbers take less time than calling a program does, all are one loop in it."""
        if type(self).kernel_on is not HMC.kernel_on or self._by_steps or energy.device.type != "cpu":
            return None
        options = Options(self.num_leapfrog, self.scale)
        epsilon = torch.as_tensor(self.step_size * length_unit(energy)).view(1)
        begin = partial(start, settings=(), options=options)
        return UnevenKernel(begin, drawn, begun, tick, epsilon, options, energy.domain.size + 1)
