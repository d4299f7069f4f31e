"""Pictures of a model of bits that code points in the plane: its density over the plane."""

from __future__ import annotations

import pytorch_lightning as pl
import torch
from torch import Tensor

from ebmlab.callbacks.image_log import made_by
from ebmlab.callbacks.periodic import noise
from ebmlab.callbacks.requirements import known_data, learner_of
from ebmlab.callbacks.sample_evaluation import SampleEvaluation
from ebmlab.data.interface import CodedPoints
from ebmlab.drawing.plane import Surface, draw_surfaces, draw_surfaces_and_points, highest_colour
from ebmlab.evaluation.quadrature import cell_centres
from ebmlab.learners import Learner
from ebmlab.settings import require_count, require_positive

NUM_DATA = 400_000  # points that the data's density is counted from
CHUNK = 8192


class EnergyLandscape(SampleEvaluation):
    """Shows the data's density, the model's, and samples beside data, in `samples/landscape`, on rank 0.

    It needs data in the plane that are coded in bits, such as `datamodules.GrayCode2D`. The model's density is exp(-E)
    at the codes of a grid's points, normalised over the grid (Liu et al. 2023, Fig. 1, 2 and 4). The data's density is
    counted in the grid's cells, from new points. The colours of each picture end at the density that 95 % of its mass
    does not exceed.

    Args:
        resolution: number of grid points in each direction.
        num_samples: number of new chains, and of data points; 0 leaves out their picture. It is of no use if chains
            cannot mix, as, according to the paper, with 256 bits.
        num_steps: steps of each chain; default as in training.
        extent: the window is [-extent, extent] in both directions.
        every_n_epochs: see `PeriodicEvaluation`.
        at_start: also evaluate before the first step.
        seed: of the noise, the chains and the data points.

    Example:
        >>> from ebmlab.datamodules import GrayCode2D
        >>> data, callback = GrayCode2D(num_samples=100), EnergyLandscape(resolution=20)
        >>> density = callback.data_density(data, torch.Generator())
        >>> density.shape, round(float(density.sum()) * (2 * 4.1 / 20) ** 2, 2)  # nearly all mass is in the window
        (torch.Size([20, 20]), 1.0)
    """

    least = 0

    def __init__(
        self,
        resolution: int = 200,
        num_samples: int = 2000,
        *,
        num_steps: int | None = None,
        extent: float = 4.1,
        every_n_epochs: int = 1,
        at_start: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__(num_samples, num_steps, every_n_epochs, at_start, seed)
        require_count("EnergyLandscape", least=2, resolution=resolution)
        require_positive("EnergyLandscape", extent=extent)
        self.resolution = resolution
        self.extent = extent

    def check(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._data(trainer)
        learner_of(pl_module, self)

    def evaluate(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if not trainer.is_global_zero:
            return
        learner, data = learner_of(pl_module, self), self._data(trainer)
        generator = torch.Generator().manual_seed(self.seed)
        densities = {
            "data density": self.data_density(data, generator),
            "model density": self.model_density(learner, data),
        }
        surfaces = [Surface(title, density, highest_colour(density)) for title, density in densities.items()]
        if self.num_samples:
            n, num_steps = self.size(trainer, learner)
            samples = data.decode(learner.draw(noise(learner, n), num_steps).cpu())
            title = f"{n} samples after {num_steps} steps"
            figure = draw_surfaces_and_points(surfaces, self.extent, samples, data.sample(n, generator), title)
        else:
            figure = draw_surfaces(surfaces, self.extent)
        caption = made_by(learner.sampler, num_steps) if self.num_samples else ""
        self.log_image(trainer, "samples/landscape", figure, caption=caption)

    def _data(self, trainer: pl.Trainer) -> CodedPoints:
        what = "points coded in bits, with encode, decode and sample"
        return known_data(trainer, CodedPoints, self, what, "datamodules.GrayCode2D")  # type: ignore[type-abstract]

    def model_density(self, learner: Learner, data: CodedPoints) -> Tensor:
        """The model's density at the grid's points, `(resolution, resolution)`, float64."""
        grid = cell_centres(self.extent, self.resolution)
        like = next(learner.energy.parameters(), torch.empty(0, device=learner.device))
        energy = torch.cat([learner.energy(data.encode(x).to(like)) for x in torch.split(grid, CHUNK)])
        return self._density(torch.softmax(-energy.cpu().double(), 0))

    def data_density(self, data: CodedPoints, generator: torch.Generator) -> Tensor:
        """The data's density, from the share of points in each cell, `(resolution, resolution)`, float64."""
        place = ((data.sample(NUM_DATA, generator) / self.extent + 1) * (self.resolution / 2)).floor().long()
        column, row = place[((place >= 0) & (place < self.resolution)).all(1)].T
        return self._density(torch.bincount(row * self.resolution + column, minlength=self.resolution**2) / NUM_DATA)

    def _density(self, probabilities: Tensor) -> Tensor:
        """Densities of cells from their probabilities, `(resolution^2,)`."""
        cell = (2 * self.extent / self.resolution) ** 2
        return (probabilities.double() / cell).view(self.resolution, self.resolution)
