"""Laws on real numbers whose moments are known in closed form or by quadrature."""

from __future__ import annotations

import math

import torch
from helpers_grbm import Banana
from torch import Tensor

from ebmlab.domains import Real
from ebmlab.energies import Energy
from ebmlab.testing import chi_square_p


class Normal(Energy):
    """N(0, C) in closed form of the energy alone.

    Args:
        covariance: C, `(d, d)`, float64.
    """

    def __init__(self, covariance: Tensor) -> None:
        super().__init__()
        self.domain = Real(len(covariance))
        self.covariance = covariance
        self.register_buffer("precision", torch.linalg.inv(covariance))
        self.factor = torch.linalg.cholesky(covariance)

    @classmethod
    def rotated(cls, size: int, condition: float) -> Normal:
        """Variances from 1 to `condition`, turned by a fixed rotation."""
        generator = torch.Generator().manual_seed(3)
        Q = torch.linalg.qr(torch.randn(size, size, dtype=torch.float64, generator=generator))[0]
        variances = torch.logspace(0, math.log10(condition), size, dtype=torch.float64)
        return cls(Q @ variances.diag() @ Q.T)

    def forward(self, x: Tensor) -> Tensor:
        return ((x @ self.precision) * x).sum(1) / 2

    def sample(self, n: int) -> Tensor:
        return torch.randn(n, len(self.factor), dtype=torch.float64) @ self.factor.T

    def normals(self, x: Tensor) -> Tensor:
        """The first three of the factor's coordinates, which are independent and normal."""
        return torch.linalg.solve_triangular(self.factor, x.T, upper=False)[:3].T


class Funnel(Energy):
    """v of N(0, 3^2), and two x of N(0, exp(v)) (Neal, 2003, Sec. 8); x = exp(v / 2) z."""

    def __init__(self, std: float = 3.0) -> None:
        super().__init__()
        self.domain, self.std = Real(3), std

    def forward(self, x: Tensor) -> Tensor:
        v, rest = x[:, 0], x[:, 1:]
        return (v / self.std).square() / 2 + (rest.square().sum(1) * (-v).exp() + 2 * v) / 2

    def sample(self, n: int) -> Tensor:
        v = self.std * torch.randn(n, 1, dtype=torch.float64)
        return torch.cat([v, (v / 2).exp() * torch.randn(n, 2, dtype=torch.float64)], 1)

    def normals(self, x: Tensor) -> Tensor:
        """v / 3, z_1 and z_2, which are independent and normal."""
        return torch.cat([x[:, :1] / self.std, x[:, 1:] * (-x[:, :1] / 2).exp()], 1)


class TwoModes(Energy):
    """0.7 N((-2, 0), I) + 0.3 N((2, 1), 0.6^2 I)."""

    weights, stds = (0.7, 0.3), (1.0, 0.6)
    means = ((-2.0, 0.0), (2.0, 1.0))

    def __init__(self) -> None:
        super().__init__()
        self.domain = Real(2)

    def forward(self, x: Tensor) -> Tensor:
        logs = [
            math.log(w / s**2) - ((x - x.new_tensor(m)) / s).square().sum(1) / 2
            for w, s, m in zip(self.weights, self.stds, self.means, strict=True)
        ]
        return -torch.logaddexp(*logs)

    def sample(self, n: int) -> Tensor:
        k = (torch.rand(n) < self.weights[1]).long()
        means, stds = torch.tensor(self.means).double()[k], torch.tensor(self.stds).double()[k]
        return means + stds.unsqueeze(1) * torch.randn(n, 2, dtype=torch.float64)

    def normals(self, x: Tensor) -> Tensor:
        """The normal quantiles of x_1, and of x_2 given x_1."""
        w, s, m = (torch.tensor(t).double() for t in (self.weights, self.stds, self.means))
        near = w / s * (-((x[:, :1] - m[:, 0]) / s).square() / 2).exp()
        first = (w * torch.special.ndtr((x[:, :1] - m[:, 0]) / s)).sum(1)
        given = near / near.sum(1, keepdim=True)  # the law of the mode, given x_1
        second = (given * torch.special.ndtr((x[:, 1:] - m[:, 1]) / s)).sum(1)
        return torch.special.ndtri(torch.stack([first, second], 1).clamp(1e-12, 1 - 1e-12))


class EightSchools(Energy):
    """Rubin's (1981) eight schools, non-centred: mu of N(0, 5^2), tau of half-Cauchy(5), theta = mu + tau z.

    A state is (mu, log tau, z_1 to z_8), as in posteriordb. z given mu and tau is normal, so that sums over a grid of
    mu and log tau give moments, exact draws and quantiles.
    """

    Y = (28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0)
    SIGMA = (15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0)

    def __init__(self) -> None:
        super().__init__()
        self.domain = Real(10)

    def forward(self, x: Tensor) -> Tensor:
        mu, log_tau, z = x[:, 0], x[:, 1], x[:, 2:]
        y, sigma = x.new_tensor(self.Y), x.new_tensor(self.SIGMA)
        misfit = ((y - mu.unsqueeze(1) - log_tau.exp().unsqueeze(1) * z) / sigma).square().sum(1) / 2
        return misfit + z.square().sum(1) / 2 + self._prior(mu, log_tau)

    @staticmethod
    def _prior(mu: Tensor, log_tau: Tensor) -> Tensor:
        """Minus the log density of mu and of log tau, the Jacobian included."""
        return (mu / 5).square() / 2 + (1 + (log_tau.exp() / 5).square()).log() - log_tau

    def grid(self) -> tuple[Tensor, Tensor, Tensor]:
        """Mu `(m, 1)`, log tau `(n,)` and their probabilities `(m, n)`, z integrated out."""
        mu = torch.linspace(-25, 35, 601, dtype=torch.float64).view(-1, 1)
        log_tau = torch.linspace(-12, 6, 1801, dtype=torch.float64)
        minus_log = self._prior(mu, log_tau)
        for y, sigma in zip(self.Y, self.SIGMA, strict=True):
            variance = sigma**2 + (2 * log_tau).exp()
            minus_log = minus_log + (y - mu) ** 2 / variance / 2 + variance.log() / 2
        return mu, log_tau, (-minus_log).flatten().softmax(0).view(minus_log.shape)

    def moments(self) -> dict[str, tuple[float, float]]:
        """Mean and standard deviation of mu, of log tau and of theta_1."""
        mu, log_tau, p = self.grid()
        tau2 = (2 * log_tau).exp()
        share = tau2 / (tau2 + self.SIGMA[0] ** 2)
        theta, spread = mu + share * (self.Y[0] - mu), share * self.SIGMA[0] ** 2
        found = {}
        for name, value, variance in (("mu", mu, 0.0), ("log tau", log_tau, 0.0), ("theta_1", theta, spread)):
            mean = (p * value).sum()
            found[name] = float(mean), float(((p * ((value - mean) ** 2 + variance)).sum()).sqrt())
        return found

    def given(self, mu: Tensor, log_tau: Tensor) -> tuple[Tensor, Tensor]:
        """Means and standard deviations of z, `(B, 8)`."""
        y, sigma, tau = torch.tensor(self.Y).double(), torch.tensor(self.SIGMA).double(), log_tau.exp().unsqueeze(1)
        variance = 1 / (1 + (tau / sigma).square())
        return variance * tau * (y - mu.unsqueeze(1)) / sigma.square(), variance.sqrt()

    def sample(self, n: int) -> Tensor:
        mu, log_tau, p = self.grid()
        k = torch.multinomial(p.flatten(), n, replacement=True)
        jitter = torch.rand(2, n, dtype=torch.float64) - 0.5
        a = mu.flatten()[k // len(log_tau)] + jitter[0] * (mu[1] - mu[0])
        b = log_tau[k % len(log_tau)] + jitter[1] * (log_tau[1] - log_tau[0])
        means, stds = self.given(a, b)
        return torch.cat([torch.stack([a, b], 1), means + stds * torch.randn(n, 8, dtype=torch.float64)], 1)

    def normals(self, x: Tensor) -> Tensor:
        """The normal quantile of log tau, and z_1 and z_5 in units of their law given mu and tau."""
        _, log_tau, p = self.grid()
        step = log_tau[1] - log_tau[0]
        cdf = torch.cat([torch.zeros(1), p.sum(0).cumsum(0)])  # at the edges of cells
        place = ((x[:, 1] - log_tau[0]) / step + 0.5).clamp(0, len(log_tau) - 1e-9)
        level = torch.lerp(cdf[place.long()], cdf[place.long() + 1], place.frac()).clamp(1e-12, 1 - 1e-12)
        means, stds = self.given(x[:, 0], x[:, 1])
        z = (x[:, 2:] - means) / stds
        return torch.stack([torch.special.ndtri(level), z[:, 0], z[:, 4]], 1)

    @staticmethod
    def statistics(x: Tensor) -> dict[str, Tensor]:
        return {"mu": x[:, 0], "log tau": x[:, 1], "theta_1": x[:, 0] + x[:, 1].exp() * x[:, 2]}


def normal_p(z: Tensor, bins: int) -> float:
    """Chi-square test that the columns of z are independent and of N(0, 1), in so many bins each."""
    index = torch.zeros(len(z), dtype=torch.long)
    for column in z.unbind(1):
        index = index * bins + (torch.special.ndtr(column) * bins).long().clamp(0, bins - 1)
    cells = bins ** z.shape[1]
    return chi_square_p(torch.bincount(index, minlength=cells), torch.ones(cells, dtype=torch.float64))


def banana_joint_p(target: Banana, x: Tensor, velocity: Tensor) -> float:
    """Chi-square test that the first x follows its law, and that the first velocity is N(0, 1) whatever x is."""
    place = torch.searchsorted(target._grid, x[:, 0].contiguous()).clamp(max=len(target._cdf) - 1)
    level = target._cdf[place].clamp(1e-12, 1 - 1e-12)
    return normal_p(torch.stack([torch.special.ndtri(level), velocity[:, 0]], 1), 12)
