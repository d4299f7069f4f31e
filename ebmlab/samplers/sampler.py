"""A sampler draws from an energy: `init` makes a state, `step` makes one transition, `sample` makes many."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from ebmlab.domains import Domain, Real
from ebmlab.energies import Bipartite, Energy
from ebmlab.errors import UserError


@dataclass(kw_only=True)
class State:
    """Where the chains are, and what the kernel has already computed there.

    The cached parts are stale as soon as the energy's parameters change: keep `x` alone and call `init` again.

    Attributes:
        x: `(B, *event)`.
        step: steps taken since `init`.
        logits: of p(h | x), `(B, H)`, where the energy is bipartite and the kernel has computed them.
        hidden: h, `(B, H)`, where the kernel draws hidden units.
    """

    x: Tensor
    step: int = 0
    logits: Tensor | None = None
    hidden: Tensor | None = None

    def where(self, accept: Tensor, other: Self) -> Self:
        """This state for the chains with `accept` (`(B,)`, bool), `other` for the rest."""

        def choose(new: Any, old: Any) -> Any:
            if not isinstance(new, Tensor) or new.dim() == 0:  # shared by all chains
                return new
            return torch.where(accept.view(-1, *[1] * (new.dim() - 1)), new, old)

        return replace(self, **{f.name: choose(getattr(self, f.name), getattr(other, f.name)) for f in fields(self)})


@dataclass(kw_only=True)
class EnergyState(State):
    """x with the energy there.

    Attributes:
        energy: E(x), `(B,)`.
    """

    energy: Tensor


@dataclass(kw_only=True)
class GradientState(EnergyState):
    """x with the energy and its gradient there.

    Attributes:
        grad: dE/dx, `(B, *event)`.
    """

    grad: Tensor


@dataclass
class Info:
    """What one step did, or the mean over steps.

    Attributes:
        acceptance: probability with which the proposal was accepted, `(B,)`; 1 where there is no Metropolis step.
        hops: how far the chain moved, `(B,)`: coordinates changed on a finite domain, Euclidean distance on Real.
        evaluations: energy-and-gradient evaluations (for block Gibbs: pairs of conditionals) that the step cost.
    """

    acceptance: Tensor
    hops: Tensor
    evaluations: float = 1.0

    def __add__(self, other: Info) -> Info:
        return Info(self.acceptance + other.acceptance, self.hops + other.hops, self.evaluations + other.evaluations)

    def __truediv__(self, n: int) -> Info:
        return Info(self.acceptance / n, self.hops / n, self.evaluations / n)


class Sampler(nn.Module):
    """A Markov kernel. Holds its own settings (step sizes are buffers), never the energy.

    No chain's law depends on which or how many other chains share its batch.
    """

    domains: ClassVar[tuple[type[Domain], ...]] = ()

    @property
    def exact(self) -> bool:
        """Whether every step from `init` leaves p(x) = exp(-E(x)) / Z invariant."""
        raise NotImplementedError

    @property
    def converges(self) -> bool:
        """Whether chains follow p after enough steps: exact samplers do, and some whose first steps are not exact."""
        return self.exact

    def check(self, energy: Energy) -> None:
        """Raises `UserError` if this sampler cannot serve the energy."""
        if not isinstance(energy.domain, self.domains):
            mine = " or ".join(d.__name__ for d in self.domains)
            raise UserError(
                f"{type(self).__name__} samples {mine} domains, but {type(energy).__name__} lives on {energy.domain}"
            )

    def init(self, energy: Energy, x: Tensor, horizon: int | None = None) -> State:
        """State at x `(B, *event)`; annealed schedules span `horizon`."""
        raise NotImplementedError

    def step(self, energy: Energy, state: Any) -> tuple[State, Info]:
        """One transition of every chain."""
        raise NotImplementedError

    def for_training(self, energy: Energy, x: Tensor, iteration: int, num_steps: int) -> tuple[Sampler, Tensor, int]:
        """What moves the negative chains of a training iteration.

        Args:
            energy: as it is now.
            x: where the chains are, `(B, *event)`.
            iteration: counts from 0.
            num_steps: steps that the learner asks for.

        Returns:
            The sampler, where it starts, and how many steps it takes: this one from x, unless a subclass follows a
            schedule over iterations.
        """
        return self, x, num_steps

    def chain(self, energy: Energy, x: Tensor, num_steps: int) -> Iterator[tuple[State, Info]]:
        """The states after step 1, ..., `num_steps` from x."""
        self.check(energy)
        state = self.init(energy, x, num_steps)
        for _ in range(num_steps):
            state, info = self.step(energy, state)
            yield state, info

    def sample(self, energy: Energy, x: Tensor, num_steps: int) -> tuple[Tensor, Info]:
        """Runs the chains from x `(B, *event)`.

        Returns:
            The last x, and the mean of `Info` over the steps (on the device; no host synchronisation).

        Raises:
            UserError: the sampler cannot serve the energy, or x is not a batch of states of its domain.
        """
        self.check(energy)
        energy.domain.validate(x)
        total = Info(acceptance=x.new_zeros(len(x)), hops=x.new_zeros(len(x)), evaluations=0.0)
        for state, info in self.chain(energy, x, num_steps):
            x = state.x
            total = total + info
        return x, total / max(num_steps, 1)


def require_bipartite(sampler: Sampler, energy: Energy) -> None:
    """Raises `UserError` unless the energy has hidden units."""
    if not isinstance(energy, Bipartite):
        other = "Langevin" if isinstance(energy.domain, Real) else "DMALA"
        raise UserError(
            f"{type(sampler).__name__} needs a bipartite energy (an RBM or GRBM: it draws hidden units), "
            f"but {type(energy).__name__} has none; take {other}, say"
        )


def check_settings(name: str, step_size: float, adjust_from: int | None, temperature: float) -> None:
    """Raises `UserError` unless a Langevin-like sampler's settings make sense."""
    if not step_size > 0:
        raise UserError(f"{name}: step_size is {step_size}, but must be positive")
    if adjust_from is not None and adjust_from < 0:
        raise UserError(f"{name}: adjust_from is {adjust_from}, but must be a step (0 is the first) or null for never")
    if not temperature > 0:
        raise UserError(f"{name}: temperature is {temperature}, but must be positive")
