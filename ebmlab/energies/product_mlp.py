"""A multi-layer perceptron on states of several kinds."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ebmlab.domains import Real
from ebmlab.energies.perceptron import HeldPerceptron, hidden_layers
from ebmlab.numerics.unrounded import unrounded
from ebmlab.product import Product
from ebmlab.settings import require_count, require_positive


class ProductMLP(HeldPerceptron):
    """E(x) = f(x) + |r|^2 / (2 scale^2), f the output of a perceptron with swish activations, r the real parts of x.

    f grows at most linearly in r, so that the second term makes Z finite whatever f learns, as in `RealMLP`.

    Args:
        domain: a `Product`; categories enter as one-hot vectors.
        hidden_dim: units in each hidden layer.
        num_layers: how many hidden layers.
        scale: standard deviation of the Gaussian of the real parts, in their units; a few times that of the data.

    Example:
        >>> from ebmlab.domains import Categorical
        >>> energy = ProductMLP(Product(kind=Categorical(1, 3), place=Real(2)), hidden_dim=8)
        >>> energy(energy.random(5)).shape
        torch.Size([5])
    """

    domains = (Product,)
    is_real: Tensor

    def __init__(self, domain: Product, hidden_dim: int = 128, *, num_layers: int = 3, scale: float = 4.0) -> None:
        super().__init__()
        require_count("ProductMLP", hidden_dim=hidden_dim, num_layers=num_layers)
        require_positive("ProductMLP", scale=scale)
        self.domain = domain
        self.scale = scale
        reals = [torch.full((1, *p.event_shape), float(isinstance(p, Real))) for p in domain.parts.values()]
        self.register_buffer("is_real", torch.cat([part.flatten() for part in reals]), persistent=False)
        layers = hidden_layers(domain.event_shape[0], hidden_dim, num_layers)
        self.network = nn.Sequential(*layers, nn.Linear(hidden_dim, 1))

    def _held(self, x: Tensor) -> Tensor:
        return x * self.is_real.to(x)

    @unrounded
    def _bowl(self, x: Tensor) -> Tensor:
        """|r|^2 / (2 scale^2), `(B,)`."""
        return x.square() @ self.is_real.to(x) / (2 * self.scale**2)
