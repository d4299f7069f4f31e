"""Hamiltonian Monte Carlo (Duane et al., 1987; Neal, 2011, MCMC using Hamiltonian dynamics)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

import torch
from torch import Tensor

from ebmlab.data.numbers import as_numbers
from ebmlab.domains import Real
from ebmlab.energies import Energy, PerChain
from ebmlab.errors import UserError
from ebmlab.numerics.noise import normal
from ebmlab.samplers.kernel import Kernel
from ebmlab.samplers.metropolis import metropolis
from ebmlab.samplers.numbers import Number, plus
from ebmlab.samplers.sampler import Sampler
from ebmlab.samplers.state import BipartiteState, Info
from ebmlab.settings import require_count, require_positive


class Options(NamedTuple):
    """What steps take besides the step size.

    Attributes:
        num_leapfrog: leapfrog steps of a trajectory.
        scale: s, the square roots of the inverse masses, in the shape of the domain; None is 1.
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
    """Follows x and v along dx/dt = s v, dv/dt = -s dE/dx (Neal 2011, Eq. 5.18-5.20).

    In units of s, in which x / s moves by v, all masses are 1. A trajectory of -v from the end leads back.
    """
    (epsilon,) = settings
    reach = epsilon if options.scale is None else epsilon * options.scale.to(state.x)
    x, velocity = state.x, plus(velocity, -0.5 * reach, state.grad)
    for _ in range(options.num_leapfrog - 1):
        x = plus(x, reach, velocity)
        velocity = plus(velocity, -reach, energy.gradient(x))
    new = start(energy, plus(x, reach, velocity), settings, options)
    return new, plus(velocity, -0.5 * reach, new.grad)


def step(energy: Energy, state: HMCState, settings: Sequence[Number], options: Options) -> tuple[HMCState, Info]:
    """Draws v of N(0, 1), follows a trajectory, and accepts its end with min(1, exp(H - H')) (Neal 2011, Eq. 5.21).

    H = E(x) + |v|^2 / 2 is nearly constant along it.
    """
    begin = normal(state.x)
    new, end = leapfrog(energy, state, begin, settings, options)
    gained = ((end - begin) * (end + begin)).flatten(1).sum(1) / 2  # rounds less than the difference of two sums
    accepted, probability = metropolis(state.energy - new.energy - gained)
    after = new.overwritten(accepted, state)
    return after, Info(
        probability, lambda: energy.domain.hops(after.x, state.x), evaluations=float(options.num_leapfrog)
    )


class HMC(Sampler):
    """Hamiltonian Monte Carlo with a fixed number of leapfrog steps, which is exact.

    Each step draws new velocities. With one leapfrog step it is `MALA` of half the squared step size. A trajectory of
    about a quarter of the slowest oscillation mixes best; at half of an oscillation chains can return to where they
    were.

    Args:
        step_size: epsilon of a leapfrog step, in units of the root of `energy.step_unit()`; tunable.
        num_leapfrog: leapfrog steps of a trajectory, each an evaluation of the gradient.
        scale: standard deviations of x, or what is known of them, in the shape of the domain: the step of each
            coordinate is proportional to it. All 1 by default.

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

    def __init__(
        self, step_size: float, num_leapfrog: int = 10, *, scale: Sequence[float] | Tensor | None = None
    ) -> None:
        super().__init__()
        require_positive("HMC", step_size=step_size)
        require_count("HMC", num_leapfrog=num_leapfrog)
        given = None if scale is None else as_numbers(scale, "HMC: scale")
        if given is not None:
            require_positive("HMC", scale=given)
        self.register_buffer("step_size", torch.tensor(float(step_size)), persistent=False)
        self.register_buffer("scale", given, persistent=False)
        self.num_leapfrog = num_leapfrog

    def check(self, energy: Energy) -> None:
        super().check(energy)
        shape = tuple(cast(Real, energy.domain).event_shape)
        if self.scale is not None and tuple(self.scale.shape) != shape:
            raise UserError(f"HMC: scale has shape {tuple(self.scale.shape)}, but {energy.domain} has {shape}")

    def kernel_on(self, energy: Energy) -> Kernel:
        unit = energy.step_unit()
        root = unit.sqrt() if isinstance(unit, Tensor) else math.sqrt(unit)
        return Kernel(start, step, (self.step_size * root).view(1, 1), (Options(self.num_leapfrog, self.scale),))
