"""The end of a training whose chains have the pair statistics of the data."""

from __future__ import annotations

from collections.abc import Iterable

import pytorch_lightning as pl
import torch
from torch import Tensor

from ebmlab.callbacks.periodic import PeriodicEvaluation
from ebmlab.callbacks.requirements import buffer_of, energy_of, of_all_ranks
from ebmlab.data.batch_checks import check_first_batch
from ebmlab.data.weighted import weighted_states
from ebmlab.domains import Finite
from ebmlab.energies.pairwise.statistics import Moments, half_moments
from ebmlab.errors import UserError
from ebmlab.learners.boltzmann_learning import BoltzmannLearning
from ebmlab.lightning.run_data import data_of
from ebmlab.settings import require_inside


class StopAtCorrelation(PeriodicEvaluation):
    """Ends training when the pair statistics of the persistent chains correlate with those of the data.

    The statistics are C_ij(a, b) = f_ij(a, b) - f_i(a) f_j(b) of all pairs of sites and all values. Those of the chains
    in the replay buffer have no weights, the training data have theirs. Logs their Pearson correlation as
    `correlation/pearson` and the slope of the chains' on the data's as `correlation/slope`. Both are adabmDCA's
    (Muntoni et al. 2021), whose fits end at 0.95. Numbers are measured without its pseudo-count, if none is asked for,
    and after the last step of an epoch; its chains have moved once more.

    Args:
        target: training ends at this correlation or above.
        pseudo_count: share of the uniform law that is mixed into the data's statistics; adabmDCA mixes in
            1 / (number of effective sequences).
        every_n_epochs: see `PeriodicEvaluation`.

    Attributes:
        pearson: the last correlation; NaN before the first.

    Raises:
        UserError: the target is no correlation, the learner has no replay buffer, or the energy no finite domain.

    Example:
        >>> StopAtCorrelation(target=0.9).target
        0.9
    """

    logs = ("correlation/*",)

    def __init__(self, target: float = 0.95, *, pseudo_count: float = 0.0, every_n_epochs: int = 1) -> None:
        super().__init__(every_n_epochs, at_start=False)
        require_inside("StopAtCorrelation", "(0, 1]", target=target)
        require_inside("StopAtCorrelation", "[0, 1)", pseudo_count=pseudo_count)
        self.target = target
        self.pseudo_count = pseudo_count
        self.pearson = float("nan")
        self._of_data: Moments | None = None

    def check(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        energy = energy_of(pl_module)
        if buffer_of(pl_module) is None:
            raise UserError(
                "StopAtCorrelation measures persistent chains, but the learner has none: use BoltzmannLearning, or "
                "ContrastiveDivergence with start=ReplayBuffer(...), or remove it"
            )
        if not isinstance(energy.domain, Finite):
            raise UserError(
                f"StopAtCorrelation needs a finite domain, but the energy lives on {energy.domain}: remove it"
            )
        check_first_batch(data_of(trainer), "train", energy.domain, type(energy).__name__)

    def evaluate(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        buffer, domain = buffer_of(pl_module), energy_of(pl_module).domain
        chains = None if buffer is None else buffer.cold(domain)
        if chains is None:  # before the first step
            return
        alone = pl_module if isinstance(pl_module, BoltzmannLearning) and trainer.world_size == 1 else None
        of_chains = None if alone is None else alone.chain_moments
        if of_chains is None:
            of_chains = half_moments(of_all_ranks(pl_module, chains), dtype=torch.float32)
        of_data = self._of_data
        if alone is not None and alone.pseudo_count == self.pseudo_count:
            of_data = alone.data_moments
        if of_data is None:
            x, weights = weighted_states(data_of(trainer), "train")
            x = x.reshape(len(x), *domain.event_shape)
            of_data = self._of_data = half_moments(x.float().to(chains.device), weights, self.pseudo_count)
        self.pearson, slope = correlation_of_parts(zip(of_data.covariances(), of_chains.covariances(), strict=True))
        self.log_metrics(trainer, pl_module, {"correlation/pearson": self.pearson, "correlation/slope": slope})
        if self.pearson >= self.target:
            self.arrived(trainer, pl_module)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        super().on_train_start(trainer, pl_module)
        if self._metrics.get("correlation/pearson", 0.0) >= self.target:  # in the checkpoint of a run that goes on
            self.arrived(trainer, pl_module)

    def arrived(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Called at an evaluation that finds the target reached."""
        trainer.should_stop = True


def pearson_and_slope(x: Tensor, y: Tensor) -> tuple[float, float]:
    """The correlation of two vectors, and the slope of the line that fits y best from x; NaN where one is constant."""
    return correlation_of_parts([(x, y)])


def correlation_of_parts(parts: Iterable[tuple[Tensor, Tensor]]) -> tuple[float, float]:
    """`pearson_and_slope` of long vectors that come in parts."""
    count, sums, products = 0, torch.zeros(2, dtype=torch.float64), torch.zeros(2, 2, dtype=torch.float64)
    first: Tensor | None = None  # is taken off, so that of a constant vector nothing is left, not even rounding
    for x, y in parts:
        both = torch.stack([x.flatten().double(), y.flatten().double()])
        first = both[:, :1].clone() if first is None and both.shape[1] else first
        both = both if first is None else both - first
        count, sums, products = count + both.shape[1], sums + both.sum(1).cpu(), products + (both @ both.T).cpu()
    a, b, c = (products - torch.outer(sums, sums) / count)[[0, 1, 0], [0, 1, 1]]
    return float(c / (a * b).sqrt()), float(c / a)
