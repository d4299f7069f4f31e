"""Energies with one layer of hidden units, whose two conditionals factorise."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ebmlab.domains import Binary, Categorical
from ebmlab.energies.energy import Energy
from ebmlab.energies.evaluation import PerChain
from ebmlab.energies.hidden_units import BITS, BinaryUnits, HiddenUnits
from ebmlab.energies.state_types import converted
from ebmlab.errors import UserError, how_many
from ebmlab.native import bernoulli, normal, sum_softplus
from ebmlab.numerics.noise import categorical


class Bipartite(Energy):
    """E(v) = -log of the sum over h of exp(-E(v, h)), with E(v, h) = E(v, 0) - h'I(v) + the sum of U(h_j).

    Hidden units are bits without U, unless a class offers other ones (`HiddenUnits`), and I(v) are then their logits.

    Attributes:
        num_hidden: H.
        units: their kind.

    Example:
        >>> from ebmlab.energies import RBM
        >>> energy: Bipartite = RBM(num_coordinates=4, num_hidden=3)
        >>> h = energy.units.sample(energy.hidden_given_visible(energy.random(5)))
        >>> energy.sample_visible(h).shape
        torch.Size([5, 4])
    """

    num_hidden: int
    units: HiddenUnits = BITS

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, {how_many(self.num_hidden, 'hidden unit')}"

    @property
    def has_bits(self) -> bool:
        """Whether hidden units are bits, whose states can be counted."""
        return isinstance(self.units, BinaryUnits)

    def check_mean(self, mean: Tensor) -> None:
        """Raises `UserError` unless a mean of the data has one number for each of a state's."""
        if mean.numel() != (size := math.prod(self.domain.event_shape)):
            raise UserError(f"{type(self).__name__}: a mean of {mean.numel()} numbers given, but a state has {size}")

    def as_hidden(self, h: Tensor) -> Tensor:
        """Hidden units `(B, H)` of any numeric type, or their means, in the energy's floating type."""
        if torch.compiler.is_compiling() or (isinstance(h, Tensor) and h.dtype == self.dtype):
            return h
        return converted(h, self.units.domain(self.num_hidden), self.dtype)

    def joint_energy(self, v: Tensor, h: Tensor) -> Tensor:
        """E(v, h), `(B,)`."""
        pull = (h * self.hidden_given_visible(v)).sum(1)
        return self.visible_energy(v) - pull + self.units.potential(h)

    def hidden_given_visible(self, v: Tensor) -> Tensor:
        """I(v), the inputs of the hidden units, `(B, H)`: the logits of p(h_j = 1 | v), if they are bits."""
        raise NotImplementedError

    def hidden_logits(self, v: Tensor, known: PerChain | None = None) -> tuple[Tensor, PerChain | None]:
        """`hidden_given_visible` and what may be passed as `known` at the same v; both as in `Energy.evaluate`."""
        return self.hidden_given_visible(v), None

    def visible_given_hidden(self, h: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """Parameters of p(v | h): logits on a Binary or Categorical domain, mean and variance on a Real domain."""
        raise NotImplementedError

    def sample_visible(self, h: Tensor) -> Tensor:
        """Draws v from p(v | h), `(B, *event)`."""
        law = self.visible_given_hidden(h)
        if isinstance(law, Tensor):
            return one_hot(categorical(law.log_softmax(-1)), law) if self._has_classes else bernoulli(law)
        mean, variance = law
        return mean + variance.sqrt() * normal(mean)

    def mean_visible(self, h: Tensor) -> Tensor:
        """E[v | h], `(B, *event)`."""
        law = self.visible_given_hidden(h)
        if isinstance(law, Tensor):
            return law.softmax(-1) if self._has_classes else torch.sigmoid(law)
        return law[0]

    def visible_energy(self, v: Tensor) -> Tensor:
        """E(v, h = 0), `(B,)`."""
        raise NotImplementedError

    def marginal_energy(self, v: Tensor, logits: Tensor, *, temperature: float | Tensor = 1.0) -> Tensor:
        """-log of the sum over h of exp(-E(v, h) / temperature), `(B,)`, given I(v); other temperatures need bits."""
        if isinstance(temperature, float) and temperature == 1.0:  # two passes over memory less
            return self.visible_energy(v) - self.units.log_sum(logits)
        assert self.has_bits
        return self.visible_energy(v) / temperature - sum_softplus(logits / temperature)

    def energy_and_mean(self, v: Tensor, logits: Tensor) -> tuple[Tensor, Tensor]:
        """`marginal_energy` `(B,)` and E[h | v] `(B, H)`, given I(v)."""
        if type(self).marginal_energy is not Bipartite.marginal_energy:  # a class may have an energy of its own
            return self.marginal_energy(v, logits), self.units.mean(logits)
        log_sum, mean = self.units.log_sum_and_mean(logits)
        return self.visible_energy(v) - log_sum, mean

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Has a closed form if v is no real vector: E(v, h) is linear in v, and -dE/dv the logits of v at E[h | v]."""
        if not isinstance(self.domain, Binary | Categorical):
            return super().value_and_grad(x)
        with torch.no_grad():
            logits = self.hidden_given_visible(x)
            energy, mean = self.energy_and_mean(x, logits)
            field = self.visible_given_hidden(mean)
            assert isinstance(field, Tensor)
            return energy, -field

    def forward(self, x: Tensor) -> Tensor:
        return self.marginal_energy(x, self.hidden_given_visible(x))

    @property
    def _has_classes(self) -> bool:
        return isinstance(self.domain, Categorical)


def one_hot(index: Tensor, like: Tensor) -> Tensor:
    """One-hot vectors of the shape and type of `like`, `(..., q)`, from numbers of values `(...)`."""
    return (index.unsqueeze(-1) == torch.arange(like.shape[-1], device=like.device)).to(like.dtype)
