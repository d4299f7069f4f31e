"""The path of annealed importance sampling to an energy with hidden units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from ebmlab.energies.bipartite import Bipartite
from ebmlab.energies.energy import Energy
from ebmlab.energies.evaluation import Evaluation, PerChain
from ebmlab.energies.gaussian import Gaussian
from ebmlab.energies.paths.bridge import Bridge
from ebmlab.energies.paths.known_log_z import Solved
from ebmlab.energies.paths.reference import Base, Bernoulli, Frequencies, StandardNormal, Uniform
from ebmlab.errors import UserError
from ebmlab.native import normal
from ebmlab.numerics.unrounded import unrounded


def bridge(base: Base, energy: Energy, *, beta: float = 0.0) -> Bridge:
    """The path from `base` (beta = 0) to `energy` (beta = 1); for a bipartite energy, the path of the joint law.

    From a solved model whose hidden units are not those of the energy, the path is that of the marginal law.

    Example:
        >>> from ebmlab.energies import RBM, bridge, reference
        >>> rbm = RBM(4, 3)
        >>> type(bridge(reference(rbm.domain), rbm, beta=0.5)).__name__
        'BipartiteBridge'
    """
    if isinstance(energy, Bipartite) and (not isinstance(base, Solved) or _with_units_of(energy, base)):
        return BipartiteBridge(base, energy, beta=beta)
    return Bridge(base, energy, beta=beta)


@dataclass
class JointEnds(PerChain):
    """What both ends of a `BipartiteBridge` contribute at v. It does not depend on its beta.

    Attributes:
        base: E_0(v), or E_0(v, h = 0) of a solved model, `(B,)`.
        visible: E_1(v, h = 0), `(B,)`.
        logits: of h at beta = 1, `(B, H)`.
        base_logits: of h at beta = 0, `(B, H)`, of a solved model; else None, for inputs of 0.
    """

    base: Tensor
    visible: Tensor
    logits: Tensor
    base_logits: Tensor | None = None


class BipartiteBridge(Bridge, Bipartite):
    """(1 - beta) E_0(v) + beta E_1(v, h), h free of v at beta = 0; as an energy of v, h is summed out.

    Both conditionals of a scaled joint energy keep their form, those of a scaled marginal energy do not. This is
    therefore the path that block Gibbs can follow (Salakhutdinov & Murray, 2008, Sec. 4.1). From a `Solved` model with
    the same hidden units it is (1 - beta) E_0(v, h) + beta E_1(v, h).

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

    def __init__(self, base: Base, energy: Bipartite, *, beta: float = 0.0) -> None:
        if not isinstance(base, Uniform | Bernoulli | Frequencies | StandardNormal | Gaussian | Solved):
            raise UserError(
                f"block Gibbs has no way from the base law {type(base).__name__} to {type(energy).__name__}: take "
                "Uniform, Bernoulli, Frequencies, StandardNormal, Gaussian or Solved, or another sampler, such as "
                "DMALA or Langevin"
            )
        super().__init__(base, energy, beta=beta)
        self.num_hidden, self.units = energy.num_hidden, energy.units
        self._kept: dict[str, tuple[Tensor, Tensor, Tensor]] = {}  # the same at every beta

    @property
    def log_z(self) -> float:
        free = self.units.log_sum(torch.zeros(self.num_hidden, dtype=torch.float64))
        return self.base.log_z if self._solved else self.base.log_z + float(free)

    def forward(self, x: Tensor) -> Tensor:
        return self._free_energy(self.beta, self._ends(x, None))

    def evaluate(self, x: Tensor, known: PerChain | None = None) -> Evaluation:
        """By autograd. Samplers that need gradients follow the path of the marginal law, which is cheaper."""
        return Evaluation(*Energy.value_and_grad(self, x))

    def values(self, x: Tensor) -> PerChain:
        return self._ends(x, None)

    def increment(self, x: Tensor, beta: float, known: PerChain | None = None) -> Tensor:
        ends = self._ends(x, known)
        return self._free_energy(self.beta, ends) - self._free_energy(beta, ends)

    def joint_energy(self, v: Tensor, h: Tensor) -> Tensor:
        start = self._solved
        first = start.joint_energy(v, h) if start else self.base(v) + self.units.potential(h)
        return self._mix(first, self.energy.joint_energy(v, h))

    def hidden_given_visible(self, v: Tensor) -> Tensor:
        logits, start = self.beta * self.energy.hidden_given_visible(v), self._solved
        return logits + (1 - self.beta) * start.hidden_given_visible(v) if start else logits

    def hidden_logits(self, v: Tensor, known: PerChain | None = None) -> tuple[Tensor, PerChain | None]:
        ends = self._ends(v, known)
        return self._logits(self.beta, ends), ends

    def visible_given_hidden(self, h: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        law, start = self.energy.visible_given_hidden(h), self._solved
        first = start.visible_given_hidden(h) if start else None
        if isinstance(law, Tensor):
            if first is None:
                base = self.base
                first = base.logits.to(law) if isinstance(base, Bernoulli | Frequencies) else torch.zeros_like(law)
            assert isinstance(first, Tensor)
            return self._mix(first, law)
        if isinstance(self.base, Gaussian):
            raise UserError("the coordinates of v are not independent given h while the path leaves a Gaussian base")
        mean, variance = law
        if first is None:
            precision = self._mix(torch.ones_like(variance), 1 / variance)  # that of N(0, I) is 1
            return self.beta * mean / variance / precision, 1 / precision
        precision = self._mix(1 / first[1], 1 / variance)
        return self._mix(first[0] / first[1], mean / variance) / precision, 1 / precision

    @unrounded
    def sample_visible(self, h: Tensor) -> Tensor:
        """With a `Gaussian` base, p(v | h) is a Gaussian with a full covariance.

        In units of sigma, its precision has the same eigenvectors at every beta: those of the base's precision.
        """
        if not isinstance(self.base, Gaussian):
            return super().sample_visible(h)
        mean, variance = self.energy.visible_given_hidden(h)
        std = variance.sqrt()
        values, axes = self._axes(self.base, std)
        precision = self._mix(values, torch.ones_like(values))
        base_pull = self.base.precision.to(mean) @ self.base.mean.to(mean).flatten()
        pull = self._mix(base_pull, mean / variance) * std @ axes
        drawn = pull / precision + normal(pull) / precision.sqrt()
        return drawn @ axes.T * std

    def _axes(self, base: Gaussian, std: Tensor) -> tuple[Tensor, Tensor]:
        """Eigenvalues and eigenvectors of the base's precision in units of `std`, kept until these change."""
        kept = self._kept.get("axes")
        if kept is None or kept[0].device != std.device or not torch.equal(kept[0], std):
            matrix = std * base.precision.to(std) * std.unsqueeze(1)
            self._kept["axes"] = kept = std, *torch.linalg.eigh(matrix)
        return kept[1:]

    def visible_energy(self, v: Tensor) -> Tensor:
        start = self._solved
        return self._mix(start.visible_energy(v) if start else self.base(v), self.energy.visible_energy(v))

    @property
    def _solved(self) -> Bipartite | None:
        """The model at beta = 0, if it has hidden units."""
        return _with_units_of(self.energy, self.base)

    def _ends(self, v: Tensor, known: PerChain | None) -> JointEnds:
        if known is not None:
            return cast(JointEnds, known)
        visible, logits, start = self.energy.visible_energy(v), self.energy.hidden_given_visible(v), self._solved
        if start is None:
            return JointEnds(self.base(v), visible, logits)
        return JointEnds(start.visible_energy(v), visible, logits, start.hidden_given_visible(v))

    @staticmethod
    def _logits(beta: float, ends: JointEnds) -> Tensor:
        logits = beta * ends.logits
        return logits if ends.base_logits is None else logits + (1 - beta) * ends.base_logits

    def _free_energy(self, beta: float, ends: JointEnds) -> Tensor:
        logits = BipartiteBridge._logits(beta, ends)
        return (1 - beta) * ends.base + beta * ends.visible - self.units.log_sum(logits)


def _with_units_of(energy: Bipartite, base: Base) -> Bipartite | None:
    """The base's model, if it has as many hidden units as an energy, of the same kind."""
    start = base.energy if isinstance(base, Solved) else None
    if not isinstance(start, Bipartite) or start.num_hidden != energy.num_hidden:
        return None
    return start if type(start.units) is type(energy.units) else None
