"""Normal laws, at which annealed paths on real domains begin."""

from __future__ import annotations

import math
from typing import Self

import torch
from torch import Tensor

from ebmlab.domains import Real
from ebmlab.energies.paths.reference import Base
from ebmlab.errors import UserError
from ebmlab.numerics.means import as_floats, mean_of
from ebmlab.numerics.unrounded import unrounded
from ebmlab.settings import require_weights

SHRINKAGE = 0.2


class Normal(Base):
    """A normal law with the mean m and the covariance R R'. A subclass says what E(x) is.

    Attributes:
        mean: m, in the shape of x.
        root: R, `(d, d)`, lower triangular.
    """

    domain: Real
    domains = (Real,)
    mean: Tensor
    root: Tensor

    def sample(self, n: int) -> Tensor:
        noise = torch.randn(n, len(self.root), dtype=self.root.dtype, device=self.root.device)
        return self.mean + self._coloured(noise).view(n, *self.mean.shape)

    @unrounded
    def _coloured(self, noise: Tensor) -> Tensor:
        return noise @ self.root.T

    def away(self, x: Tensor) -> Tensor:
        """The differences x - m as rows, `(B, d)`."""
        return (x - self.mean.to(x)).flatten(1)


class Gaussian(Normal):
    """E(x) = (x - m)' C^-1 (x - m) / 2.

    Args:
        mean: m, in the shape of x; the law has its floating type, or torch's default one if m is of whole numbers.
        covariance: C, `(d, d)` for x of d numbers; symmetric and positive definite.

    Raises:
        UserError: the two do not fit each other, or C is not positive definite.

    Example:
        >>> base = Gaussian(torch.zeros(2), torch.tensor([[2.0, 1.0], [1.0, 2.0]]))
        >>> round(base.log_z, 4), round(base(torch.ones(1, 2)).item(), 4)  # log(2 pi sqrt(3)), 1/3
        (2.3872, 0.3333)
    """

    precision: Tensor

    def __init__(self, mean: Tensor, covariance: Tensor) -> None:
        super().__init__()
        mean = as_floats(mean)
        self.domain = Real(tuple(mean.shape))
        if tuple(covariance.shape) != (mean.numel(), mean.numel()):
            raise UserError(
                f"Gaussian: the mean has {mean.numel()} numbers, but the covariance shape {tuple(covariance.shape)}"
            )
        root, info = torch.linalg.cholesky_ex(covariance.double())
        if info or not root.isfinite().all():
            raise UserError("Gaussian: the covariance is not positive definite")
        self._log_z = float(root.diagonal().log().sum()) + mean.numel() / 2 * math.log(2 * math.pi)
        for name, value in (("mean", mean), ("root", root), ("precision", torch.cholesky_inverse(root))):
            self.register_buffer(name, value.to(mean.dtype), persistent=False)

    @classmethod
    def fit(cls, x: Tensor, shrinkage: float = SHRINKAGE, *, weights: Tensor | None = None) -> Self:
        """The law with the mean of states `(n, *event)` and their covariance S, shrunk towards its mean variance s.

        C = (1 - shrinkage) S + shrinkage s I, so that no direction in which the data hardly vary is left out. States
        count by their weights `(n,)`, and all alike when None.

        Example:
            >>> Gaussian.fit(torch.eye(3)).root.shape
            torch.Size([3, 3])
        """
        if not 0 < shrinkage <= 1:
            raise UserError(f"Gaussian: shrinkage is {shrinkage}, but must be above 0 and at most 1")
        require_weights("Gaussian", weights, len(x))
        flat = x.flatten(1).double()
        centred = flat - mean_of(flat, weights)
        counted = centred.T if weights is None else centred.T * (len(x) * weights / weights.sum()).to(flat)
        covariance = counted @ centred / len(x)
        variance = float(covariance.diagonal().mean()) or 1.0
        covariance = (1 - shrinkage) * covariance
        covariance.diagonal().add_(shrinkage * variance)
        return cls(mean_of(x, weights), covariance)

    @property
    def log_z(self) -> float:
        return self._log_z

    @unrounded
    def forward(self, x: Tensor) -> Tensor:
        away = self.away(x)
        return (away @ self.precision.to(x) * away).sum(1) / 2

    @unrounded
    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        away = self.away(x)
        grad = away @ self.precision.to(x)
        return (grad * away).sum(1) / 2, grad.view_as(x)
