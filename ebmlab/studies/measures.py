"""What a study watches while chains run."""

from __future__ import annotations

import copy
from typing import Self

from torch import Tensor

from ebmlab.energies import Energy


class Measure:
    """Follows the states of all chains of one sampler on one target.

    `prepare` is called once a target, `fresh` then gives every sampler its own copy.

    Attributes:
        label: names the curve's axis; empty where there is no curve.
        log_scale: draw the curve on a logarithmic axis.
    """

    label = ""
    log_scale = False

    def prepare(self, energy: Energy) -> None:
        """References that all samplers share; raises `UserError` if the measure does not suit the energy."""

    def fresh(self) -> Self:
        """A copy that has seen no states; what `prepare` found is shared."""
        return copy.copy(self)

    def update(self, x: Tensor) -> None:
        """The states `(B, *event)` after a recorded step."""

    def value(self) -> float:
        """The curve's value now."""
        raise NotImplementedError

    def summary(self) -> dict[str, float]:
        """Columns of the study's table."""
        return {}

    def picture(self) -> Tensor | None:
        """An image `(C, H, W)` in [0, 1] to show beside the other samplers'."""
        return None

    def truth(self) -> Tensor | None:
        """The image that an exact sampler would give."""
        return None

    def text(self) -> str:
        """Lines to keep beside the table."""
        return ""
