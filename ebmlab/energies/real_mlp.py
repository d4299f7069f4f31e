"""A multi-layer perceptron on real numbers, held together by a Gaussian."""

from __future__ import annotations

from torch import nn

from ebmlab.domains import Real
from ebmlab.energies.perceptron import HeldPerceptron, hidden_layers
from ebmlab.settings import require_count, require_positive


class RealMLP(HeldPerceptron):
    """E(x) = f(x) + |x|^2 / (2 scale^2), f the output of a perceptron with swish activations, x real.

    f grows at most linearly, so the second term makes Z finite whatever f learns. The law is a Gaussian of standard
    deviation `scale`, tilted by exp(-f(x)) (Xie et al., 2016, A Theory of Generative ConvNet).

    Args:
        num_coordinates: d, the length of x.
        hidden_dim: units in each hidden layer.
        num_layers: how many hidden layers.
        scale: standard deviation of the Gaussian, in the units of x; a few times that of the data.

    Example:
        >>> import torch
        >>> energy = RealMLP(num_coordinates=2, hidden_dim=8, scale=3.0)
        >>> energy(torch.zeros(5, 2)).shape
        torch.Size([5])
    """

    domains = (Real,)

    def __init__(self, num_coordinates: int, hidden_dim: int = 128, *, num_layers: int = 3, scale: float = 4.0) -> None:
        super().__init__()
        require_count("RealMLP", num_coordinates=num_coordinates, hidden_dim=hidden_dim, num_layers=num_layers)
        require_positive("RealMLP", scale=scale)
        self.domain = Real(num_coordinates)
        self.scale = scale
        layers = hidden_layers(num_coordinates, hidden_dim, num_layers)
        self.network = nn.Sequential(*layers, nn.Linear(hidden_dim, 1))
