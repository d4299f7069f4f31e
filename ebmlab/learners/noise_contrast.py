"""Noise contrast: energy and log Z are learnt by telling data from noise (Gutmann & Hyvarinen, 2012)."""

from __future__ import annotations

import math

import torch
from pytorch_lightning.cli import LRSchedulerCallable, OptimizerCallable
from torch import Tensor, nn
from torch.nn.functional import softplus

from ebmlab.data.weighted import weighted_states
from ebmlab.domains import Real
from ebmlab.energies import Base, Energy, Gaussian
from ebmlab.energies.gaussian import Normal
from ebmlab.errors import UserError
from ebmlab.learners.learner import ADAM, Interval
from ebmlab.learners.sample_loss import SampleLoss
from ebmlab.lightning.run_data import data_of
from ebmlab.numerics.streams import own_numbers
from ebmlab.numerics.unrounded import unrounded
from ebmlab.samplers import Sampler
from ebmlab.settings import require_count

NUM_DRAWN = 10_000  # states that the noise is fitted to, and draws that log Z is first estimated from


class FittedGaussian(Normal):
    """The normal law that is fitted to data before training, and saved with the learner; N(0, I) until then.

    Args:
        domain: of x.
    """

    def __init__(self, domain: Real) -> None:
        super().__init__()
        self.domain = domain
        self.register_buffer("mean", torch.zeros(domain.event_shape))
        self.register_buffer("root", torch.eye(domain.size))

    @torch.no_grad()
    def fit_(self, x: Tensor, weights: Tensor | None = None) -> None:
        """Takes the law of `Gaussian.fit`, whose covariance is shrunk so that no direction is left out."""
        law = Gaussian.fit(x, weights=weights)
        self.mean.copy_(law.mean)
        self.root.copy_(law.root)

    @property
    def log_z(self) -> float:
        return self.domain.size / 2 * math.log(2 * math.pi) + float(self.root.diagonal().log().sum())

    @unrounded
    def forward(self, x: Tensor) -> Tensor:
        white: Tensor = torch.linalg.solve_triangular(self.root.to(x), self.away(x).T, upper=False)
        return white.square().sum(0) / 2


class NoiseContrast(SampleLoss):
    """Learns E and log Z as a classifier that tells data from noise of a known density p_n, without chains.

    With nu noise states for each sample, the odds that x is a sample are exp(-E(x) - c) / (nu p_n(x)), where c is a
    parameter. The loss is the mean over data of -log p(data | x) plus nu times the mean over noise of
    -log p(noise | y). Its optimum is the data's density, and c is log Z there.
    `val/log_likelihood` is the mean of -E - c, nats: a likelihood as far as c is right.

    What it cannot see: what noise never reaches. In many dimensions data and noise are told apart with ease, and the
    odds teach nothing more; take `ConditionalNoiseContrast` there.

    Args:
        energy: the model.
        sampler: draws from it for pictures, scores and `predict`; `MALA(0.1)` when None.
        noise: the noise's law on the energy's domain; the normal law of the training data when None.
        ratio: nu, noise states for each sample.
        num_steps: steps of the sampler's chains.
        l1: see `Learner`.
        optimizer: makes the optimizer from the parameters.
        lr_scheduler: makes the learning-rate schedule from the optimizer.
        lr_interval: see `Learner`.

    Attributes:
        log_z: c. It begins at an estimate from the noise, by importance sampling.

    Raises:
        UserError: the energy does not live on real numbers, or a setting does not fit it.

    Example:
        >>> from ebmlab.energies import RealMLP
        >>> learner = NoiseContrast(RealMLP(2), ratio=4)
        >>> learner.losses(torch.randn(5, 2)).shape
        torch.Size([5])
    """

    logs = (*SampleLoss.logs, "train/log_z", "val/log_likelihood")

    def __init__(
        self,
        energy: Energy,
        sampler: Sampler | None = None,
        *,
        noise: Base | None = None,
        ratio: int = 1,
        num_steps: int = 100,
        l1: float = 0.0,
        optimizer: OptimizerCallable = ADAM,
        lr_scheduler: LRSchedulerCallable | None = None,
        lr_interval: Interval = "epoch",
    ) -> None:
        super().__init__(energy, sampler, num_steps, l1, optimizer, lr_scheduler, lr_interval)
        require_count("NoiseContrast", ratio=ratio)
        assert isinstance(energy.domain, Real)
        self.noise: Base = FittedGaussian(energy.domain) if noise is None else noise
        if not isinstance(self.noise.domain, Real) or self.noise.domain.event_shape != energy.domain.event_shape:
            raise UserError(
                f"NoiseContrast: the noise lives on {self.noise.domain}, but {type(energy).__name__} on "
                f"{energy.domain}: give noise on the energy's domain"
            )
        self.ratio = ratio
        self.log_z = nn.Parameter(torch.zeros(()))

    def setup(self, stage: str) -> None:
        super().setup(stage)
        if stage != "fit" or self.log_z != 0:  # trained before
            return
        if isinstance(self.noise, FittedGaussian):
            x, weights = weighted_states(data_of(self.trainer), "train", n=NUM_DRAWN)
            self.noise.fit_(self.to_event(x), weights)
        with torch.no_grad(), own_numbers(0):
            y = self.noise.sample(NUM_DRAWN)
            ratios = self.noise(y) + self.noise.log_z - self.energy(y)
            self.log_z.fill_(ratios.double().logsumexp(0) - math.log(NUM_DRAWN))

    def losses(self, x: Tensor) -> Tensor:
        y = self.energy.as_states(self.noise.sample(self.ratio * len(x)))
        told_noise = softplus(self.log_odds(y)).view(self.ratio, len(x)).sum(0)
        return softplus(-self.log_odds(x)) + told_noise

    def log_odds(self, x: Tensor) -> Tensor:
        """The log-odds `(B,)` that x `(B, *event)` are data, not noise."""
        log_noise = -self.noise(x) - self.noise.log_z
        odds: Tensor = -self.energy(x) - self.log_z - log_noise - math.log(self.ratio)
        return odds

    def log_training(self, loss: Tensor) -> None:
        super().log_training(loss)
        self.log("train/log_z", self.log_z.detach())

    def log_split(self, split: str, x: Tensor) -> None:
        super().log_split(split, x)
        self.log_mean(f"{split}/log_likelihood", -self.energy(x) - self.log_z)
