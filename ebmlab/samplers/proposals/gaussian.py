"""Gaussian proposals with one variance for all coordinates."""

from __future__ import annotations

from torch import Tensor

from ebmlab.native import normal
from ebmlab.samplers.proposals.proposal import Draw, Proposal


class Gaussian(Proposal):
    """N(mean, variance I); log q omits the normaliser, which is the same for every mean.

    Args:
        x: the state at which the proposal is made, `(B, *event)`.
        mean: `(B, *event)`.
        variance: a scalar, the same for the reverse move.

    Example:
        >>> import torch
        >>> from ebmlab.samplers.proposals import Gaussian
        >>> q = Gaussian(torch.zeros(2, 3), mean=torch.zeros(2, 3), variance=torch.tensor(1.0))
        >>> q.log_prob(torch.ones(2, 3))
        tensor([-1.5000, -1.5000])
    """

    def __init__(self, x: Tensor, mean: Tensor, *, variance: Tensor) -> None:
        self.x, self.mean, self.variance = x, mean, variance

    def sample(self) -> Draw:
        noise = normal(self.mean)
        y = self.mean + self.variance.sqrt() * noise
        return Draw(y, -noise.square().flatten(1).sum(1) / 2, reverse=self.x)

    def log_prob(self, move: Tensor) -> Tensor:
        return -(move - self.mean).square().flatten(1).sum(1) / (2 * self.variance)
