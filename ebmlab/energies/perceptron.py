"""Perceptrons with swish activations: their hidden layers, their gradient by the chain rule, and a Gaussian around."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from ebmlab.energies.energy import Energy
from ebmlab.numerics.unrounded import read_out, unrounded


def hidden_layers(width: int, hidden_dim: int, num_layers: int) -> list[nn.Module]:
    """Linear maps from `width` numbers to `hidden_dim`, and on to as many, each with a swish behind it."""
    widths = [width, *[hidden_dim] * num_layers]
    return [layer for a, b in pairwise(widths) for layer in (nn.Linear(a, b), nn.SiLU())]


def by_chain_rule(network: nn.Sequential, x: Tensor) -> bool:
    """Whether `value_and_slope` may replace autograd at x: plain linear layers, swishes between them, no autocast."""
    kinds = [type(layer) for layer in network]
    plain = kinds == [*[nn.Linear, nn.SiLU] * (len(kinds) // 2), nn.Linear]
    return plain and not torch.is_autocast_enabled(x.device.type)


def value_and_slope(network: nn.Sequential, x: Tensor) -> tuple[Tensor, Tensor]:
    """f(x) and df/dx of a perceptron with one output, by the chain rule.

    With s = sigmoid(z), the swish is h = z s and its slope is h + s (1 - h). Both take one exponential. Where autograd
    is enabled, it can differentiate the result. Elsewhere intermediate numbers are overwritten.

    Args:
        network: for which `by_chain_rule` holds.
        x: `(B, n)`.

    Returns:
        f `(B,)` and its gradient `(B, n)`.
    """
    kept = torch.is_grad_enabled()
    *hidden, last = [layer for layer in network if isinstance(layer, nn.Linear)]
    slopes, one = [], x.new_ones(())
    for layer in hidden:
        z = layer(x)
        s = z.sigmoid()
        x = torch.mul(z, s, out=None if kept else z)
        slopes.append(torch.lerp(x, one, s))
    value, grad = last(x).squeeze(1), last.weight
    for layer, slope in zip(reversed(hidden), reversed(slopes), strict=True):
        grad = torch.mul(slope, grad, out=None if kept else slope) @ layer.weight
    return value, grad


class HeldPerceptron(Energy):
    """E(x) = f(x) + |x|^2 / (2 scale^2), f a perceptron. A subclass makes `network` and `scale`.

    f grows at most linearly, so that the second term makes Z finite whatever f learns.
    """

    network: nn.Sequential
    scale: float

    def forward(self, x: Tensor) -> Tensor:
        return read_out(self.network, x) + self._bowl(x)

    @torch.no_grad()
    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """As in `Energy`, by the chain rule: chains take about two thirds of the time of autograd."""
        if not by_chain_rule(self.network, x):
            return super().value_and_grad(x)
        value, grad = value_and_slope(self.network, x)
        return value + self._bowl(x), grad + self._held(x) / self.scale**2

    @torch.no_grad()
    def gradient(self, x: Tensor) -> Tensor:
        """As in `Energy`: without E(x), which Langevin steps that accept all do not need."""
        if not by_chain_rule(self.network, x):
            return super().gradient(x)
        return value_and_slope(self.network, x)[1] + self._held(x) / self.scale**2

    def differentiable_gradient(self, x: Tensor) -> Tensor:
        """As in `Energy`, by the chain rule."""
        if not by_chain_rule(self.network, x):
            return super().differentiable_gradient(x)
        return value_and_slope(self.network, x)[1] + self._held(x) / self.scale**2

    def _held(self, x: Tensor) -> Tensor:
        """x, with 0 for coordinates that the Gaussian leaves out."""
        return x

    @unrounded
    def _bowl(self, x: Tensor) -> Tensor:
        return x.square().sum(1) / (2 * self.scale**2)
