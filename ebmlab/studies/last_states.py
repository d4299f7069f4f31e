"""The chains' last states as images."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ebmlab.drawing.tiles import tile
from ebmlab.energies import Energy
from ebmlab.errors import UserError
from ebmlab.studies.measures import Measure


class Images(Measure):
    """The chains' last states in a grid.

    Args:
        shape: height and width of a state, or channels, height and width.
        count: number of chains to show.

    Example:
        >>> measure = Images(shape=(4, 4), count=9)
        >>> measure.update(torch.rand(20, 16))
        >>> measure.picture().shape  # 3 rows of 3 images
        torch.Size([1, 16, 16])
    """

    def __init__(self, shape: Sequence[int], count: int = 25) -> None:
        if len(shape) not in (2, 3):
            raise UserError(f"Images: shape is {list(shape)}, but must be height and width, or channels too")
        self.shape = tuple(shape)
        self.count = count

    def prepare(self, energy: Energy) -> None:
        size, wanted = torch.Size(energy.domain.event_shape).numel(), torch.Size(self.shape).numel()
        if size != wanted:
            raise UserError(
                f"Images: a state of {energy.domain} has {size} numbers, an image {self.shape} has {wanted}"
            )

    def picture(self) -> Tensor:
        x = self._x[: self.count].cpu().float()
        x = (x - x.min()) / (x.max() - x.min()).clamp(min=1e-6)
        return tile(x.reshape(len(x), -1, *self.shape[-2:]), fill=0.5)
