"""Densities in the plane: the data's, the energy that fits it, and what the sampler makes of that."""

from __future__ import annotations

from typing import Any

import pytorch_lightning as pl
import torch
from matplotlib.figure import Figure
from torch import Tensor

from callbacks.chains import chain_length, check_length, noise, require_chains
from callbacks.images import DPI, log_image
from callbacks.periodic import PeriodicEvaluation
from ebmlab.errors import UserError

RESOLUTION = 200
ENERGY_RANGE = 30.0


class Density2D(PeriodicEvaluation):
    """Shows the true density, the model's energy, and samples beside data, in `samples/density`.

    For data in the plane whose density is known, such as `datamodules.GaussianMixture`. On rank 0.

    Args:
        num_samples: fresh chains, and as many points of data.
        num_steps: steps of each chain; default as in training.
        extent: the window is [-extent, extent] in both directions.
        every_n_epochs: see `PeriodicEvaluation`, like the rest.
        at_start: also before the first step.
        seed: of the noise and the chains.
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
        super().__init__(every_n_epochs, at_start, seed)
        check_length(self, num_steps)
        self.num_samples = num_samples
        self.num_steps = num_steps
        self.extent = extent

    def check(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        learner, data = require_chains(pl_module, self), getattr(trainer, "datamodule", None)
        if not hasattr(data, "log_density") or tuple(learner.energy.domain.event_shape) != (2,):
            raise UserError(
                f"Density2D needs points of known density (datamodules.GaussianMixture) and an energy of 2 "
                f"numbers, got {type(data).__name__} and {learner.energy.domain}: use callbacks.SampleGrid for images"
            )

    def evaluate(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if not trainer.is_global_zero:
            return
        learner, data = require_chains(pl_module, self), getattr(trainer, "datamodule", None)
        n, num_steps = self.limit(trainer, self.num_samples, chain_length(learner, self.num_steps))
        grid = self._grid().to(learner.device)
        true = data.log_density(grid).exp().view(RESOLUTION, RESOLUTION)
        samples = learner.draw(noise(learner, n), num_steps).cpu()
        real = data.sample(n, torch.Generator().manual_seed(self.seed)).cpu()
        log_image(
            trainer,
            "samples/density",
            self._figure(true.cpu(), self._model_energy(learner, grid), samples, real, num_steps),
        )

    def _grid(self) -> Tensor:
        """Centres of the cells, `(RESOLUTION^2, 2)`; rows run along y."""
        cell = 2 * self.extent / RESOLUTION
        axis = torch.linspace(-self.extent + cell / 2, self.extent - cell / 2, RESOLUTION)
        y, x = torch.meshgrid(axis, axis, indexing="ij")
        return torch.stack([x, y], -1).view(-1, 2)

    def _model_energy(self, learner: Any, grid: Tensor) -> Tensor:
        """Energy above its minimum over the window, `(RESOLUTION, RESOLUTION)`."""
        energy = torch.cat([learner.energy(x) for x in grid.split(8192)])
        return (energy - energy.min()).view(RESOLUTION, RESOLUTION).cpu()

    def _figure(self, true: Tensor, model: Tensor, samples: Tensor, real: Tensor, num_steps: int) -> Figure:
        figure = Figure(figsize=(13, 4.4), dpi=DPI, layout="constrained")
        left, middle, right = figure.subplots(1, 3, sharex=True, sharey=True)
        window = (-self.extent, self.extent, -self.extent, self.extent)
        shared = {"origin": "lower", "extent": window, "interpolation": "bilinear", "vmin": 0}
        picture = left.imshow(true.numpy(), cmap="viridis", **shared)
        figure.colorbar(picture, ax=left, shrink=0.78)
        left.set_title("data density")
        picture = middle.imshow(model.numpy(), cmap="viridis_r", vmax=ENERGY_RANGE, **shared)
        figure.colorbar(picture, ax=middle, shrink=0.78, extend="max")
        middle.set_title("model energy above its minimum")
        right.scatter(*real.T.numpy(), s=5, color="0.6", linewidths=0, label="data")
        right.scatter(*samples.T.numpy(), s=5, color="tab:red", linewidths=0, alpha=0.6, label="samples")
        right.set(
            title=f"{len(samples)} samples after {num_steps} steps", xlim=window[:2], ylim=window[:2], aspect="equal"
        )
        right.legend(loc="upper right", markerscale=3, framealpha=0.9)
        return figure
