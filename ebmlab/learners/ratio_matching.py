"""Ratio matching, which makes data likelier than their one-flip neighbours (Hyvarinen, 2007; Liu et al., 2023)."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from pytorch_lightning.cli import LRSchedulerCallable, OptimizerCallable
from torch import Tensor

from ebmlab.domains import Binary, Spin
from ebmlab.energies import Energy
from ebmlab.errors import UserError
from ebmlab.learners.estimators import Estimator, GradientGuided
from ebmlab.learners.learner import Interval, Learner
from ebmlab.samplers import Gibbs, Sampler

ADAM: OptimizerCallable = partial(torch.optim.Adam, lr=1e-3)


class RatioMatching(Learner):
    """Fits an energy on bits or spins by comparing data with nearby states, without chains in training.

    It suits data whose one-flip neighbours are unlikely: codes and graphs, not images.

    Args:
        energy: the model, on a `Binary` or `Spin` domain.
        estimator: computes the loss: `GradientGuided` (the default), `Exact`, `UniformSubset` or `EnergyDiscrepancy`.
        sampler: draws samples from the model for pictures, scores and `predict`.
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

    domains = (Binary, Spin)

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
        if not isinstance(energy.domain, self.domains):
            raise UserError(
                f"RatioMatching flips bits or spins, but {type(energy).__name__} lives on {energy.domain}: "
                "take an energy on a Binary or Spin domain"
            )
        super().__init__(
            energy,
            sampler or Gibbs(),
            num_steps=num_steps,
            l1=l1,
            optimizer=optimizer,
            lr_scheduler=lr_scheduler,
            lr_interval=lr_interval,
        )
        self.estimator = estimator or GradientGuided()

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        loss = self.estimator.loss(self.energy, self.states(batch))
        if self.log_is_due:
            self.log("train/loss", loss.detach(), prog_bar=True, sync_dist=True)
        return loss + self.penalty()

    def log_split(self, split: str, x: Tensor) -> None:
        super().log_split(split, x)
        self.log(f"{split}/loss", self.estimator.loss(self.energy, x), batch_size=len(x), sync_dist=True)
