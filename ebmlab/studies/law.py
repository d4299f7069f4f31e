"""The distance between the law of the states visited and the target law."""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor

from ebmlab.domains import Finite
from ebmlab.energies import Energy
from ebmlab.errors import UserError
from ebmlab.studies.measures import Measure


class LawDistance(Measure):
    """L1 distance of the frequencies of all states, over chains and steps, from exp(-E) / Z (Zhang et al., Fig. 1).

    Example:
        >>> from ebmlab.energies import Ising
        >>> energy = Ising([[0.0]])  # one spin, both values equally likely
        >>> measure = LawDistance()
        >>> measure.prepare(energy)
        >>> chain = measure.fresh()
        >>> chain.update(torch.ones(5, 1))
        >>> chain.value()
        1.0
    """

    label = "L1 distance to the law"
    log_scale = True
    _counts: Tensor

    def prepare(self, energy: Energy) -> None:
        if not isinstance(energy.domain, Finite):
            raise UserError(f"LawDistance needs a finite domain, {type(energy).__name__} lives on {energy.domain}")
        self._domain = energy.domain
        with torch.no_grad():
            self._law = (-energy(energy.domain.enumerate().to(energy.device)).double()).softmax(0).cpu()

    def fresh(self) -> Self:
        new = super().fresh()
        new._counts = torch.zeros_like(self._law)
        return new

    def update(self, x: Tensor) -> None:
        digits = self._domain.to_index(x).flatten(1).cpu()
        powers = self._domain.num_values ** torch.arange(digits.shape[1] - 1, -1, -1)
        self._counts += torch.bincount((digits * powers).sum(1), minlength=len(self._law))

    def value(self) -> float:
        return float((self._counts / self._counts.sum() - self._law).abs().sum())

    def summary(self) -> dict[str, float]:
        return {"l1_law": self.value()}
