"""Ratio matching, which makes data likelier than their one-flip neighbours (Hyvarinen, 2007; Liu et al., 2023)."""

from __future__ import annotations

from typing import Any

from pytorch_lightning.cli import LRSchedulerCallable, OptimizerCallable
from torch import Tensor

from ebmlab.domains import Domain, Real
from ebmlab.energies import Energy
from ebmlab.errors import UserError
from ebmlab.learners.estimators import Estimator, GradientGuided
from ebmlab.learners.learner import ADAM, Interval, Learner
from ebmlab.product import Product
from ebmlab.samplers import MALA, Alternate, Gibbs, Sampler


class RatioMatching(Learner):
    """Fits an energy by comparing data with nearby states, without chains in training.

    It suits data whose one-flip neighbours are unlikely: codes and graphs, not images. `EnergyDiscrepancy` takes states
    of any domain, such as rows of mixed tables; the other estimators take bits and spins.

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

    logs = ("train/loss", "train/grad_norm", "train/learning_rate", "val/energy", "val/loss")

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
                f"{type(estimator).__name__} flips bits or spins, but {type(energy).__name__} lives on "
                f"{energy.domain}: take an energy on a Binary or Spin domain, or EnergyDiscrepancy"
            )
        super().__init__(
            energy,
            sampler or _usual(energy.domain),
            num_steps=num_steps,
            l1=l1,
            optimizer=optimizer,
            lr_scheduler=lr_scheduler,
            lr_interval=lr_interval,
        )
        self.estimator = estimator

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        loss = self.estimator.loss(self.energy, self.states(batch))
        if self.log_is_due:
            self.log("train/loss", loss.detach(), prog_bar=True, sync_dist=True)
        return loss + self.penalty()

    def log_split(self, split: str, x: Tensor) -> None:
        super().log_split(split, x)
        self.log(f"{split}/loss", self.estimator.loss(self.energy, x), batch_size=len(x), sync_dist=True)


def _usual(domain: Domain) -> Sampler:
    """A sampler that needs no settings of the user's."""
    if isinstance(domain, Product):
        return Alternate.usual(domain)
    return MALA(0.1) if isinstance(domain, Real) else Gibbs()
