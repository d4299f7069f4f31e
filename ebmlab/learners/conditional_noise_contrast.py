"""Conditional noise contrast: each sample is told from a noisy copy of itself (Ceylan & Gutmann, 2018)."""

from __future__ import annotations

from pytorch_lightning.cli import LRSchedulerCallable, OptimizerCallable
from torch import Tensor
from torch.nn.functional import softplus

from ebmlab.energies import Energy
from ebmlab.learners.learner import ADAM, Interval
from ebmlab.learners.sample_loss import SampleLoss
from ebmlab.native import normal
from ebmlab.samplers import Sampler
from ebmlab.settings import require_count, require_positive


def paired_losses(energy: Energy, x: Tensor, y: Tensor) -> Tensor:
    """2 log(1 + exp(E(x) - E(y))), `(B,)`, of samples x and noisy copies y `(B, *event)`."""
    return 2 * softplus(energy(x) - energy(y))


class ConditionalNoiseContrast(SampleLoss):
    """Learns E as a classifier that tells which of x and y = x + scale * noise is the sample.

    The noise is symmetric, so its density and Z cancel: the odds are exp(E(y) - E(x)). Noise stays near the data, where
    that of `NoiseContrast` may be far away. The optimum is the data's density. log Z is not learnt.

    What it cannot see: the weights of modes much further apart than `scale`. As `scale` goes to 0 the loss becomes that
    of `ScoreMatching`.

    Args:
        energy: the model.
        sampler: draws from it for pictures, scores and `predict`; `MALA(0.1)` when None.
        scale: standard deviation of the noise, in the units of the states.
        ratio: noisy copies of each sample.
        num_steps: steps of the sampler's chains.
        l1: see `Learner`.
        optimizer: makes the optimizer from the parameters.
        lr_scheduler: makes the learning-rate schedule from the optimizer.
        lr_interval: see `Learner`.

    Raises:
        UserError: the energy does not live on real numbers, or a setting is out of range.

    Example:
        >>> from ebmlab.energies import RealMLP
        >>> learner = ConditionalNoiseContrast(RealMLP(2), scale=0.3)
        >>> learner.losses(torch.randn(5, 2)).shape
        torch.Size([5])
    """

    def __init__(
        self,
        energy: Energy,
        sampler: Sampler | None = None,
        *,
        scale: float = 0.5,
        ratio: int = 1,
        num_steps: int = 100,
        l1: float = 0.0,
        optimizer: OptimizerCallable = ADAM,
        lr_scheduler: LRSchedulerCallable | None = None,
        lr_interval: Interval = "epoch",
    ) -> None:
        super().__init__(energy, sampler, num_steps, l1, optimizer, lr_scheduler, lr_interval)
        require_positive("ConditionalNoiseContrast", scale=scale)
        require_count("ConditionalNoiseContrast", ratio=ratio)
        self.scale, self.ratio = scale, ratio

    def losses(self, x: Tensor) -> Tensor:
        copies = x.repeat(self.ratio, *[1] * (x.dim() - 1))
        noisy = copies + self.scale * normal(copies)
        return paired_losses(self.energy, copies, noisy).view(self.ratio, len(x)).mean(0)
