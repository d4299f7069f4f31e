"""The base class of what a study measures while chains run."""

from __future__ import annotations

import copy
from typing import Self

from torch import Tensor

from ebmlab.energies import Energy


class Measure:
    """Follows the states of all chains of one sampler on one target.

    `prepare` is called once for each target. Then `fresh` gives every sampler its own copy.

    Attributes:
        label: names the curve's axis; empty if there is no curve.
        log_scale: draw the curve on a logarithmic axis.

    Example:
        >>> class Largest(Measure):
        ...     label = "largest coordinate"
        ...     def value(self):
        ...         return float(self._x.max())
        >>> measure = Largest().fresh()
        >>> measure.update(torch.tensor([[1.0, 3.0]]))
        >>> measure.value()
        3.0
    """

    label = ""
    log_scale = False

    def prepare(self, energy: Energy) -> None:
        """Computes what all samplers share; raises `UserError` if the measure does not support the energy."""

    def fresh(self) -> Self:
        """A copy that has seen no states and shares what `prepare` computed."""
        return copy.copy(self)

    def update(self, x: Tensor) -> None:
        """Receives the states `(B, *event)` after a recorded step; by default keeps the last ones."""
        self._x = x

    def value(self) -> float:
        """The current value of the curve."""
        raise NotImplementedError

    def summary(self) -> dict[str, float]:
        """Entries for the study's table, by column."""
        return {}

    def picture(self) -> Tensor | None:
        """An image `(C, H, W)` in [0, 1], shown beside those of the other samplers."""
        return None

    def truth(self) -> Tensor | None:
        """The image that an exact sampler would give."""
        return None

    def text(self) -> str:
        """Text that is saved beside the table."""
        return ""
