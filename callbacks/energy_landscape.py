"""What a model of bits says of the plane: its density over points that are coded in bits."""

from __future__ import annotations

from typing import Any

import pytorch_lightning as pl
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from callbacks.chains import chain_length, check_length, noise, require_chains
from callbacks.images import DPI, log_image
from callbacks.periodic import PeriodicEvaluation
from ebmlab.errors import UserError

NUM_DATA = 400_000  # points that the data's density is counted from
CHUNK = 8192
SHOWN = 0.95  # of the mass lies where the density is within the colours' range


class EnergyLandscape(PeriodicEvaluation):
    """Shows the data's density, the model's, and samples beside data, in `samples/landscape`.

    For data in the plane that are coded in bits: `datamodules.GrayCode2D`. The model's density is exp(-E) of the codes
    of a grid's points, normalised over the grid (Liu et al. 2023, Fig. 1, 2 and 4); the data's is counted in the grid's
    cells, from fresh points. Each picture's colours end at its density of which 95 % of its mass lies below. On rank 0.

    Args:
        resolution: points of the grid in each direction.
        num_samples: fresh chains, and as many points of data; 0 leaves their picture out, as where bits are so many
            that chains cannot mix (at 256 already, says the paper).
        num_steps: steps of each chain; default as in training.
        extent: the window is [-extent, extent] in both directions.
        every_n_epochs: see `PeriodicEvaluation`, like the rest.
        at_start: also before the first step.
        seed: of the noise, the chains and the points of data.
    """

    def __init__(
        self,
        resolution: int = 200,
        num_samples: int = 2000,
        num_steps: int | None = None,
        extent: float = 4.1,
        every_n_epochs: int = 1,
        at_start: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__(every_n_epochs, at_start, seed)
        check_length(self, num_steps)
        if resolution < 2 or num_samples < 0 or not 0 < extent < float("inf"):
            raise UserError(
                f"EnergyLandscape: resolution is {resolution}, num_samples {num_samples} and extent {extent}; "
                "they must be at least 2, at least 0 and positive"
            )
        self.resolution = resolution
        self.num_samples = num_samples
        self.num_steps = num_steps
        self.extent = extent

    @property
    def state_key(self) -> str:
        settings = ("resolution", "num_samples", "num_steps", "extent", "seed")
        return self._generate_state_key(**{name: getattr(self, name) for name in settings})

    def check(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        data = getattr(trainer, "datamodule", None)
        if not all(hasattr(data, name) for name in ("encode", "decode", "sample")):
            given = "no datamodule" if data is None else type(data).__name__
            raise UserError(
                "EnergyLandscape needs a datamodule of points coded in bits, with encode, decode and sample, got "
                f"{given}: use datamodules.GrayCode2D, or remove it"
            )
        if self.num_samples > 0:
            require_chains(pl_module, self)

    def evaluate(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if not trainer.is_global_zero:
            return
        learner: Any = pl_module
        data: Any = getattr(trainer, "datamodule", None)
        figure = Figure(figsize=(13 if self.num_samples else 8.9, 4.4), dpi=DPI, layout="constrained")
        left, middle, *right = figure.subplots(1, 3 if self.num_samples else 2, sharex=True, sharey=True)
        generator = torch.Generator().manual_seed(self.seed)
        self._show(left, self.data_density(data, generator), "data density")
        self._show(middle, self.model_density(learner, data), "model density")
        if right:
            n, num_steps = self.limit(trainer, self.num_samples, chain_length(learner, self.num_steps))
            samples = data.decode(learner.draw(noise(learner, n), num_steps).cpu())
            real = data.sample(n, generator)
            self._scatter(right[0], samples, real, f"{n} samples after {num_steps} steps")
        log_image(trainer, "samples/landscape", figure)

    def _grid(self) -> Tensor:
        """Centres of the cells, `(resolution^2, 2)`, float64; rows run along y."""
        cell = 2 * self.extent / self.resolution
        axis = cell * (torch.arange(self.resolution, dtype=torch.float64) + 0.5) - self.extent
        y, x = torch.meshgrid(axis, axis, indexing="ij")
        return torch.stack([x, y], -1).view(-1, 2)

    def model_density(self, learner: Any, data: Any) -> Tensor:
        """Density over the window from the energies of the grid's codes, `(resolution, resolution)`, float64."""
        like = next(learner.energy.parameters(), torch.empty(0, device=learner.device))
        energy = torch.cat([learner.energy(data.encode(x).to(like)) for x in torch.split(self._grid(), CHUNK)])
        return self._density(torch.softmax(-energy.cpu().double(), 0))

    def data_density(self, data: Any, generator: torch.Generator) -> Tensor:
        """Density from the share of points in each cell, `(resolution, resolution)`, float64."""
        place = ((data.sample(NUM_DATA, generator) / self.extent + 1) * (self.resolution / 2)).floor().long()
        column, row = place[((place >= 0) & (place < self.resolution)).all(1)].T
        return self._density(torch.bincount(row * self.resolution + column, minlength=self.resolution**2) / NUM_DATA)

    def _density(self, probabilities: Tensor) -> Tensor:
        """Probabilities of cells, `(resolution^2,)`, by the area of a cell."""
        cell = (2 * self.extent / self.resolution) ** 2
        return (probabilities.double() / cell).view(self.resolution, self.resolution)

    def _show(self, axes: Axes, density: Tensor, title: str) -> None:
        window = (-self.extent, self.extent, -self.extent, self.extent)
        picture = axes.imshow(
            density.numpy(), cmap="viridis", vmin=0, vmax=highest_colour(density), origin="lower", extent=window
        )
        assert axes.figure is not None
        axes.figure.colorbar(picture, ax=axes, shrink=0.78, extend="max")
        axes.set_title(title)

    def _scatter(self, axes: Axes, samples: Tensor, real: Tensor, title: str) -> None:
        outside = int((samples.abs() > self.extent).any(1).sum())
        label = f"samples ({outside} outside)" if outside else "samples"
        looks = {"data": (real, "0.6", 1.0), label: (samples, "tab:red", 0.6)}
        for name, (points, colour, alpha) in looks.items():
            x, y = points.T.numpy()
            axes.scatter(x, y, s=4, color=colour, alpha=alpha, linewidths=0, label=name)
        window = (-self.extent, self.extent)
        axes.set(title=title, xlim=window, ylim=window, aspect="equal")
        axes.legend(loc="upper right", markerscale=3, framealpha=0.9)


def highest_colour(density: Tensor) -> float:
    """The density of which `SHOWN` of the mass lies at or below; a few sharp peaks do not make the rest dark."""
    levels = density.flatten().sort().values
    mass = levels.cumsum(0)
    return float(levels[min(int((mass < SHOWN * mass[-1]).sum()), len(levels) - 1)])
