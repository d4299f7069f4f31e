"""A weighted sum of the energies of many states, to differentiate, in memory that does not grow with their number."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn

from ebmlab.energies.accumulated import Accumulated
from ebmlab.energies.hidden_units import HiddenUnits
from ebmlab.native import add_product


class WeightedSum:
    """The sum of weight * E(x) over all states added; its gradient is the weighted sum of dE/dparameters.

    The gradient of contrastive divergence is that of one such sum (GRBM paper, Eq. 13 and 18). In it n data weigh
    1 / n, and m negatives -1 / m. Each batch is differentiated when it is added, and not kept.
    """

    def __init__(self, energy: nn.Module) -> None:
        self._energy = energy
        self._sum = Accumulated(energy.parameters())

    def add(
        self, x: Tensor, hidden: Tensor | None = None, inputs: Tensor | None = None, weight: float | Tensor = 1.0
    ) -> None:
        """Adds states.

        Args:
            x: the states, `(B, *event)`.
            hidden: h, which bipartite energies allow, `(B, H)`. The sum is then that of E(v, h). With E[h | v] for h
                its gradient is that of the marginal energy.
            inputs: `hidden_given_visible(x)`, where it is known already.
            weight: of each state, or weights of their own, `(B,)`.
        """
        joint = getattr(self._energy, "joint_energy", None)
        if hidden is not None and joint is None:
            raise TypeError(f"{type(self._energy).__name__} has no hidden units")
        with torch.inference_mode(False), torch.enable_grad():
            x = x.detach().clone()
            value = self._energy(x) if hidden is None or joint is None else joint(x, hidden.detach().clone())
            self._sum.add((weight.to(value) * value).sum() if isinstance(weight, Tensor) else weight * value.sum())

    def number(self) -> Tensor:
        """The sum so far, a scalar without a gradient."""
        return self.value().detach()

    def value(self) -> Tensor:
        """The sum so far, a scalar whose gradient with respect to the parameters is the sum of the gradients."""
        return self._sum.value()


class PairEnergy(Protocol):
    """An energy E(v, h) whose sum over pairs depends on the sums of v, v^2, h and v h' alone."""

    @property
    def W(self) -> Tensor:  # noqa: N802
        """Weights `(V, H)`."""

    @property
    def units(self) -> HiddenUnits:
        """The kind of h."""

    def hidden_given_visible(self, v: Tensor) -> Tensor:
        """Inputs `(B, H)` of the hidden units."""

    def summed_energy(self, count: Tensor, v: Tensor, v_squared: Tensor, h: Tensor, vh: Tensor) -> Tensor:
        """The weighted sum of E(v, h) without the potential of h, a scalar.

        Args:
            count: sum of the weights, a scalar.
            v: weighted sum of v, `(V,)`.
            v_squared: weighted sum of v^2, `(V,)`.
            h: weighted sum of h, `(H,)`.
            vh: weighted sum of v h', `(V, H)`.
        """


class WeightedPairs(WeightedSum):
    """The sum of weight * E(v, h), from the sufficient statistics v, v^2, h and v h' alone (GRBM paper, Eq. 14 to 17).

    With E[h | v] in place of h, its gradient is that of the marginal energy (Eq. 33 to 36).
    """

    def __init__(self, energy: PairEnergy) -> None:
        self._pairs = energy
        visible, hidden = energy.W.shape
        self._v, self._v_squared, self._h = map(energy.W.new_zeros, (visible, visible, hidden))
        self._vh: Tensor | None = None  # made by the first product: filling zeros before would take as long as adding
        self._count, self._potential = map(energy.W.new_zeros, ((), ()))  # which have no gradient in the parameters

    @torch.no_grad()
    def add(
        self, x: Tensor, hidden: Tensor | None = None, inputs: Tensor | None = None, weight: float | Tensor = 1.0
    ) -> None:
        """Adds pairs of v `(B, V)` and h `(B, H)`; E[h | v] when None."""
        if hidden is None:
            hidden = self._pairs.units.mean(self._pairs.hidden_given_visible(x) if inputs is None else inputs)
        x, h = x.to(self._v), hidden.to(self._v)  # mixed precision gives half precision here
        alpha, weighted_x, weighted_h = 1.0, x, h
        if isinstance(weight, Tensor):
            weighted_x, weighted_h = (part * weight.to(x).unsqueeze(1) for part in (x, h))
        else:
            alpha = weight
        v = weighted_x.sum(0) * alpha
        self._v += v
        self._v_squared += (x * weighted_x).sum(0) * alpha
        self._h += weighted_h.sum(0) * alpha
        potential = self._pairs.units.potential(h)
        self._potential += (potential * weight).sum()
        first = self._vh is None
        self._vh = h.new_empty(self._pairs.W.shape) if self._vh is None else self._vh
        # autocast does not round in-place products
        add_product(self._vh, weighted_x.T, h, alpha=alpha, overwrite=first)
        self._count += weight.sum() if isinstance(weight, Tensor) else weight * len(x)

    def value(self) -> Tensor:
        vh = self._v.new_zeros(self._pairs.W.shape) if self._vh is None else self._vh
        return self._pairs.summed_energy(self._count, self._v, self._v_squared, self._h, vh) + self._potential
