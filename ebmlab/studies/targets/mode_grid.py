"""Gaussian modes on a square grid of integers (Pynadath et al., 2024, Automatic Cyclical Scheduling, Sec. 4.1)."""

from __future__ import annotations

import torch
from torch import Tensor

from ebmlab.domains import Ordinal
from ebmlab.energies.energy import Energy
from ebmlab.errors import UserError
from ebmlab.numerics.unrounded import unrounded
from ebmlab.settings import require_positive


class ModeGrid(Energy):
    """E(x) = -log of the sum over modes l of exp(-|x - mu_l|^2 / (2 s)), x in {0, ..., S - 1}^2 (Eq. 2).

    The paper's text contradicts its own pictures and settings. The sum lacks its minus sign. The modes are at multiples
    of 450 / 7, although it says that they are 75 apart. With a variance of 0.15 a mode is a single integer. With s = 22
    modes are about twenty integers wide, and DMALA of step size 53 accepts 0.577 of its proposals (in the paper around
    0.574).

    Squared distances add up over coordinates and the modes are a square grid. So E(x) = e(x_1) + e(x_2), with e(v) =
    -log of the sum over a of exp(-(v - c_a)^2 / (2 s)). All methods use the one-dimensional e.

    Args:
        side: number of modes along one side, at c_a = spacing, 2 spacing, ....
        num_values: S.
        spacing: distance between neighbouring modes.
        variance: s, of a mode along each coordinate.

    Example:
        >>> energy = ModeGrid(side=2)
        >>> energy.modes.tolist()
        [[75.0, 75.0], [75.0, 150.0], [150.0, 75.0], [150.0, 150.0]]
        >>> energy.nearest_mode(torch.tensor([[80.0, 140.0], [300.0, 300.0]])).tolist()
        [1, -1]
    """

    domains = (Ordinal,)
    domain: Ordinal
    centres: Tensor

    def __init__(self, side: int = 5, num_values: int = 451, *, spacing: float = 75.0, variance: float = 22.0) -> None:
        super().__init__()
        require_positive("ModeGrid", variance=variance, spacing=spacing)
        if side < 1 or not side * spacing < num_values:
            raise UserError(f"ModeGrid: {side} modes {spacing} apart do not fit in 0 to {num_values - 1}")
        self.domain = Ordinal(2, num_values)
        self.spacing = spacing
        self.variance = variance
        self.register_buffer("centres", spacing * torch.arange(1.0, side + 1))

    @property
    def modes(self) -> Tensor:
        """The mu_l, `(side^2, 2)`."""
        return torch.cartesian_prod(self.centres, self.centres)

    def forward(self, x: Tensor) -> Tensor:
        return -self._exponents(x).logsumexp(-1).sum(1)

    @unrounded
    @torch.no_grad()
    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        exponents = self._exponents(x)
        attraction = exponents.softmax(-1) @ self.centres.to(x)
        return -exponents.logsumexp(-1).sum(1), (x - attraction) / self.variance

    def value_differences(self, x: Tensor, index: Tensor | None = None) -> Tensor:
        """As in `Energy`, from a table of e(v)."""
        x = x if index is None else x.gather(1, index)
        table = -self._exponents(self.domain.values_like(x)).logsumexp(-1)
        return table - table[x.long()].unsqueeze(2)

    def nearest_mode(self, x: Tensor) -> Tensor:
        """Index into `modes` of the mode within half a spacing of x, or -1 if there is none; int64, `(B,)`."""
        distance, nearest = torch.cdist(x, self.modes.to(x)).min(1)
        return nearest.where(distance <= self.spacing / 2, -1)

    def density(self) -> Tensor:
        """p(x) at every state, `(S, S)`, float64."""
        values = self.domain.values.to(self.centres.device, torch.float64)
        p = self._exponents(values).logsumexp(-1).softmax(0)
        return torch.outer(p, p)

    def _exponents(self, v: Tensor) -> Tensor:
        """-(v - c_a)^2 / (2 s), `(*v.shape, side)`."""
        return -(v.unsqueeze(-1) - self.centres.to(v)).square() / (2 * self.variance)
