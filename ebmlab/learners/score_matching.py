"""Score matching: the model's gradient field is fitted to that of the data's density (Hyvarinen, 2005)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from pytorch_lightning.cli import LRSchedulerCallable, OptimizerCallable
from torch import Tensor, nn

from ebmlab.energies import Energy
from ebmlab.errors import UserError
from ebmlab.learners.learner import ADAM, Interval
from ebmlab.learners.sample_loss import SampleLoss, input_gradient
from ebmlab.native import uniform
from ebmlab.numerics.unrounded import no_autocast
from ebmlab.samplers import Sampler
from ebmlab.settings import require_choice, require_count

KINKED = (nn.ReLU, nn.LeakyReLU, nn.PReLU, nn.Hardtanh)  # piecewise linear


def score_losses(energy: Energy, x: Tensor) -> Tensor:
    """|dE/dx|^2 / 2 - the trace of d2E/dx2, `(B,)` (Hyvarinen, 2005, Eq. 4), by one backward pass a coordinate.

    Args:
        energy: on real numbers.
        x: states, `(B, *event)`.

    Raises:
        UserError: autograd finds no first or no second derivative in x.
    """
    x, grad = input_gradient(energy, x)
    flat = grad.flatten(1)
    curvatures = [_derivative(energy, flat[:, i].sum(), x).flatten(1)[:, i] for i in range(flat.shape[1])]
    return flat.square().sum(1) / 2 - torch.stack(curvatures).sum(0)


def sliced_score_losses(energy: Energy, x: Tensor, directions: Sequence[Tensor]) -> Tensor:
    """|dE/dx|^2 / 2 - the mean over directions v of v' d2E/dx2 v, `(B,)` (Song et al., 2019, SSM-VR).

    Args:
        energy: on real numbers.
        x: states, `(B, *event)`.
        directions: each as x, of a law whose E[v v'] is the identity.

    Raises:
        UserError: autograd finds no first or no second derivative in x.
    """
    x, grad = input_gradient(energy, x)
    curvatures = [(v * _derivative(energy, (v * grad).sum(), x)).flatten(1).sum(1) for v in directions]
    return grad.flatten(1).square().sum(1) / 2 - torch.stack(curvatures).mean(0)


class ScoreMatching(SampleLoss):
    """Fits dE/dx to -d log p/dx of the data's density p, without chains and without Z.

    The loss is J = E[|dE/dx|^2 / 2 - tr d2E/dx2], which is half the mean squared distance of both fields plus a
    constant. `exact` takes the trace by d backward passes. `sliced` estimates it from random directions of signs, and
    keeps the square exact: the form with variance reduction.

    What it cannot see: how much mass lies in each of several separated modes. Fields on modes that do not touch are the
    same whatever their weights. Where 0.8 and 0.2 are right, at a distance of 8 standard deviations, weights of 1/2
    lose 0.19 nats of likelihood but 0.0002 of J. Large noise in `DenoisingScoreMatching` sees them, and so does
    `NoiseContrast`. On data on discrete levels, or with ties, J has no minimum: spikes make it as low as you like.

    Args:
        energy: the model, twice differentiable in x: swish or tanh, no ReLU.
        sampler: draws from it for pictures, scores and `predict`; `MALA(0.1)` when None.
        form: `exact`, for few coordinates, or `sliced`.
        num_directions: directions for each sample and step, of the sliced form.
        num_steps: steps of the sampler's chains.
        l1: see `Learner`.
        optimizer: makes the optimizer from the parameters.
        lr_scheduler: makes the learning-rate schedule from the optimizer.
        lr_interval: see `Learner`.

    Raises:
        UserError: the energy does not live on real numbers, or a setting is out of range.

    Example:
        >>> from ebmlab.energies import RealMLP
        >>> learner = ScoreMatching(RealMLP(2), form="exact")
        >>> learner.losses(torch.randn(5, 2)).shape
        torch.Size([5])
    """

    def __init__(
        self,
        energy: Energy,
        sampler: Sampler | None = None,
        *,
        form: Literal["exact", "sliced"] = "sliced",
        num_directions: int = 1,
        num_steps: int = 100,
        l1: float = 0.0,
        optimizer: OptimizerCallable = ADAM,
        lr_scheduler: LRSchedulerCallable | None = None,
        lr_interval: Interval = "epoch",
    ) -> None:
        super().__init__(energy, sampler, num_steps, l1, optimizer, lr_scheduler, lr_interval)
        require_count("ScoreMatching", num_directions=num_directions)
        require_choice("ScoreMatching", ("exact", "sliced"), form=form)
        if kinks := [type(part).__name__ for part in energy.modules() if isinstance(part, KINKED)]:
            raise UserError(
                f"ScoreMatching: {type(energy).__name__} has {kinks[0]}, whose second derivative is 0: take nn.SiLU or "
                "nn.Tanh, or DenoisingScoreMatching"
            )
        self.form, self.num_directions = form, num_directions

    def losses(self, x: Tensor) -> Tensor:
        if self.form == "exact":
            return score_losses(self.energy, x)
        signs = [1 - 2 * (uniform(x) < 0.5).to(x) for _ in range(self.num_directions)]
        return sliced_score_losses(self.energy, x, signs)


def _derivative(energy: Energy, total: Tensor, x: Tensor) -> Tensor:
    """The derivative in x of a sum of entries of dE/dx, in the shape of x."""
    with no_autocast(x.device):
        found = torch.autograd.grad(total, x, create_graph=True, allow_unused=True) if total.requires_grad else (None,)
    if found[0] is None:
        raise UserError(
            f"ScoreMatching: {type(energy).__name__} has no second derivative in x, because it is linear there: take "
            "another energy"
        )
    return found[0]
