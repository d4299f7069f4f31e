"""Energies between a base law and a target: the path of annealed importance sampling (Neal, 2001)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn.functional import softplus

from ebmlab.energies.bipartite import Bipartite
from ebmlab.energies.energy import Around, Energy
from ebmlab.energies.evaluation import Evaluation, PerChain
from ebmlab.energies.reference import Base, Bernoulli
from ebmlab.errors import UserError


def bridge(base: Base, energy: Energy, beta: float = 0.0) -> Bridge:
    """The path from `base` (beta = 0) to `energy` (beta = 1); for a bipartite energy, the path of the joint law.

    Example:
        >>> from ebmlab.energies import RBM, bridge, reference
        >>> rbm = RBM(4, 3)
        >>> type(bridge(reference(rbm.domain), rbm, 0.5)).__name__
        'BipartiteBridge'
    """
    return BipartiteBridge(base, energy, beta) if isinstance(energy, Bipartite) else Bridge(base, energy, beta)


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
    to `evaluate` or `increment`, the ends are not evaluated again; beta may have changed.

    Args:
        base: E_0.
        energy: E_1; held, not copied.
        beta: from 0 to 1; may be set at any time.

    Example:
        >>> from ebmlab.energies import Ising, bridge, reference
        >>> ising = Ising.lattice(3, 0.2)
        >>> path = bridge(reference(ising.domain), ising, beta=0.1)
        >>> x = ising.domain.random(5)
        >>> known = path.evaluate(x).known
        >>> path.beta = 0.2
        >>> bool((path.evaluate(x, known).energy == path(x)).all())
        True
    """

    def __init__(self, base: Base, energy: Energy, beta: float = 0.0) -> None:
        super().__init__()
        if base.domain.event_shape != energy.domain.event_shape or type(base.domain) is not type(energy.domain):
            raise UserError(f"the base lives on {base.domain}, but {type(energy).__name__} on {energy.domain}")
        self.base = base
        self.energy = energy
        self.beta = beta
        self.domain = energy.domain

    @property
    def log_z(self) -> float:
        """Log Z at beta = 0."""
        return self.base.log_z

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

    def increment(self, x: Tensor, beta: float, known: PerChain | None = None) -> Tensor:
        """Log of the unnormalised density at another beta, minus that at the current one, `(B,)`."""
        ends = cast(Ends | None, known)
        base, energy = (self.base(x), self.energy(x)) if ends is None else (ends.base, ends.energy)
        return (beta - self.beta) * (base - energy)

    def flip_differences(self, x: Tensor, index: Tensor | None = None, around: Around | None = None) -> Tensor:
        return self._mix(self.base.flip_differences(x, index), self.energy.flip_differences(x, index))

    def value_differences(self, x: Tensor, index: Tensor | None = None) -> Tensor:
        return self._mix(self.base.value_differences(x, index), self.energy.value_differences(x, index))

    @property
    def colours(self) -> list[Tensor]:
        """The energy's colours, if it has any; used by `ChromaticGibbs`."""
        return self.energy.colours  # type: ignore[return-value]

    def conditional(self, x: Tensor, sites: Tensor) -> Tensor:
        """Logits of p(x_i) given the rest, for the sites of one colour."""
        base: Any = self.base
        return self._mix(base.conditional(x, sites), self.energy.conditional(x, sites))  # type: ignore[operator]

    def step_unit(self) -> Tensor | float:
        return self.energy.step_unit()

    def _mix(self, at_0: Tensor, at_1: Tensor) -> Tensor:
        return (1 - self.beta) * at_0 + self.beta * at_1


@dataclass
class JointEnds(PerChain):
    """What both ends of a `BipartiteBridge` contribute at v. It does not depend on its beta.

    Attributes:
        base: E_0(v), `(B,)`.
        visible: E_1(v, h = 0), `(B,)`.
        logits: of h at beta = 1, `(B, H)`.
    """

    base: Tensor
    visible: Tensor
    logits: Tensor


class BipartiteBridge(Bridge, Bipartite):
    """(1 - beta) E_0(v) + beta E_1(v, h), h uniform at beta = 0; as an energy of v, h is summed out.

    Both conditionals of a scaled joint energy keep their form, those of a scaled marginal energy do not. This is
    therefore the path that block Gibbs can follow (Salakhutdinov & Murray, 2008, Sec. 4.1).

    Example:
        >>> from ebmlab.energies import RBM, bridge, reference
        >>> rbm = RBM(4, 3)
        >>> path = bridge(reference(rbm.domain), rbm, beta=0.5)
        >>> x = rbm.domain.random(5)
        >>> logits, known = path.hidden_logits(x)
        >>> path.increment(x, 0.6, known).shape
        torch.Size([5])
    """

    energy: Bipartite
    flip_differences = Energy.flip_differences  # the marginal energy is not a mix of the ends' marginal energies
    value_differences = Energy.value_differences

    def __init__(self, base: Base, energy: Bipartite, beta: float = 0.0) -> None:
        super().__init__(base, energy, beta)
        self.num_hidden = energy.num_hidden

    @property
    def log_z(self) -> float:
        return self.base.log_z + self.num_hidden * math.log(2)

    def forward(self, x: Tensor) -> Tensor:
        return self._free_energy(self.beta, self._ends(x, None))

    def evaluate(self, x: Tensor, known: PerChain | None = None) -> Evaluation:
        """Has a closed form if v is binary: E(v, h) is linear in v, so that -dE/dv is the logits of v at E[h | v]."""
        if not isinstance(self.base, Bernoulli):
            return Evaluation(*Energy.value_and_grad(self, x))
        with torch.no_grad():
            ends = self._ends(x, known)
            logits = self.beta * ends.logits
            field = self.visible_given_hidden(torch.sigmoid(logits))
            assert isinstance(field, Tensor)
            return Evaluation(self._free_energy(self.beta, ends), -field, logits, ends)

    def increment(self, x: Tensor, beta: float, known: PerChain | None = None) -> Tensor:
        ends = self._ends(x, known)
        return self._free_energy(self.beta, ends) - self._free_energy(beta, ends)

    def joint_energy(self, v: Tensor, h: Tensor) -> Tensor:
        return self._mix(self.base(v), self.energy.joint_energy(v, h))

    def hidden_given_visible(self, v: Tensor) -> Tensor:
        return self.beta * self.energy.hidden_given_visible(v)

    def hidden_logits(self, v: Tensor, known: PerChain | None = None) -> tuple[Tensor, PerChain | None]:
        ends = self._ends(v, known)
        return self.beta * ends.logits, ends

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

    def _ends(self, v: Tensor, known: PerChain | None) -> JointEnds:
        if known is not None:
            return cast(JointEnds, known)
        return JointEnds(self.base(v), self.energy.visible_energy(v), self.energy.hidden_given_visible(v))

    @staticmethod
    def _free_energy(beta: float, ends: JointEnds) -> Tensor:
        return (1 - beta) * ends.base + beta * ends.visible - softplus(beta * ends.logits).sum(1)
