"""The chains' last states as images."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ebmlab.domains import Finite
from ebmlab.drawing.tiles import tile
from ebmlab.energies import Energy
from ebmlab.errors import UserError
from ebmlab.settings import require_count
from ebmlab.studies.measures import Measure


class Images(Measure):
    """The chains' last states in a grid.

    On a finite domain the smallest value is black and the largest white. Real numbers are scaled by the smallest and
    the largest that are shown.

    Args:
        shape: height and width of a state, or 1 or 3 channels, height and width.
        count: number of chains to show.

    Raises:
        UserError: the shape is not that of an image, or no chains are to be shown.

    Example:
        >>> measure = Images(shape=(4, 4), count=9)
        >>> measure.update(torch.rand(20, 16))
        >>> measure.picture().shape  # 3 rows of 3 images
        torch.Size([1, 16, 16])
    """

    _range: tuple[float, float] | None = None

    def __init__(self, shape: Sequence[int], count: int = 25) -> None:
        if len(shape) not in (2, 3) or min(shape) < 1 or tuple(shape[:-2]) not in ((), (1,), (3,)):
            raise UserError(
                f"Images: shape is {list(shape)}, but must be height and width, or 1 or 3 channels, height and width"
            )
        require_count("Images", count=count)
        self.shape = tuple(shape)
        self.count = count

    def prepare(self, energy: Energy) -> None:
        size, wanted = torch.Size(energy.domain.event_shape).numel(), torch.Size(self.shape).numel()
        if size != wanted:
            raise UserError(
                f"Images: a state of {energy.domain} has {size} numbers, an image {self.shape} has {wanted}"
            )
        self._range = None
        if isinstance(domain := energy.domain, Finite):
            ends = domain.from_index(torch.tensor([0, domain.num_values - 1]))
            self._range = (float(ends.min()), float(ends.max()))

    def picture(self) -> Tensor:
        x = self._x[: self.count].cpu().float()
        low, high = self._range or (float(x.min()), float(x.max()))
        x = (x - low) / max(high - low, 1e-6)
        return tile(x.reshape(len(x), -1, *self.shape[-2:]), fill=0.5)
