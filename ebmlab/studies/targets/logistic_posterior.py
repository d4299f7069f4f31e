"""The posterior of a logistic regression with 0/1 coefficients (Sun et al., 2023, Any-scale Balanced Samplers, 5.3)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ebmlab.data.numbers import as_numbers
from ebmlab.domains import Binary
from ebmlab.energies.energy import Around, Energy
from ebmlab.errors import UserError
from ebmlab.numerics.softplus import sum_softplus
from ebmlab.numerics.unrounded import unrounded


class LogisticPosterior(Energy):
    """E(beta) = sum over i of y_i log(1 + exp(-v_i)) + (1 - y_i) log(1 + exp(v_i)), v = X beta (Eq. 22).

    This is minus the log-likelihood of y_i ~ Bernoulli(sigmoid(v_i)), with a uniform prior on {0, 1}^d. Eq. 22 lacks
    brackets: its minus sign applies to both terms.

    Args:
        features: X, `(m, d)`.
        targets: y, 0 or 1, `(m,)`.

    Example:
        >>> energy = LogisticPosterior(features=[[1.0, 0.0], [0.0, -1.0]], targets=[1, 0])
        >>> energy(energy.domain.enumerate()).argmin().item()  # beta = (1, 1) explains both rows
        3
    """

    domains = (Binary,)
    features: Tensor
    targets: Tensor

    def __init__(self, features: Sequence[Sequence[float]] | Tensor, targets: Sequence[float] | Tensor) -> None:
        super().__init__()
        X = 1.0 * as_numbers(features, "LogisticPosterior: features")
        y = as_numbers(targets, "LogisticPosterior: targets").to(X)
        if X.dim() != 2 or y.shape != X.shape[:1]:
            raise UserError(
                f"LogisticPosterior: features have shape {tuple(X.shape)} and targets {tuple(y.shape)}; "
                "they must be (m, d) and (m,)"
            )
        if not X.isfinite().all():
            raise UserError("LogisticPosterior: features hold NaN or infinity")
        if not ((y == 0) | (y == 1)).all():
            raise UserError("LogisticPosterior: targets must be 0 or 1")
        self.domain = Binary(X.shape[1])
        self.register_buffer("features", X)
        self.register_buffer("targets", y)

    @classmethod
    def synthetic(cls, size: int = 100, num_rows: int = 50, *, seed: int = 0) -> LogisticPosterior:
        """The paper's data (App. B.4).

        Rows of X are N(0, 0.25 S C S), where C_ii = 1.25, C_ij = 0.25, and S is diagonal with
        S_ii = exp(-0.25 + (i - 1) / (d - 1)). The true beta, from which y is drawn, is 1 for the first seven
        coefficients and 0 for the others.
        """
        generator = torch.Generator().manual_seed(seed)
        own = torch.randn(num_rows, size, dtype=torch.float64, generator=generator)
        common = torch.randn(num_rows, 1, dtype=torch.float64, generator=generator)
        S = torch.linspace(-0.25, 0.75, size, dtype=torch.float64).exp()
        X = 0.5 * (own + 0.5 * common) * S
        y = torch.rand(num_rows, dtype=torch.float64, generator=generator) < X[:, :7].sum(1).sigmoid()
        return cls(X.to(torch.get_default_dtype()), y)

    @unrounded
    def forward(self, x: Tensor) -> Tensor:
        return self._loss(x @ self.features.T.to(x))

    @unrounded
    @torch.no_grad()
    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features = self.features.to(x)
        v = x @ features.T
        return self._loss(v), (v.sigmoid() - self.targets.to(x)) @ features

    @unrounded
    def around(self, x: Tensor) -> Around:
        """E(x) `(B,)` and X beta `(B, m)`."""
        here = x @ self.features.T.to(x)
        return self._loss(here), here

    @unrounded
    def flip_differences(self, x: Tensor, index: Tensor | None = None, around: Around | None = None) -> Tensor:
        """As in `Energy`. A flip adds one column of X to X beta, or subtracts it: O(k m) instead of O(k m d)."""
        if index is None:
            index = torch.arange(x.shape[1], device=x.device).unsqueeze(0)
        signs = 1 - 2 * x.gather(1, index.expand(len(x), -1))
        columns = self.features.T.to(x)
        here = (around[1] if around else x @ columns).unsqueeze(1)
        there = here + signs.unsqueeze(2) * columns[index]
        return self._loss(there) - self._loss(here)

    def _loss(self, v: Tensor) -> Tensor:
        """-log p(y | v) of v `(..., m)`."""
        return sum_softplus(torch.where(self.targets == 1, -v, v))
