"""Energies between two laws, along which annealed importance sampling walks (Neal, 2001)."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from ebmlab.energies.bipartite import Bipartite
from ebmlab.energies.energy import Energy
from ebmlab.energies.reference import Base, Bernoulli
from ebmlab.errors import UserError


def bridge(base: Base, energy: Energy, beta: float = 0.0) -> Bridge:
    """The path from `base` (beta = 0) to `energy` (beta = 1); a bipartite energy is bridged jointly with h."""
    return BipartiteBridge(base, energy, beta) if isinstance(energy, Bipartite) else Bridge(base, energy, beta)


class Bridge(Energy):
    """(1 - beta) E_0(x) + beta E_1(x).

    What was computed at x does not depend on beta, and is remembered: at a state that `settle` has been told of,
    neither `increment` nor a gradient at another beta asks the energies again.

    Args:
        base: E_0.
        energy: E_1, held, not copied.
        beta: from 0 to 1; may be set at any time.
    """

    def __init__(self, base: Base, energy: Energy, beta: float = 0.0) -> None:
        super().__init__()
        if base.domain.event_shape != energy.domain.event_shape or type(base.domain) is not type(energy.domain):
            raise UserError(f"the base lives on {base.domain}, but {type(energy).__name__} on {energy.domain}")
        self.base = base
        self.energy = energy
        self.beta = beta
        self.domain = energy.domain
        self._here: tuple[Tensor, ...] | None = None  # x where the chains are, and what is known there
        self._there: tuple[Tensor, ...] | None = None  # the same where they were looked at last
        self._looks = 0

    @property
    def log_z(self) -> float:
        """Log Z at beta = 0."""
        return self.base.log_z

    def forward(self, x: Tensor) -> Tensor:
        return self._mix(self.base(x), self.energy(x))

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        _, e0, g0, e1, g1 = self._know(x)
        return self._mix(e0, e1), self._mix(g0, g1)

    def increment(self, x: Tensor, beta: float) -> Tensor:
        """Log of exp(-E(x)) at another beta less that at the present one, `(B,)`; both unnormalised."""
        known = self._here
        e0, e1 = (known[1], known[3]) if known and known[0] is x else (self.base(x), self.energy(x))
        return (beta - self.beta) * (e0 - e1)

    def settle(self, x: Tensor) -> None:
        """Says where the chains are, `(B, *event)`, before and after each step.

        A step that looked at one other place has left every chain there or where it was.
        """
        there, self._there, looks, self._looks = self._there, None, self._looks, 0
        if there is not None and x is there[0]:
            self._here = there
        elif there is not None and looks == 1 and self._here is not None:
            moved = (x == there[0]).flatten(1).all(1)
            pairs = zip(there[1:], self._here[1:], strict=True)
            self._here = x, *(torch.where(moved.view(-1, *[1] * (new.dim() - 1)), new, old) for new, old in pairs)
        elif self._here is not None and x is not self._here[0]:
            self._here = None

    def flip_differences(
        self, x: Tensor, index: Tensor | None = None, around: tuple[Tensor, ...] | None = None
    ) -> Tensor:
        return self._mix(self.base.flip_differences(x, index), self.energy.flip_differences(x, index))

    def value_differences(self, x: Tensor, index: Tensor | None = None) -> Tensor:
        return self._mix(self.base.value_differences(x, index), self.energy.value_differences(x, index))

    @property
    def colours(self) -> list[Tensor]:
        """The energy's, where it has any: `ChromaticGibbs` asks."""
        return self.energy.colours  # type: ignore[return-value]

    def conditional(self, x: Tensor, sites: Tensor) -> Tensor:
        """Logits of p(x_i) given the rest, for the sites of one colour."""
        base: Any = self.base
        return self._mix(base.conditional(x, sites), self.energy.conditional(x, sites))  # type: ignore[operator]

    def step_unit(self) -> Tensor | float:
        return self.energy.step_unit()

    def _mix(self, at_0: Tensor, at_1: Tensor) -> Tensor:
        return (1 - self.beta) * at_0 + self.beta * at_1

    def _know(self, x: Tensor) -> tuple[Tensor, ...]:
        for known in (self._here, self._there):
            if known is not None and known[0] is x:
                return known
        self._there = x, *self._look(x)
        self._looks += 1
        return self._there

    def _look(self, x: Tensor) -> tuple[Tensor, ...]:
        """What is remembered of x: values and gradients of both ends."""
        return *self.base.value_and_grad(x), *self.energy.value_and_grad(x)


class BipartiteBridge(Bridge, Bipartite):
    """(1 - beta) E_0(v) + beta E_1(v, h), h uniform at beta = 0; as an energy of v, h is summed out.

    Scaling the joint energy keeps both conditionals in their form, which scaling the marginal one does not; so this is
    the path for block Gibbs (Salakhutdinov & Murray, 2008, Sec. 4.1).
    """

    energy: Bipartite
    flip_differences = Energy.flip_differences  # those of the marginal energies do not mix
    value_differences = Energy.value_differences

    def __init__(self, base: Base, energy: Bipartite, beta: float = 0.0) -> None:
        super().__init__(base, energy, beta)
        self.num_hidden = energy.num_hidden

    @property
    def log_z(self) -> float:
        return self.base.log_z + self.num_hidden * math.log(2)

    def forward(self, x: Tensor) -> Tensor:
        return self._free_energy(self.beta, *self._look(x))

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Closed where v is binary: E is linear in v, so that -dE/dv at E[h | v] is the logits of v."""
        if not isinstance(self.base, Bernoulli):
            return Energy.value_and_grad(self, x)
        with torch.no_grad():
            _, e0, without, logits = self._know(x)
            field = self.visible_given_hidden(torch.sigmoid(self.beta * logits))
            assert isinstance(field, Tensor)
            return self._free_energy(self.beta, e0, without, logits), -field

    def increment(self, x: Tensor, beta: float) -> Tensor:
        known = self._here
        parts = known[1:] if known and known[0] is x else self._look(x)
        return self._free_energy(self.beta, *parts) - self._free_energy(beta, *parts)

    def joint_energy(self, v: Tensor, h: Tensor) -> Tensor:
        return self._mix(self.base(v), self.energy.joint_energy(v, h))

    def hidden_given_visible(self, v: Tensor) -> Tensor:
        return self.beta * self._know(v)[3]

    def visible_given_hidden(self, h: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        law = self.energy.visible_given_hidden(h)
        if isinstance(law, Tensor):
            assert isinstance(self.base, Bernoulli)
            return self._mix(self.base.logits.to(law), law)
        mean, variance = law
        precision = self._mix(torch.ones_like(variance), 1 / variance)  # that of N(0, I) is 1
        return self.beta * mean / variance / precision, 1 / precision

    def visible_energy(self, v: Tensor) -> Tensor:
        return self._mix(self.base(v), self.energy.visible_energy(v))

    def _look(self, x: Tensor) -> tuple[Tensor, ...]:
        """E_0(v), E_1(v, h = 0) and the logits of h at beta = 1."""
        return self.base(x), self.energy.visible_energy(x), self.energy.hidden_given_visible(x)

    @staticmethod
    def _free_energy(beta: float, e0: Tensor, without: Tensor, logits: Tensor) -> Tensor:
        return (1 - beta) * e0 + beta * without - softplus(beta * logits).sum(1)
