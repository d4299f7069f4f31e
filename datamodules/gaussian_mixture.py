"""A mixture of three Gaussians in the plane, whose density is known."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from ebmlab.data.interface import SPLITS
from ebmlab.data.preprocessing import Preprocessing
from ebmlab.datamodules.tensor_datamodule import TensorDataModule
from ebmlab.numerics.streams import stream
from ebmlab.settings import require_choice, require_count

_STDS = {
    "isotropic": ((1.0, 1.0), (1.0, 1.0), (1.0, 1.0)),
    "anisotropic": ((1.25, 0.5), (1.25, 0.5), (0.5, 1.25)),
}


class GaussianMixture(TensorDataModule):
    """Equal parts of three Gaussians at (-5, -5), (5, -5) and (0, 5), the toy data of the GRBM paper.

    The points are not standardised. The validation and test splits are new draws, as many as for training. The label of
    a point is its component.

    Args:
        kind: isotropic (standard deviation 1) or anisotropic ((1.25, 0.5) twice, then (0.5, 1.25)).
        num_samples: number of points in each split.
        batch_size: points per batch and process.
        seed: of the points and of the order of the training batches.

    Example:
        >>> data = GaussianMixture(num_samples=200)
        >>> data.states("train").shape, data.log_density(torch.zeros(5, 2)).shape
        (torch.Size([200, 2]), torch.Size([5]))
    """

    name = "gaussian_mixture"
    num_classes = 3

    def __init__(
        self,
        kind: Literal["isotropic", "anisotropic"] = "isotropic",
        num_samples: int = 1000,
        *,
        batch_size: int = 100,
        seed: int = 0,
    ) -> None:
        self.save_hyperparameters(logger=False)
        super().__init__((2,), batch_size, seed=seed)
        require_choice("GaussianMixture", _STDS, kind=kind)
        require_count("GaussianMixture", num_samples=num_samples)
        self.kind = kind
        self.num_samples = num_samples
        self.means = torch.tensor([[-5.0, -5.0], [5.0, -5.0], [0.0, 5.0]])
        self.stds = torch.tensor(_STDS[kind])

    def load(self, split: str) -> tuple[Tensor, Tensor]:
        """Draws the split's points, which depend on seed and split alone."""
        return self._draw(self.num_samples, stream("mixture", self.seed, SPLITS.index(split)))

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Draws new points `(n, 2)`, from the global generator by default."""
        return self._draw(n, generator)[0]

    def log_density(self, x: Tensor) -> Tensor:
        """Log-density log p(x) of the true mixture, normalised; `(B, 2)` to `(B,)`."""
        means, stds = self.means.to(x), self.stds.to(x)
        z = (x.unsqueeze(1) - means) / stds  # (B, 3, 2)
        log_component = -0.5 * z.square().sum(-1) - stds.log().sum(-1) - math.log(2 * math.pi)
        return log_component.logsumexp(1) - math.log(len(means))

    @property
    def preprocessing(self) -> Preprocessing:
        """The points are used as they are."""
        return Preprocessing(self.event_shape)

    def _draw(self, n: int, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
        component = torch.randint(3, (n,), generator=generator)
        noise = torch.randn(n, 2, generator=generator)
        return self.means[component] + self.stds[component] * noise, component
