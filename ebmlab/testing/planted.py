"""Models of any size, of whose laws exact states are known though Z is not."""

from __future__ import annotations

import math
from functools import cache

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from ebmlab.domains import Binary
from ebmlab.energies import RBM, Energy
from ebmlab.errors import UserError
from ebmlab.numerics.noise import uniform_numbers

SCALE = 0.08  # of the planted weights: the hidden units' inputs have a standard deviation of 1.6


def planted_rbm(
    num_coordinates: int = 784, num_hidden: int = 500, *, scale: float = SCALE
) -> tuple[RBM, Tensor, Tensor]:
    """An RBM with weights of standard deviation `scale`, and one exact state `(1, V)`, `(1, H)` of its joint law.

    With W_ij N(0, s^2) as the prior, the joint law of (W, v, h) is proportional to prior(W) exp(v'W h + b n_v + c n_h).
    Here n_v and n_h count the ones. Given W, it is the RBM's law of (v, h). Given (v, h), W is Gaussian: N(s^2 v h',
    s^2). The marginal law of (v, h) depends on the two counts alone. It is a table, C(V, n_v) C(H, n_h) exp(b n_v + c
    n_h + s^2 n_v n_h / 2). So one draws the counts, then which units are on, then W. The biases put the most likely
    counts at half of the units. Scales below 2 / (V H)^(1/4) keep them there.

    Example:
        >>> from ebmlab.testing import planted_rbm
        >>> rbm, v, h = planted_rbm(20, 10)
        >>> v.shape, h.shape
        (torch.Size([1, 20]), torch.Size([1, 10]))
    """
    bias_v, bias_h = -(scale**2) / 4 * num_hidden, -(scale**2) / 4 * num_coordinates
    cell = int(torch.searchsorted(_counts(num_coordinates, num_hidden, scale), torch.rand((), dtype=torch.float64)))
    v, h = torch.zeros(1, num_coordinates), torch.zeros(1, num_hidden)
    v[0, torch.randperm(num_coordinates)[: cell // (num_hidden + 1)]] = 1
    h[0, torch.randperm(num_hidden)[: cell % (num_hidden + 1)]] = 1
    rbm = RBM(num_coordinates, num_hidden).requires_grad_(False)
    rbm.W.normal_(0, scale).add_(scale**2 * v.T @ h)
    rbm.b_v.fill_(bias_v)
    rbm.b_h.fill_(bias_h)
    return rbm, v, h


@cache
def _counts(num_coordinates: int, num_hidden: int, scale: float) -> Tensor:
    """Distribution function of the cell n_v (H + 1) + n_h."""
    n_v = torch.arange(num_coordinates + 1, dtype=torch.float64)
    n_h = torch.arange(num_hidden + 1, dtype=torch.float64)
    row = -torch.lgamma(n_v + 1) - torch.lgamma(num_coordinates - n_v + 1) - scale**2 / 4 * num_hidden * n_v
    column = -torch.lgamma(n_h + 1) - torch.lgamma(num_hidden - n_h + 1) - scale**2 / 4 * num_coordinates * n_h
    table = row[:, None] + column + scale**2 / 2 * n_v[:, None] * n_h
    return table.flatten().softmax(0).cumsum(0)


class Tilted(Energy):
    """E(x) = -log Bernoulli(x; p) - log sigmoid(u(x)), with u = (centre - network(x)) / width.

    Exact draws are independent bits, accepted with probability sigmoid(u(x)). The network needs no bound.

    Args:
        network: an energy on bits, here any function.
        density: p.
        strength: standard deviation of u over independent bits.

    Example:
        >>> from ebmlab.energies import MLP
        >>> from ebmlab.testing import Tilted
        >>> energy = Tilted(MLP(30, hidden_dim=8), density=0.3)
        >>> energy.sample(5).shape
        torch.Size([5, 30])
    """

    def __init__(self, network: Energy, density: float = 0.5, *, strength: float = 3.0) -> None:
        super().__init__()
        if not isinstance(network.domain, Binary):
            raise UserError(f"Tilted: the network lives on {network.domain}, but must be an energy on bits (Binary)")
        self.domain, self.network, self.density = network.domain, network.requires_grad_(False), density
        values = self.function(self.bits(200))
        self.centre, self.width = values.median(), values.std() / strength

    def bits(self, n: int) -> Tensor:
        """Independent bits `(n, *event)`."""
        return (uniform_numbers(n, *self.domain.event_shape) < self.density).float()

    def function(self, x: Tensor) -> Tensor:
        """The network at x, `(B,)`, without gradients."""
        with torch.no_grad():
            value: Tensor = self.network(x)
        return value

    def forward(self, x: Tensor) -> Tensor:
        bits = -x.flatten(1).sum(1) * math.log(self.density / (1 - self.density))
        return bits - logsigmoid((self.centre - self.network(x)) / self.width)

    def sample(self, n: int) -> Tensor:
        """Exact, independent states `(n, *event)`."""
        kept = [torch.empty(0, *self.domain.event_shape)]
        while sum(map(len, kept)) < n:
            x = self.bits(n)
            accept = torch.sigmoid((self.centre - self.function(x)) / self.width)
            kept.append(x[uniform_numbers(n) < accept])
        return torch.cat(kept)[:n]
