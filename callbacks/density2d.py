"""Pictures of an energy on two numbers: its density, the energy itself, and samples beside data."""

from __future__ import annotations

import pytorch_lightning as pl
import torch
from torch import Tensor

from ebmlab.callbacks.image_log import made_by
from ebmlab.callbacks.periodic import noise
from ebmlab.callbacks.requirements import held_out, learner_of, split_of
from ebmlab.callbacks.sample_evaluation import SampleEvaluation
from ebmlab.data.interface import Data, KnownDensity
from ebmlab.data.weighted import drawn_states, weighted_states
from ebmlab.domains import Real
from ebmlab.drawing.plane import Surface, draw_surfaces_and_points, highest_colour
from ebmlab.errors import UserError
from ebmlab.evaluation.headline import Headline
from ebmlab.evaluation.quadrature import PlaneIntegral, cell_centres, plane_integral
from ebmlab.learners.fitting_data import weighted_mean
from ebmlab.lightning.run_data import data_of
from ebmlab.settings import require_positive

RESOLUTION = 200  # cells of the pictures in each direction; Z is summed over a window of twice the width
ENERGY_RANGE = 30.0
EDGE = 1e-3  # share of the mass at the edge of the doubled window beyond which Z is not trusted
NUM_SCORED = 10_000


class Density2D(SampleEvaluation):
    """Shows the model's density and energy, and samples beside data, in `samples/density`, on rank 0.

    It takes any energy on two real numbers. Data whose density is known, such as `datamodules.GaussianMixture`, show it
    too. Z is summed over a window of twice the width, by quadrature. From it are logged, of the validation split, or
    the test split in `test`:

    - `quadrature/log_likelihood`, nats, of at most 10,000 states, in the units of the states;
    - `quadrature/log_z`;
    - `quadrature/trusted`: 1, or 0 where more than a thousandth of the mass lies at the edge of the doubled window.

    Args:
        num_samples: number of new chains, and of data points.
        num_steps: steps of each chain; default as in training.
        extent: the window is [-extent, extent] in both directions; by default a quarter wider than the data.
        every_n_epochs: see `PeriodicEvaluation`.
        at_start: also evaluate before the first step.
        seed: of the noise and the chains.

    Example:
        >>> from ebmlab.datamodules import Shapes2D
        >>> from ebmlab.energies import RealMLP
        >>> from ebmlab.learners import ContrastiveDivergence
        >>> from ebmlab.samplers import MALA
        >>> trainer = pl.Trainer(logger=False, enable_progress_bar=False, callbacks=[Density2D(num_samples=100)])
        >>> learner, data = ContrastiveDivergence(RealMLP(2), MALA(0.1)), Shapes2D("moons", num_samples=100)
        >>> _ = trainer.test(learner, data, verbose=False)  # writes images/samples-density_step0000000.png
        >>> sorted(name for name in trainer.callback_metrics if "quadrature" in name)
        ['quadrature/log_likelihood', 'quadrature/log_z', 'quadrature/trusted']
    """

    def __init__(
        self,
        num_samples: int = 1000,
        num_steps: int | None = None,
        *,
        extent: float | None = None,
        every_n_epochs: int = 1,
        at_start: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__(num_samples, num_steps, every_n_epochs, at_start, seed)
        if extent is not None:
            require_positive("Density2D", extent=extent)
        self.extent = extent

    def check(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        domain = learner_of(pl_module, self).energy.domain
        if not isinstance(domain, Real) or tuple(domain.event_shape) != (2,):
            raise UserError(
                f"Density2D needs an energy on 2 real numbers, got one on {domain}: use callbacks.EnergyLandscape for "
                "points in bits, callbacks.SampleGrid for images, or remove Density2D"
            )

    def evaluate(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        learner, data = learner_of(pl_module, self), data_of(trainer)
        n, num_steps = self.size(trainer, learner)
        split = split_of(data, held_out(trainer))
        states, weights = weighted_states(data, split, n=NUM_SCORED, seed=self.seed)
        extent = 1.25 * (float(states.abs().max()) or 1.0) if self.extent is None else self.extent
        z = plane_integral(learner.energy, 2 * extent, resolution=2 * RESOLUTION)
        like = next(learner.energy.parameters(), torch.empty(0, device=learner.device))
        metrics = {
            "log_likelihood": -float(weighted_mean(learner.energy(states.to(like)).double(), weights)) - z.log_z,
            "log_z": z.log_z,
            "trusted": float(z.edge < EDGE),
        }
        self.log_metrics(trainer, pl_module, {f"quadrature/{name}": value for name, value in metrics.items()})
        if not trainer.is_global_zero:
            return
        surfaces = []
        if isinstance(data, KnownDensity):
            true = data.log_density(cell_centres(extent, RESOLUTION)).exp().view(RESOLUTION, RESOLUTION)
            surfaces.append(Surface("data density", true, float(true.max())))
        density = _inner(z.density)
        surfaces.append(Surface("model density", density, highest_colour(density)))
        surfaces.append(Surface("energy above its minimum", energy_above_minimum(z), ENERGY_RANGE, "viridis_r"))
        samples = learner.draw(noise(learner, n), num_steps).cpu()
        title = f"{len(samples)} samples after {num_steps} steps"
        shown = states[:n] if weights is None else drawn_states(data, split, n=n, seed=self.seed)
        figure = draw_surfaces_and_points(surfaces, extent, samples, shown, title, axis_names(data))
        self.log_image(trainer, "samples/density", figure, caption=made_by(learner.sampler, num_steps))

    def headline_of(self, trainer: pl.Trainer, metrics: dict[str, float]) -> Headline:
        name = f"{'test' if held_out(trainer) == 'test' else 'validation'} log-likelihood"
        trusted = bool(metrics["quadrature/trusted"])
        return Headline(name, metrics["quadrature/log_likelihood"], unit="nats", trusted=trusted, about="quadrature")


def axis_names(data: Data) -> tuple[str, str]:
    """The names of the two coordinates of states, which say so where they are not the data's own numbers."""
    form = data.preprocessing
    first, second = form.columns if form is not None and len(form.columns) == 2 else ("", "")
    if form is None or (set(form.mean), set(form.std)) == ({0.0}, {1.0}):
        return first, second
    return f"{first or 'first number'}, standardised", f"{second or 'second number'}, standardised"


def energy_above_minimum(z: PlaneIntegral) -> Tensor:
    """Energies in the middle half of a window, minus the lowest of them, `(RESOLUTION, RESOLUTION)`."""
    energies = _inner(z.energies)
    return energies - energies.min()


def _inner(values: Tensor) -> Tensor:
    """The middle half of a square, in both directions."""
    quarter = len(values) // 4
    return values[quarter:-quarter, quarter:-quarter]
