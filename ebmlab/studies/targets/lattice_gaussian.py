"""Gaussians on a lattice of integers (Sun et al., 2023, Any-scale Balanced Samplers for Discrete Space, Sec. 5.2)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ebmlab.data.numbers import as_numbers
from ebmlab.domains import Ordinal
from ebmlab.energies.energy import Energy
from ebmlab.errors import UserError
from ebmlab.numerics.unrounded import unrounded


class LatticeGaussian(Energy):
    """E(x) = (x - b)' A (x - b) / 2 on {0, ..., S - 1}^d.

    Args:
        precision: A, symmetric and positive definite, `(d, d)`.
        mean: b, `(d,)`, which need not be integers.
        num_values: S.

    Example:
        >>> energy = LatticeGaussian([[2.0, 1.0], [1.0, 2.0]], mean=[1.0, 1.0], num_values=3)
        >>> energy(torch.tensor([[0.0, 2.0], [2.0, 2.0]])).tolist()
        [1.0, 3.0]
    """

    domains = (Ordinal,)
    domain: Ordinal
    precision: Tensor
    mean: Tensor

    def __init__(
        self, precision: Sequence[Sequence[float]] | Tensor, mean: Sequence[float] | Tensor, *, num_values: int = 21
    ) -> None:
        super().__init__()
        A, b = (
            1.0 * as_numbers(given, f"LatticeGaussian: {name}")
            for name, given in (("precision", precision), ("mean", mean))
        )
        if b.dim() != 1 or A.shape != (len(b), len(b)):
            raise UserError(
                f"LatticeGaussian: precision has shape {tuple(A.shape)} and mean {tuple(b.shape)}; "
                "they must be (d, d) and (d,)"
            )
        if not torch.allclose(A, A.T) or torch.linalg.cholesky_ex(A.double()).info:
            raise UserError("LatticeGaussian: precision must be symmetric and positive definite")
        self.domain = Ordinal(len(b), num_values)
        self.register_buffer("precision", (A + A.T) / 2)
        self.register_buffer("mean", b)

    @classmethod
    def rotated(
        cls, size: int = 100, num_values: int = 21, *, condition: float = 10.0, seed: int = 0
    ) -> LatticeGaussian:
        """A = P L P' with a random rotation P; the mean is the middle of the domain.

        The paper does not state the spectrum. Here the eigenvalues L are spaced geometrically, and the largest is
        `condition` times the smallest. The widest axis has standard deviation S / 5 (4.2 for 21 integers).
        """
        generator = torch.Generator().manual_seed(seed)
        P, _ = torch.linalg.qr(torch.randn(size, size, dtype=torch.float64, generator=generator))
        L = condition ** torch.linspace(0, 1, size, dtype=torch.float64)
        return cls._centred((P * L) @ P.T, num_values)

    @classmethod
    def sparse(
        cls, size: int = 100, num_values: int = 21, *, condition: float = 10.0, seed: int = 0
    ) -> LatticeGaussian:
        """A = S M S, a Markov random field on a cycle: M_ii = 1, and M_ij is N(0, 0.04) between neighbours.

        The mean is the middle of the domain. The paper does not state the scales S. Here S_ii^2 = A_ii, the precision
        of one coordinate given the others, is spaced geometrically along the cycle. The largest is `condition` times
        the smallest. The widest coordinate has conditional standard deviation num_values / 5. The condition number of A
        is at most `condition` times that of M.
        """
        generator = torch.Generator().manual_seed(seed)
        i = torch.arange(size)
        j = (i + 1) % size
        M = torch.zeros(size, size, dtype=torch.float64)
        M[i, j] = M[j, i] = 0.2 * torch.randn(size, dtype=torch.float64, generator=generator)
        M.fill_diagonal_(1)
        S = condition ** torch.linspace(0, 0.5, size, dtype=torch.float64)
        return cls._centred(S[:, None] * M * S, num_values)

    @classmethod
    def _centred(cls, precision: Tensor, num_values: int) -> LatticeGaussian:
        """Puts the mean in the middle and scales A such that precision 1 becomes standard deviation num_values / 5."""
        precision = ((precision + precision.T) / 2 * (5 / num_values) ** 2).to(torch.get_default_dtype())
        return cls(precision, torch.full((len(precision),), (num_values - 1) / 2), num_values=num_values)

    @unrounded
    def forward(self, x: Tensor) -> Tensor:
        z = x - self.mean.to(x)
        return 0.5 * (z * (z @ self.precision.to(x))).sum(1)

    @unrounded
    @torch.no_grad()
    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        z = x - self.mean.to(x)
        grad = z @ self.precision.to(x)
        return 0.5 * (z * grad).sum(1), grad

    @unrounded
    def value_differences(self, x: Tensor, index: Tensor | None = None) -> Tensor:
        """As in `Energy`: moving coordinate i by m changes E by m (A (x - b))_i + m^2 A_ii / 2."""
        precision = self.precision.to(x)
        grad, curvature = (x - self.mean.to(x)) @ precision, precision.diagonal().expand_as(x)
        if index is not None:
            x, grad, curvature = x.gather(1, index), grad.gather(1, index), curvature.gather(1, index)
        move = self.domain.values_like(x) - x.unsqueeze(2)
        return move * (grad.unsqueeze(2) + 0.5 * move * curvature.unsqueeze(2))
