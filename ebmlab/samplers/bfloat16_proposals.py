"""Proposals made of several steps in bfloat16, decided in float32: the surrogate transition method (Liu 2001)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from ebmlab.domains import Binary, Categorical, Ordinal, Spin
from ebmlab.energies import Energy
from ebmlab.errors import UserError
from ebmlab.numerics.unrounded import no_autocast
from ebmlab.samplers.any_scale import AnyScale
from ebmlab.samplers.dlmc import DLMC
from ebmlab.samplers.dmala import DMALA
from ebmlab.samplers.gwg import GWG
from ebmlab.samplers.kernel import Kernel
from ebmlab.samplers.metropolis import metropolis
from ebmlab.samplers.numbers import Number
from ebmlab.samplers.path_auxiliary import PathAuxiliary
from ebmlab.samplers.regularised_langevin import RegularisedLangevin
from ebmlab.samplers.sampler import Sampler
from ebmlab.samplers.state import EnergyState, Info
from ebmlab.settings import require_count

REVERSIBLE = (DMALA, GWG, PathAuxiliary, AnyScale, DLMC, RegularisedLangevin)


@dataclass(kw_only=True)
class RoundedState(EnergyState):
    """x with its energy in float32, and the state of the kernel in bfloat16.

    Attributes:
        rounded: where the kernel stands, with its energy E'(x).
    """

    rounded: EnergyState

    @property
    def excess(self) -> Tensor:
        """E'(x) - E(x), `(B,)`; 0 where both are infinite."""
        return torch.where(self.rounded.energy == self.energy, 0, self.rounded.energy - self.energy)


def start(energy: Energy, x: Tensor, settings: Sequence[Number], inner: Kernel, num_inner_steps: int) -> RoundedState:
    """E(x), and the state of the kernel there."""
    with torch.autocast(x.device.type, torch.bfloat16):
        rounded = inner.start(energy, x, settings, *inner.options)
    return RoundedState(x=x, energy=_unrounded(energy, x), rounded=rounded)


def step(
    energy: Energy, state: RoundedState, settings: Sequence[Number], inner: Kernel, num_inner_steps: int
) -> tuple[RoundedState, Info]:
    """Moves from x to y by k steps on E', and accepts with min(1, p(y) p'(x) / (p(x) p'(y)))."""

    def walk() -> tuple[EnergyState, Tensor]:
        rounded, acceptance = state.rounded, torch.zeros_like(state.energy)
        for _ in range(num_inner_steps):
            rounded, info = inner.step(energy, rounded, settings, *inner.options)
            acceptance = acceptance + info.acceptance / num_inner_steps
        return rounded, acceptance

    with torch.autocast(state.x.device.type, torch.bfloat16):
        rounded, acceptance = _with_rounded_convolutions(energy, walk)
    new = RoundedState(x=rounded.x, energy=_unrounded(energy, rounded.x), rounded=rounded)
    accepted, probability = metropolis(new.excess - state.excess)
    after = new.where(accepted, state)
    report = Info(
        acceptance * probability, lambda: energy.domain.hops(after.x, state.x), evaluations=num_inner_steps + 1
    )
    return after, report


class _Call(nn.Module):
    """A call during which `torch.func.functional_call` puts other weights into an energy."""

    def __init__(self, energy: Energy) -> None:
        super().__init__()
        self.energy = energy

    def forward(self, function: Callable[[], Any]) -> Any:
        return function()


def _with_rounded_convolutions(energy: Energy, function: Callable[[], Any]) -> Any:
    """What a function that evaluates the energy under autocast returns, with fewer operations.

    Autocast would round the weights of all convolutions anew in each evaluation, which is a quarter of the operations
    of a `ResNet`. Here they are rounded once.
    """
    weights = {
        f"energy.{name}.{key}": weight.bfloat16()
        for name, module in energy.named_modules()
        if isinstance(module, nn.Conv2d)
        for key, weight in module.named_parameters(recurse=False)
        if weight.dtype == torch.float32  # as autocast, which leaves float64 alone
    }
    return functional_call(_Call(energy), weights, (function,)) if weights else function()


def _unrounded(energy: Energy, x: Tensor) -> Tensor:
    with no_autocast(x.device):
        value: Tensor = energy(x)
    return value


class Bfloat16Proposals(Sampler):
    """Has a kernel take its steps in bfloat16, and decides about each k of them in float32; the law stays exact.

    Under autocast networks compute a rounded energy E', and the kernel leaves p'(x) proportional to exp(-E'(x))
    invariant. Its k steps from x to y are one proposal, which is accepted with probability

        min(1, p(y) p'(x) / (p(x) p'(y))) = min(1, exp(E(x) - E(y) - E'(x) + E'(y))).

    This leaves p invariant if the kernel is reversible, as its k steps then are (Liu 2001, Monte Carlo Strategies in
    Scientific Computing, the surrogate transition method; with k = 1 the delayed acceptance of Christen & Fox 2005).
    Only how E' - E varies costs acceptance, and E is evaluated without its gradient, once in k steps.

    E' must be a function of x: what it is at x may not depend on the other chains of the batch, as batch normalisation
    does. Both E'(x) and its gradient are computed once, where a chain arrives, and used for the move there and for the
    next one away. Programs of `torch.compile` may round elsewhere than the plain code that makes the first state, so
    these steps are not compiled; a CUDA graph records them. Energies in closed form, and all in float64, are not
    rounded: they gain nothing. With TF32 p is that of the energies in TF32. No GPU has run this sampler yet.

    Args:
        sampler: the kernel: `DMALA`, `GWG`, `PathAuxiliary`, `AnyScale`, `DLMC` or `RegularisedLangevin`.
        num_inner_steps: k, steps of the kernel in one of this sampler.

    Example:
        >>> from ebmlab.energies import MLP
        >>> from ebmlab.samplers import DMALA, Bfloat16Proposals
        >>> energy, sampler = MLP(6, 8), Bfloat16Proposals(DMALA(step_size=0.2), num_inner_steps=4)
        >>> x, info = sampler.sample(energy, energy.random(5), num_steps=10)
        >>> x.shape, info.evaluations
        (torch.Size([5, 6]), 5.0)
    """

    domains = (Binary, Spin, Ordinal, Categorical)
    exact = True

    def __init__(self, sampler: Sampler, num_inner_steps: int = 8) -> None:
        super().__init__()
        require_count("Bfloat16Proposals", num_inner_steps=num_inner_steps)
        if type(sampler) not in REVERSIBLE:
            names = ", ".join(kind.__name__ for kind in REVERSIBLE)
            raise UserError(
                f"Bfloat16Proposals: {type(sampler).__name__} is not known to be reversible and exact, without which "
                f"the law would change: take one of {names}, or leave Bfloat16Proposals out"
            )
        self.sampler = sampler
        self.num_inner_steps = num_inner_steps

    def check(self, energy: Energy) -> None:
        super().check(energy)
        self.sampler.check(energy)
        if energy.dtype in (torch.float16, torch.bfloat16):
            raise UserError(
                f"Bfloat16Proposals decides in float32, but {type(energy).__name__} is in {energy.dtype}: keep its "
                "parameters in float32 (precision 32-true or bf16-mixed), or leave Bfloat16Proposals out"
            )

    def kernel_on(self, energy: Energy) -> Kernel:
        inner = self.sampler.kernel_on(energy)
        assert inner is not None
        return Kernel(start, step, inner.settings, (inner, self.num_inner_steps))

    def compilable(self, energy: Energy) -> None:
        """No kernel: E' of a program and of plain code, which makes the first state, are two functions of x."""
