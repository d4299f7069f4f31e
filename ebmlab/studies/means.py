"""The error of a chain's mean against the exact mean."""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor

from ebmlab.energies import Energy
from ebmlab.evaluation import exact_mean
from ebmlab.studies.measures import Measure


class MeanError(Measure):
    """Root mean square over coordinates of (a chain's running mean - the exact mean), averaged over chains.

    The exact mean is summed over all states (Zhang et al. 2022, Figure 3: 2^25 of them).
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
