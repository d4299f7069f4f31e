"""The Gaussian-Bernoulli restricted Boltzmann machine (Liao et al., 2022, Gaussian-Bernoulli RBMs Without Tears)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ebmlab.domains import Real
from ebmlab.energies.bipartite import Bipartite
from ebmlab.energies.evaluation import Evaluation, PerChain
from ebmlab.energies.weighted_sum import WeightedPairs, WeightedSum
from ebmlab.numerics.affine import affine
from ebmlab.numerics.unrounded import unrounded
from ebmlab.settings import require_count


class GRBM(Bipartite):
    """E(v, h) = |(v - mu) / sigma|^2 / 2 - (v / sigma^2)' W h - b'h (Eq. 1), v real, h binary.

    Called on x = v, it gives the marginal energy (Eq. 5).

    Args:
        num_coordinates: V, the length of v.
        num_hidden: H, the length of h.

    Attributes:
        W: weights `(V, H)`, drawn from N(0, 1 / (V + H)).
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

    def __init__(self, num_coordinates: int, num_hidden: int) -> None:
        super().__init__()
        require_count("GRBM", num_coordinates=num_coordinates, num_hidden=num_hidden)
        self.domain = Real(num_coordinates)
        self.num_hidden = num_hidden
        self.W = nn.Parameter(torch.randn(num_coordinates, num_hidden) / (num_coordinates + num_hidden) ** 0.5)
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
        """Logits W'(v / sigma^2) + b of p(h_j = 1 | v) (Eq. 4), `(B, H)`."""
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
        """The marginal energy and its gradient (v - mu - W sigmoid(logits)) / sigma^2 (Eq. 21)."""
        logits = self.hidden_given_visible(x)
        mean, _ = self.visible_given_hidden(torch.sigmoid(logits))
        return Evaluation(self.marginal_energy(x, logits), (x - mean) * self.precision, logits=logits)

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        result = self.evaluate(x)
        return result.energy, result.grad

    def step_unit(self) -> Tensor:
        """The current mean variance, by which Alg. 3 and 4 multiply the step size."""
        return self.variance.mean()

    def summed_energy(self, count: float, v: Tensor, v_squared: Tensor, h: Tensor, vh: Tensor) -> Tensor:
        """The weighted sum of E(v, h), see `PairEnergy`."""
        quadratic = 0.5 * (v_squared - 2 * self.mu * v + count * self.mu.square())
        interaction = (self.W * vh).sum(1)
        return ((quadratic - interaction) * self.precision).sum() - (self.b * h).sum()

    def weighted_sum(self) -> WeightedSum:
        return WeightedPairs(self)
