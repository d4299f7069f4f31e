"""Points of densities in the plane."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from ebmlab.data.preprocessing import Preprocessing
from ebmlab.datamodules.shapes_2d import SHAPES
from ebmlab.datamodules.tensor_datamodule import TensorDataModule
from ebmlab.numerics.streams import stream
from ebmlab.settings import require_choice, require_count


class Shapes2D(TensorDataModule):
    """Points of one of seven densities in the plane, each within about [-4, 4]^2.

    The points are not standardised. The validation and test splits are new draws, a tenth as many as for training. In
    bits they are `GrayCode2D`.

    Args:
        shape: the density: 2spirals, 8gaussians, circles, moons, pinwheel, swissroll or checkerboard.
        num_samples: number of training points.
        batch_size: points per batch and process.
        seed: of the points and of the order of the training batches.

    Example:
        >>> data = Shapes2D("moons", num_samples=100)
        >>> data.states("train").shape, data.sample(5).shape
        (torch.Size([100, 2]), torch.Size([5, 2]))
    """

    name = "shapes_2d"

    def __init__(
        self,
        shape: Literal["2spirals", "8gaussians", "circles", "moons", "pinwheel", "swissroll", "checkerboard"] = "moons",
        num_samples: int = 10_000,
        *,
        batch_size: int = 100,
        seed: int = 0,
    ) -> None:
        self.save_hyperparameters(logger=False)
        super().__init__((2,), batch_size, seed=seed)
        require_choice("Shapes2D", SHAPES, shape=shape)
        require_count("Shapes2D", least=10, num_samples=num_samples)  # a tenth as many validate
        self.shape = shape
        self.num_samples = num_samples

    def load(self, split: str) -> tuple[Tensor, None]:
        """The split's points, float32 `(N, 2)`, which depend on shape, seed and split alone."""
        n = self.num_samples if split == "train" else self.num_samples // 10
        return self.sample(n, stream("shapes_2d", self.shape, self.seed, split)), None

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Draws new points of the density `(n, 2)`, float32, from the global generator by default."""
        return SHAPES[self.shape](n, generator).float()

    @property
    def preprocessing(self) -> Preprocessing:
        """The points are used as they are."""
        return Preprocessing(self.event_shape)
