"""Histograms of the states that chains visit on a plane of integers, and of the exact law."""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor

from ebmlab.domains import Ordinal
from ebmlab.energies import Energy
from ebmlab.errors import UserError
from ebmlab.studies.measures import Measure
from ebmlab.studies.targets.mode_grid import ModeGrid

BLOCK = 11  # states a side that are counted together


class Histogram2D(Measure):
    """Counts of the visits to each state of a `ModeGrid` and of the modes visited (Pynadath et al. 2024, Fig. 1).

    Example:
        >>> energy = ModeGrid(side=2)
        >>> measure = Histogram2D()
        >>> measure.prepare(energy)
        >>> chain = measure.fresh()
        >>> chain.update(torch.tensor([[75.0, 75.0], [150.0, 150.0]]))  # two chains, each at a mode
        >>> chain.value(), chain.summary()["modes_together"]
        (1.0, 2.0)
    """

    label = "modes visited by a chain"
    _counts: Tensor
    _visited: Tensor | None

    def prepare(self, energy: Energy) -> None:
        if not isinstance(energy, ModeGrid) or not isinstance(energy.domain, Ordinal):
            raise UserError(f"Histogram2D shows a ModeGrid, not a {type(energy).__name__}")
        self._energy = energy
        self._law = energy.density().double().cpu()

    def fresh(self) -> Self:
        new = super().fresh()
        new._counts = torch.zeros_like(self._law)
        new._visited = None
        return new

    def update(self, x: Tensor) -> None:
        index = x.long().cpu()
        side = self._law.shape[0]
        self._counts += torch.bincount(index[:, 0] * side + index[:, 1], minlength=side * side).view(side, side)
        mode = self._energy.nearest_mode(x).cpu()
        if self._visited is None:
            self._visited = torch.zeros(len(x), len(self._energy.modes) + 1, dtype=torch.bool)
        self._visited[torch.arange(len(x)), mode] = True  # index -1, no mode, is the last column

    def value(self) -> float:
        assert self._visited is not None
        return float(self._visited[:, :-1].sum(1).double().mean())

    def summary(self) -> dict[str, float]:
        assert self._visited is not None
        together = float(self._visited[:, :-1].any(0).sum())
        coarse = [_coarse(table / table.sum()) for table in (self._counts, self._law)]
        distance = float((coarse[0] - coarse[1]).abs().sum()) / 2
        return {"modes_per_chain": self.value(), "modes_together": together, "tv_blocks": distance}

    def picture(self) -> Tensor:
        return _image(self._counts)

    def truth(self) -> Tensor:
        return _image(self._law)


def _coarse(table: Tensor) -> Tensor:
    """Sums over blocks of states, so few that thousands of samples fill them."""
    missing = -table.shape[0] % BLOCK
    side = (table.shape[0] + missing) // BLOCK
    return torch.nn.functional.pad(table, (0, missing, 0, missing)).view(side, BLOCK, side, BLOCK).sum((1, 3))


def _image(table: Tensor) -> Tensor:
    """Counts as an image, darker where larger; means over 3x3 states, as square roots to make faint modes visible."""
    smooth = torch.nn.functional.avg_pool2d(table[None], 3, stride=1, padding=1)
    return (1 - (smooth / smooth.max().clamp(min=1e-300)).sqrt()).float()
