"""Exact references that samplers and learners are held against.

A GRBM with a few units is a Gaussian mixture, one component a hidden configuration (Melchior et al., 2017), so that its
log Z, moments, bin probabilities and exact draws of (v, h) are known. Nothing here calls the GRBM's own methods; only
its parameters are read.
"""

from __future__ import annotations

import itertools
import math
from collections import deque

import torch
from torch import Tensor

from ebmlab.domains import Real
from ebmlab.energies import GRBM, Energy
from ebmlab.samplers import Sampler, State
from ebmlab.testing import chi_square_p

PASS = 1e-4  # right kernels give a larger p, but for one in 10,000; seeds are fixed
FAIL = 1e-8  # wrong kernels must give a smaller p


def make_grbm(num_visible: int) -> GRBM:
    """A float64 GRBM of 1 or 2 visible and 3 hidden units, without symmetries, with overlapping modes."""
    grbm = GRBM(num_visible, 3).double()
    parameters = {
        "W": [[1.3, -0.8, 0.5], [-0.6, 1.1, 1.7]],
        "b": [-0.4, 0.3, -0.9],
        "mu": [0.6, -0.4],
        "log_var": [-0.5, 0.4],
    }
    with torch.no_grad():
        for name, value in parameters.items():
            tensor = torch.tensor(value, dtype=torch.float64)
            getattr(grbm, name).copy_(tensor if name == "b" else tensor[:num_visible])
    return grbm


class ExactGRBM:
    """The law exp(-E(v, h) / T) / Z of a small GRBM.

    Attributes:
        h: hidden configurations, `(8, 3)`, row number in binary.
        weights: p(h), `(8,)`.
        means, std: of v given h, `(8, V)` and `(V,)`.
        log_z: log of Z, differentiable in the parameters.
    """

    def __init__(self, grbm: GRBM, temperature: float = 1.0, num_bins: int | None = None) -> None:
        variance, num_hidden = grbm.log_var.exp(), grbm.num_hidden
        self.h = torch.tensor(list(itertools.product([0.0, 1.0], repeat=num_hidden)), dtype=torch.float64)
        means = grbm.mu + self.h @ grbm.W.T
        exponent = ((means.square() - grbm.mu.square()) / variance).sum(1) / 2 + self.h @ grbm.b
        log_weights = exponent / temperature + (2 * math.pi * temperature * variance).log().sum() / 2
        self.log_z = log_weights.logsumexp(0)
        self.weights = log_weights.softmax(0).detach()
        self.means = means.detach()
        self.std = (temperature * variance).sqrt().detach()
        self.edges = self._edges(num_bins or {1: 40, 2: 12}[len(grbm.mu)])

    def sample(self, n: int) -> tuple[Tensor, Tensor]:
        """Exact, independent (v, h)."""
        k = torch.multinomial(self.weights, n, replacement=True)
        return self.means[k] + self.std * torch.randn(n, len(self.std), dtype=torch.float64), self.h[k]

    def mean(self) -> Tensor:
        return self.weights @ self.means

    def covariance(self) -> Tensor:
        centred = self.means - self.mean()
        return torch.einsum("k,ki,kj->ij", self.weights, centred, centred) + torch.diag(self.std.square())

    def cdf(self, v: Tensor, i: int) -> Tensor:
        """P(v_i <= v) given each h, `(8, N)`."""
        return torch.special.ndtr((v - self.means[:, i : i + 1]) / self.std[i])

    def quantiles(self, p: Tensor) -> Tensor:
        """v with P(v_0 <= v) = p, by interpolation on a fine grid."""
        reach = 12 * self.std[0]
        grid = torch.linspace(float(self.means[:, 0].min() - reach), float(self.means[:, 0].max() + reach), 400_001)
        grid = grid.double()
        return _interpolate(p, self.weights @ self.cdf(grid, 0), grid)

    def p_value(self, v: Tensor, h: Tensor | None = None) -> float:
        """Chi-square test that v, or (v, h) jointly, are independent draws from this law."""
        table = self.weights
        index = torch.zeros(len(v), dtype=torch.long)
        if h is not None:
            index = (h @ 2.0 ** torch.arange(h.shape[1] - 1, -1, -1, dtype=h.dtype)).long()
        for i, edges in enumerate(self.edges):
            cells = torch.diff(self.cdf(edges, i), prepend=torch.zeros(8, 1), append=torch.ones(8, 1))
            table = table.unsqueeze(-1) * cells.view(8, *[1] * i, -1)
            index = index * (len(edges) + 1) + torch.bucketize(v[:, i].contiguous(), edges)
        if h is None:
            table = table.sum(0)
        return chi_square_p(torch.bincount(index, minlength=table.numel()), table.flatten())

    def _edges(self, num_bins: int) -> list[Tensor]:
        """Inner bin edges, for each visible unit equally likely bins."""
        levels = torch.arange(1, num_bins, dtype=torch.float64) / num_bins
        edges = []
        for i, std in enumerate(self.std):
            low, high = float(self.means[:, i].min() - 8 * std), float(self.means[:, i].max() + 8 * std)
            grid = torch.linspace(low, high, 20_001, dtype=torch.float64)
            edges.append(_interpolate(levels, self.weights @ self.cdf(grid, i), grid))
        return edges


def _interpolate(p: Tensor, cdf: Tensor, grid: Tensor) -> Tensor:
    """Inverse of a tabulated distribution function."""
    right = torch.searchsorted(cdf, p).clamp(1, len(grid) - 1)
    share = (p - cdf[right - 1]) / (cdf[right] - cdf[right - 1])
    return torch.lerp(grid[right - 1], grid[right], share)


def last_state(sampler: Sampler, energy: Energy, x: Tensor, num_steps: int) -> State:
    """The state of chains from x after `num_steps` steps."""
    return deque(sampler.chain(energy, x, num_steps), maxlen=1).pop()[0]


def invariance_p(
    sampler: Sampler, grbm: GRBM, num_steps: int = 3, num_chains: int = 100_000, temperature: float = 1.0, seed: int = 0
) -> float:
    """p-value of the hypothesis that exact draws are still exact draws after `num_steps` steps.

    Samplers with hidden units are tested on (v, h): `init` draws h from p(h | v), so that they start at an exact pair.
    """
    torch.manual_seed(seed)
    exact = ExactGRBM(grbm, temperature)
    state = last_state(sampler, grbm, exact.sample(num_chains)[0], num_steps)
    return exact.p_value(state.x, state.hidden)


class Banana(Energy):
    """E(x, y) = x^4 / 4 + 0.4 x^3 - x^2 / 2 + 0.3 x + (y - 0.8 x - 0.3 x^2)^2 / (2 * 0.6^2), by autograd alone.

    With `num_visible` 1 the y term is left out. x has a one-dimensional law for quadrature; given x, y is Gaussian.
    `sample` and `p_value` are those of exp(-E / temperature).
    """

    SCALE = 0.6

    def __init__(self, num_visible: int, temperature: float = 1.0) -> None:
        super().__init__()
        self.domain = Real(num_visible)
        self.temperature = temperature
        grid = torch.linspace(-8, 8, 200_001, dtype=torch.float64)
        density = (-self.energy_of_x(grid) / temperature).exp()
        cdf = torch.cumulative_trapezoid(density, grid)
        self._grid, self._cdf = grid, torch.cat([torch.zeros(1, dtype=torch.float64), cdf / cdf[-1]])

    @staticmethod
    def energy_of_x(x: Tensor) -> Tensor:
        return x**4 / 4 + 0.4 * x**3 - x**2 / 2 + 0.3 * x

    def residual(self, x: Tensor) -> Tensor:
        """(y - E[y | x]) / std, standard normal and independent of x."""
        return (x[:, 1] - 0.8 * x[:, 0] - 0.3 * x[:, 0] ** 2) / self.SCALE

    def forward(self, x: Tensor) -> Tensor:
        energy = self.energy_of_x(x[:, 0])
        return energy if x.shape[1] == 1 else energy + self.residual(x).square() / 2

    def sample(self, n: int) -> Tensor:
        x = _interpolate(torch.rand(n, dtype=torch.float64), self._cdf, self._grid)
        if self.domain.event_shape == (1,):
            return x.unsqueeze(1)
        y = 0.8 * x + 0.3 * x**2 + self.SCALE * self.temperature**0.5 * torch.randn(n, dtype=torch.float64)
        return torch.stack([x, y], 1)

    def p_value(self, x: Tensor) -> float:
        """Chi-square test of x in 40 bins, or of 12 bins of x by 12 of the residual."""
        bins = 40 if x.shape[1] == 1 else 12
        u = torch.searchsorted(self._grid, x[:, 0].contiguous()).clamp(max=len(self._cdf) - 1)
        index = (self._cdf[u] * bins).long().clamp(max=bins - 1)
        if x.shape[1] == 2:
            level = torch.special.ndtr(self.residual(x) / self.temperature**0.5)
            index = index * bins + (level * bins).long().clamp(max=bins - 1)
        cells = bins ** x.shape[1]
        return chi_square_p(torch.bincount(index, minlength=cells), torch.ones(cells, dtype=torch.float64))
