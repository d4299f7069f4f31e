"""The error of chains' means."""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor

from ebmlab.energies import Energy
from ebmlab.evaluation import exact_mean
from ebmlab.studies.measures import Measure


class MeanError(Measure):
    """Root mean square over coordinates of (a chain's running mean - the exact mean), averaged over chains.

    The exact mean is a sum over all states, of which there are 2^25 in Zhang et al. 2022, Fig. 3.

    Example:
        >>> from ebmlab.energies import Ising
        >>> energy = Ising([[0.0]])  # one spin of mean 0
        >>> measure = MeanError()
        >>> measure.prepare(energy)
        >>> chain = measure.fresh()
        >>> chain.update(torch.tensor([[1.0]]))
        >>> chain.value()
        1.0
    """

    label = "RMSE of the mean"
    log_scale = True
    _total: Tensor
    _count: int

    def prepare(self, energy: Energy) -> None:
        self._mean = exact_mean(energy).double()

    def fresh(self) -> Self:
        new = super().fresh()
        new._total = torch.zeros(())
        new._count = 0
        return new

    def update(self, x: Tensor) -> None:
        self._total = self._total + x.double()
        self._count += 1

    def value(self) -> float:
        error = self._total / self._count - self._mean.to(self._total.device)
        return float(error.square().flatten(1).mean(1).sqrt().mean())

    def summary(self) -> dict[str, float]:
        return {"rmse_mean": self.value()}
