"""Energies between a base law and a target: the path of annealed importance sampling (Neal, 2001)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self, cast

import torch
from torch import Tensor

from ebmlab.energies.energy import Around, Energy
from ebmlab.energies.evaluation import Evaluation, PerChain
from ebmlab.energies.paths.known_log_z import Solved
from ebmlab.energies.paths.reference import Base
from ebmlab.errors import UserError


@dataclass
class Values(PerChain):
    """Values of both ends of a bridge at x.

    Attributes:
        base: E_0(x), `(B,)`.
        energy: E_1(x), `(B,)`.
    """

    base: Tensor
    energy: Tensor


@dataclass
class Ends(PerChain):
    """Values and gradients of both ends of a bridge at x. They do not depend on its beta.

    Attributes:
        base: E_0(x), `(B,)`.
        base_grad: its gradient, `(B, *event)`.
        energy: E_1(x), `(B,)`.
        energy_grad: its gradient, `(B, *event)`.
    """

    base: Tensor
    base_grad: Tensor
    energy: Tensor
    energy_grad: Tensor


class Bridge(Energy):
    """(1 - beta) E_0(x) + beta E_1(x).

    `evaluate` returns the values and gradients of both ends at x as `known`. If they are passed back with the same x,
    to `evaluate` or `increment`, the ends are not evaluated again, whatever beta is (`at`).

    Args:
        base: E_0.
        energy: E_1; held, not copied.
        beta: from 0 to 1; a tensor without axes in compiled programs.

    Example:
        >>> from ebmlab.energies import Ising, bridge, reference
        >>> ising = Ising.lattice(3, 0.2)
        >>> path = bridge(reference(ising.domain), ising, beta=0.1)
        >>> x = ising.domain.random(5)
        >>> known = path.evaluate(x).known
        >>> later = path.at(0.2)
        >>> bool((later.evaluate(x, known).energy == later(x)).all())
        True
    """

    beta: float

    def __init__(self, base: Base, energy: Energy, *, beta: float = 0.0) -> None:
        super().__init__()
        if str(base.domain) != str(energy.domain):
            raise UserError(f"the base lives on {base.domain}, but {type(energy).__name__} on {energy.domain}")
        self.base = base
        self.energy = energy
        self.beta = beta
        self.domain = energy.domain

    def at(self, beta: float | Tensor) -> Self:
        """The law at another beta, between the same two ends."""
        other = type(self).__new__(type(self))
        vars(other).update(vars(self), beta=beta)
        return other

    @property
    def log_z(self) -> float:
        """Log Z at beta = 0."""
        return self.base.log_z

    @property
    def dtype(self) -> torch.dtype:
        """The inner energy's."""
        return self.energy.dtype

    def as_states(self, x: Tensor) -> Tensor:
        """As the inner energy takes them."""
        return self.energy.as_states(x)

    def forward(self, x: Tensor) -> Tensor:
        return self._mix(self.base(x), self.energy(x))

    def evaluate(self, x: Tensor, known: PerChain | None = None) -> Evaluation:
        if known is None:
            known = Ends(*self.base.value_and_grad(x), *self.energy.value_and_grad(x))
        ends = cast(Ends, known)
        return Evaluation(self._mix(ends.base, ends.energy), self._mix(ends.base_grad, ends.energy_grad), known=ends)

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        at = self.evaluate(x)
        return at.energy, at.grad

    def values(self, x: Tensor) -> PerChain:
        """What `increment` needs to know at x, without the gradients that `evaluate` computes."""
        return Values(self.base(x), self.energy(x))

    def increment(self, x: Tensor, beta: float, known: PerChain | None = None) -> Tensor:
        """Log of the unnormalised density at another beta, minus that at the current one, `(B,)`."""
        ends = cast(Values | Ends, self.values(x) if known is None else known)
        rise = (beta - self.beta) * (ends.base - ends.energy)
        # 0 times an infinite energy is NaN, and float32 does not tell all temperatures apart
        return torch.where(beta == self.beta, 0, rise) if isinstance(beta, Tensor) else rise

    def flip_differences(self, x: Tensor, index: Tensor | None = None, around: Around | None = None) -> Tensor:
        return self._mix(self.base.flip_differences(x, index), self.energy.flip_differences(x, index))

    def value_differences(self, x: Tensor, index: Tensor | None = None) -> Tensor:
        return self._mix(self.base.value_differences(x, index), self.energy.value_differences(x, index))

    @property
    def colours(self) -> list[Tensor]:
        """The energy's colours, if it has any; used by `ChromaticGibbs`."""
        if isinstance(self.base, Solved):
            raise AttributeError("the base may have other colours")
        return self.energy.colours  # type: ignore[return-value]

    def conditional(self, x: Tensor, sites: Tensor) -> Tensor:
        """Logits of p(x_i) given the rest, for the sites of one colour."""
        base: Any = self.base
        return self._mix(base.conditional(x, sites), self.energy.conditional(x, sites))  # type: ignore[operator]

    def step_unit(self) -> Tensor | float:
        return self.energy.step_unit()

    def _mix(self, at_0: Tensor, at_1: Tensor) -> Tensor:
        if isinstance(self.beta, Tensor):
            return (1 - self.beta) * at_0 + torch.where(self.beta == 0, 0, self.beta * at_1)  # likewise
        if self.beta == 0:
            return at_0 + torch.zeros_like(at_1)  # 0 times an infinite energy is NaN
        return torch.add((1 - self.beta) * at_0, at_1, alpha=self.beta)  # lerp makes NaN of an infinite energy
