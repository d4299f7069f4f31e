"""Pictures of two-dimensional data: the true density, the energy and samples."""

from __future__ import annotations

import pytorch_lightning as pl
import torch
from torch import Tensor

from ebmlab.callbacks.image_log import made_by
from ebmlab.callbacks.periodic import noise
from ebmlab.callbacks.requirements import learner_of
from ebmlab.callbacks.sample_evaluation import SampleEvaluation
from ebmlab.data.foreign_loaders import data_of
from ebmlab.data.interface import KnownDensity
from ebmlab.drawing.plane import Surface, cell_centres, draw_surfaces_and_points
from ebmlab.errors import UserError
from ebmlab.learners import Learner
from ebmlab.settings import require_positive

RESOLUTION = 200
ENERGY_RANGE = 30.0


class Density2D(SampleEvaluation):
    """Shows the true density, the model's energy, and samples beside data, in `samples/density`, on rank 0.

    It needs data in the plane whose density is known, such as `datamodules.GaussianMixture`.

    Args:
        num_samples: number of new chains, and of data points.
        num_steps: steps of each chain; default as in training.
        extent: the window is [-extent, extent] in both directions.
        every_n_epochs: see `PeriodicEvaluation`.
        at_start: also evaluate before the first step.
        seed: of the noise and the chains.

    Example:
        >>> from ebmlab.datamodules import GaussianMixture
        >>> from ebmlab.energies import GRBM
        >>> from ebmlab.learners import ContrastiveDivergence
        >>> from ebmlab.samplers import ULA
        >>> trainer = pl.Trainer(logger=False, enable_progress_bar=False, callbacks=[Density2D(num_samples=100)])
        >>> learner, data = ContrastiveDivergence(GRBM(2, 4), ULA(0.1)), GaussianMixture(num_samples=100)
        >>> _ = trainer.test(learner, data, verbose=False)  # writes images/samples-density_step0000000.png
    """

    def __init__(
        self,
        num_samples: int = 1000,
        num_steps: int | None = None,
        extent: float = 10.0,
        every_n_epochs: int = 1,
        at_start: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__(num_samples, num_steps, every_n_epochs, at_start, seed)
        require_positive("Density2D", extent=extent)
        self.extent = extent

    def check(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        learner, data = learner_of(pl_module, self), data_of(trainer)
        if not isinstance(data, KnownDensity) or tuple(learner.energy.domain.event_shape) != (2,):
            raise UserError(
                f"Density2D needs points of known density (datamodules.GaussianMixture) and an energy of 2 "
                f"numbers, got {data.title} and {learner.energy.domain}: use callbacks.SampleGrid for images"
            )

    def evaluate(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if not trainer.is_global_zero:
            return
        learner, data = learner_of(pl_module, self), data_of(trainer)
        assert isinstance(data, KnownDensity)
        n, num_steps = self.size(trainer, learner)
        grid = cell_centres(self.extent, RESOLUTION).to(learner.device, torch.float32)
        true = data.log_density(grid).exp().view(RESOLUTION, RESOLUTION).cpu()
        samples = learner.draw(noise(learner, n), num_steps).cpu()
        real = data.sample(n, torch.Generator().manual_seed(self.seed)).cpu()
        surfaces = [
            Surface("data density", true, float(true.max())),
            Surface("model energy above its minimum", energy_above_minimum(learner, grid), ENERGY_RANGE, "viridis_r"),
        ]
        title = f"{n} samples after {num_steps} steps"
        figure = draw_surfaces_and_points(surfaces, self.extent, samples, real, title)
        self.log_image(trainer, "samples/density", figure, made_by(learner.sampler, num_steps))


def energy_above_minimum(learner: Learner, grid: Tensor) -> Tensor:
    """Energies of a grid's points minus the lowest of them, `(RESOLUTION, RESOLUTION)`."""
    energy = torch.cat([learner.energy(x) for x in torch.split(grid, 8192)])
    return (energy - energy.min()).view(RESOLUTION, RESOLUTION).cpu()
