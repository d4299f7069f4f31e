"""Perceptrons with swish activations: their hidden layers, and their gradient by the chain rule."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn


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

    With s = sigmoid(z), the swish is h = z s and its slope is s + h - h s. Both take one exponential. Where autograd is
    enabled, it can differentiate the result. Elsewhere intermediate numbers are overwritten.

    Args:
        network: for which `by_chain_rule` holds.
        x: `(B, n)`.

    Returns:
        f `(B,)` and its gradient `(B, n)`.
    """
    kept = torch.is_grad_enabled()
    *hidden, last = [layer for layer in network if isinstance(layer, nn.Linear)]
    slopes = []
    for layer in hidden:
        z = layer(x)
        s = z.sigmoid()
        x = torch.mul(z, s, out=None if kept else z)
        slope = torch.addcmul(s, x, s, value=-1)
        slopes.append(torch.add(slope, x, out=None if kept else slope))
    value, grad = last(x).squeeze(1), last.weight
    for layer, slope in zip(reversed(hidden), reversed(slopes), strict=True):
        grad = torch.mul(slope, grad, out=None if kept else slope) @ layer.weight
    return value, grad
