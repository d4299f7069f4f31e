"""The Gaussian-Bernoulli restricted Boltzmann machine (Liao et al., 2022, Gaussian-Bernoulli RBMs Without Tears)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from ebmlab.domains import Real
from ebmlab.energies.bipartite import Bipartite
from ebmlab.energies.evaluation import Evaluation, PerChain
from ebmlab.energies.hidden_units import RECTIFIED, Kind, units_of
from ebmlab.energies.weighted_sum import WeightedPairs, WeightedSum
from ebmlab.errors import UserError
from ebmlab.native import affine
from ebmlab.numerics.unrounded import unrounded
from ebmlab.settings import require_count

CLIMBS = 30  # steps of the search for a direction in which E of rectified units falls


class GRBM(Bipartite):
    """E(v, h) = |(v - mu) / sigma|^2 / 2 - (v / sigma^2)' W h - b'h (Eq. 1), v real, h binary.

    Called on x = v, it gives the marginal energy (Eq. 5). Gaussian and rectified hidden units add the sum of h_j^2 / 2
    to E(v, h), and h is integrated out.

    With Gaussian units v is normal, with the precision Sigma^-1 - Sigma^-1 W W' Sigma^-1, where Sigma = diag(sigma^2).
    It has a law only while this matrix is positive definite: while no singular value of W / sigma reaches 1. With
    rectified units this suffices, and is not needed. Training does not hold W there; `check_law` says where it is.

    Args:
        num_coordinates: V, the length of v.
        num_hidden: H, the length of h.
        hidden: `bits`; `gaussian`, any numbers; or `rectified`, numbers from 0.

    Attributes:
        W: weights `(V, H)`, drawn from N(0, 1 / (V + H)). With other units than bits, their standard deviation is
            0.5 / (sqrt(V) + sqrt(H)), so that the largest singular value is about 0.5.
        b: hidden bias `(H,)`, zero at first.
        mu: visible mean `(V,)`, zero at first.
        log_var: log sigma^2 `(V,)`, zero at first.

    Example:
        >>> energy = GRBM(num_coordinates=4, num_hidden=3)
        >>> mean, variance = energy.visible_given_hidden(torch.ones(5, 3))
        >>> energy(mean).shape, mean.shape, variance.shape
        (torch.Size([5]), torch.Size([5, 4]), torch.Size([4]))
    """

    domains = (Real,)

    def __init__(self, num_coordinates: int, num_hidden: int, *, hidden: Kind = "bits") -> None:
        super().__init__()
        require_count("GRBM", num_coordinates=num_coordinates, num_hidden=num_hidden)
        self.domain = Real(num_coordinates)
        self.num_hidden = num_hidden
        self.units = units_of("GRBM", hidden)
        size = (num_coordinates + num_hidden) ** 0.5 if self.has_bits else 2 * (num_coordinates**0.5 + num_hidden**0.5)
        self.W = nn.Parameter(torch.randn(num_coordinates, num_hidden) / size)
        self.b = nn.Parameter(torch.zeros(num_hidden))
        self.mu = nn.Parameter(torch.zeros(num_coordinates))
        self.log_var = nn.Parameter(torch.zeros(num_coordinates))

    @torch.no_grad()
    def set_base(self, mean: Tensor) -> None:
        """Sets mu to `mean` `(V,)`: while W is 0, p(v) is normal with this mean."""
        self.check_mean(mean)
        self.mu.copy_(mean.to(self.mu).view_as(self.mu))

    @property
    def variance(self) -> Tensor:
        """sigma^2, `(V,)`."""
        return self.log_var.exp()

    @property
    def precision(self) -> Tensor:
        """1 / sigma^2, `(V,)`."""
        return (-self.log_var).exp()

    @unrounded
    def hidden_given_visible(self, v: Tensor) -> Tensor:
        """W'(v / sigma^2) + b, `(B, H)`: for bits, the logits of p(h_j = 1 | v) (Eq. 4)."""
        return affine(self.b, v * self.precision, self.W)

    @unrounded
    def visible_given_hidden(self, h: Tensor) -> tuple[Tensor, Tensor]:
        """Mean W h + mu `(B, V)` and variance sigma^2 `(V,)` of the Gaussian p(v | h) (Eq. 3)."""
        return affine(self.mu, h, self.W.T), self.variance

    @unrounded
    def visible_energy(self, v: Tensor) -> Tensor:
        """|(v - mu) / sigma|^2 / 2, the part of Eq. 1 and 5 without h, `(B,)`."""
        return 0.5 * ((v - self.mu).square() * self.precision).sum(1)

    @torch.no_grad()
    def evaluate(self, x: Tensor, known: PerChain | None = None) -> Evaluation:
        """The marginal energy and its gradient (v - mu - W E[h | v]) / sigma^2 (Eq. 21)."""
        logits = self.hidden_given_visible(x)
        energy, hidden = self.energy_and_mean(x, logits)
        mean, _ = self.visible_given_hidden(hidden)
        return Evaluation(energy, (x - mean) * self.precision, logits=logits)

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        result = self.evaluate(x)
        return result.energy, result.grad

    @torch.no_grad()
    def check_law(self) -> None:
        """As in `Energy`. At v = t z sigma, E grows as t^2 (1 - |f(A'z)|^2) / 2 with A = W / sigma, |z| = 1.

        Here f(I) is I for Gaussian units, whose largest |f(A'z)| is the largest singular value of A. It is max(I, 0)
        for rectified ones. If that is not enough to tell, z <- A f(A'z) / |A f(A'z)| climbs from singular vectors and
        from columns of A. A law is refused where a z is found, so that a refusal is never wrong.
        """
        if self.has_bits:
            return
        scaled = (self.W * self.precision.sqrt().unsqueeze(1)).double()
        if not scaled.isfinite().all():  # shows in every energy
            return
        axes, sizes, _ = torch.linalg.svd(scaled, full_matrices=False)
        pull = float(sizes[0])
        if self.units is RECTIFIED and pull >= 1:
            z = functional.normalize(torch.cat([axes, -axes, scaled], 1), dim=0)
            for _ in range(CLIMBS):
                z = functional.normalize(scaled @ (scaled.T @ z).relu(), dim=0)
            pull = float((scaled.T @ z).relu().norm(dim=0).max())
        if pull >= 1:
            raise UserError(
                "GRBM: exp(-E) has no finite integral, because the weights of its hidden units are too large: "
                f"W / sigma stretches by {pull:.3g}, which must be below 1; train with a smaller learning "
                "rate or a penalty on W, or take bits"
            )

    def step_unit(self) -> Tensor:
        """The current mean variance, by which Alg. 3 and 4 multiply the step size."""
        return self.variance.mean()

    def summed_energy(self, count: Tensor, v: Tensor, v_squared: Tensor, h: Tensor, vh: Tensor) -> Tensor:
        """The weighted sum of E(v, h), see `PairEnergy`."""
        quadratic = 0.5 * (v_squared - 2 * self.mu * v + count * self.mu.square())
        interaction = (self.W * vh).sum(1)
        return ((quadratic - interaction) * self.precision).sum() - (self.b * h).sum()

    def weighted_sum(self) -> WeightedSum:
        return WeightedPairs(self)
