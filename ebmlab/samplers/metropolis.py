"""The Metropolis-Hastings decision."""

from __future__ import annotations

import torch
from torch import Tensor


def metropolis(log_ratio: Tensor) -> tuple[Tensor, Tensor]:
    """Accepts each chain with probability min(1, exp(log_ratio)).

    Args:
        log_ratio: log of p(x') q(x | x') / (p(x) q(x' | x)), `(B,)`.

    Returns:
        The decisions `(B,)`, bool, and the probabilities `(B,)`; a NaN ratio is rejected and its probability stays NaN.
    """
    probability = log_ratio.clamp(max=0).exp()
    return torch.rand_like(log_ratio) < probability, probability
