"""Learners whose loss says how bad each sample of the data is, and which need no chains in training."""

from __future__ import annotations

from typing import Any

import torch
from pytorch_lightning.cli import LRSchedulerCallable, OptimizerCallable
from torch import Tensor

from ebmlab.domains import Domain, Real
from ebmlab.energies import Energy
from ebmlab.learners.fitting_data import weighted_mean
from ebmlab.learners.learner import Interval, Learner
from ebmlab.samplers import Sampler
from ebmlab.samplers.usual import usual_sampler


class SampleLoss(Learner):
    """Fits an energy by a loss of each sample, or of a batch. A subclass defines `losses`, or `loss`.

    Weighted data count by their weights. The loss is logged, in training as `train/loss`, else as `val/loss` and
    `test/loss`.

    Args:
        energy: the model, on real numbers unless the subclass says otherwise.
        sampler: draws from it for pictures, scores and `predict`. When None, `Gibbs` draws coordinates of finite
            domains and `MALA(0.1)` real numbers, on a `Product` part by part.
        num_steps: steps of these chains.
        l1: see `Learner`.
        optimizer: makes the optimizer from the parameters.
        lr_scheduler: makes the learning-rate schedule from the optimizer.
        lr_interval: see `Learner`.

    Raises:
        UserError: the energy lives on another domain, or a setting is out of range.
    """

    domains: tuple[type[Domain], ...] = (Real,)
    takes_weights = True

    logs: tuple[str, ...] = ("train/loss", "train/grad_norm", "train/learning_rate", "val/energy", "val/loss")

    def __init__(
        self,
        energy: Energy,
        sampler: Sampler | None,
        num_steps: int,
        l1: float,
        optimizer: OptimizerCallable,
        lr_scheduler: LRSchedulerCallable | None,
        lr_interval: Interval,
    ) -> None:
        super().__init__(
            energy,
            sampler or usual_sampler(energy.domain),
            num_steps=num_steps,
            l1=l1,
            optimizer=optimizer,
            lr_scheduler=lr_scheduler,
            lr_interval=lr_interval,
        )

    def losses(self, x: Tensor) -> Tensor:
        """The loss of each state of a batch x `(B, *event)`, `(B,)`; gradients are on when it is called."""
        raise NotImplementedError

    def loss(self, x: Tensor, weights: Tensor | None) -> Tensor:
        """The loss of a batch x `(B, *event)` with weights `(B,)` if the data have any, a scalar."""
        return weighted_mean(self.losses(x), weights)

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        loss = self.loss(self.states(batch), self.weights(batch))
        if self.log_is_due:
            self.log_training(loss.detach())
        return loss + self.penalty()

    def log_training(self, loss: Tensor) -> None:
        """Logs what a training step has found."""
        self.log("train/loss", loss, prog_bar=True, sync_dist=True)

    def log_split(self, split: str, x: Tensor) -> None:
        super().log_split(split, x)
        with torch.inference_mode(False), torch.enable_grad():  # a loss may hold gradients in x
            losses = self.losses(x.clone()).detach()
        self.log_mean(f"{split}/loss", losses)


def input_gradient(energy: Energy, x: Tensor) -> tuple[Tensor, Tensor]:
    """The leaf x and dE/dx there, both `(B, *event)`, through which the parameters and x can be differentiated.

    Raises:
        UserError: E does not follow from x by operations that autograd differentiates.
    """
    x = x.detach().requires_grad_()
    return x, energy.differentiable_gradient(x)
