"""The hidden layers of a perceptron with swish activations."""

from __future__ import annotations

from itertools import pairwise

from torch import nn


def hidden_layers(width: int, hidden_dim: int, num_layers: int) -> list[nn.Module]:
    """Linear maps from `width` numbers to `hidden_dim`, and on to as many, each with a swish behind it."""
    widths = [width, *[hidden_dim] * num_layers]
    return [layer for a, b in pairwise(widths) for layer in (nn.Linear(a, b), nn.SiLU())]
