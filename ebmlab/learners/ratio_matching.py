"""Ratio matching, which makes data likelier than their one-flip neighbours (Hyvarinen, 2007; Liu et al., 2023)."""

from __future__ import annotations

from pytorch_lightning.cli import LRSchedulerCallable, OptimizerCallable
from torch import Tensor

from ebmlab.domains import Domain
from ebmlab.energies import Energy
from ebmlab.errors import UserError
from ebmlab.learners.estimators import Estimator, GradientGuided
from ebmlab.learners.learner import ADAM, Interval, Learner
from ebmlab.learners.sample_loss import SampleLoss
from ebmlab.samplers import Sampler


class RatioMatching(SampleLoss):
    """Fits an energy by comparing data with nearby states, without chains in training.

    It suits data whose one-flip neighbours are unlikely: codes and graphs, not images. `EnergyDiscrepancy` takes states
    of any domain, such as rows of mixed tables; the other estimators take finite domains. On more than two values each
    other value of a coordinate makes a neighbour.

    Args:
        energy: the model, on a domain that the estimator takes.
        estimator: computes the loss: `GradientGuided` (the default), `Exact`, `UniformSubset` or `EnergyDiscrepancy`.
        sampler: draws samples from the model for pictures, scores and `predict`. When None, `Gibbs` draws coordinates
            of finite domains and `MALA(0.1)` real numbers, on a `Product` part by part.
        num_steps: steps of these chains.
        l1: see `Learner`.
        optimizer: makes the optimizer from the parameters.
        lr_scheduler: makes the learning-rate schedule from the optimizer.
        lr_interval: see `Learner`.

    Raises:
        UserError: the settings do not fit each other or the energy.

    Example:
        >>> from ebmlab.energies import RBM
        >>> from ebmlab.learners import GradientGuided, RatioMatching
        >>> learner = RatioMatching(RBM(6, 3), GradientGuided(num_samples=4))
        >>> learner.draw(learner.energy.random(4), num_steps=5).shape
        torch.Size([4, 6])
    """

    domains = (Domain,)
    logs = SampleLoss.logs

    def __init__(
        self,
        energy: Energy,
        estimator: Estimator | None = None,
        *,
        sampler: Sampler | None = None,
        num_steps: int = 1000,
        l1: float = 0.0,
        optimizer: OptimizerCallable = ADAM,
        lr_scheduler: LRSchedulerCallable | None = None,
        lr_interval: Interval = "epoch",
    ) -> None:
        estimator = estimator or GradientGuided()
        if not isinstance(energy.domain, estimator.domains):
            raise UserError(
                f"RatioMatching: the estimator {type(estimator).__name__} compares states of finite domains, but "
                f"{type(energy).__name__} lives on {energy.domain}: set estimator to EnergyDiscrepancy"
            )
        super().__init__(energy, sampler, num_steps, l1, optimizer, lr_scheduler, lr_interval)
        self.estimator = estimator

    def loss(self, x: Tensor, weights: Tensor | None) -> Tensor:
        more = {} if weights is None else {"weights": weights}  # estimators written before data had weights take none
        return self.estimator.loss(self.energy, x, **more)

    def log_split(self, split: str, x: Tensor) -> None:
        Learner.log_split(self, split, x)
        self.log(f"{split}/loss", self.loss(x, self._split_weights), batch_size=len(x), sync_dist=True)
