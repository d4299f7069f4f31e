"""Random bits and random choices: where drawing the noise costs as much as the mathematics around it."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

_LARGE = 2**16


def bernoulli(logits: Tensor) -> Tensor:
    """Draws 0/1 floats with P(1) = sigmoid(logits), in the shape and dtype of `logits`.

    All randomness comes from the global torch generator. Large float32 tensors on CPU, where torch draws uniforms one
    at a time, take 24 random bits an entry from numpy's SFC64, itself seeded by that generator.
    """
    p = wide(torch.sigmoid(logits))
    if p.device.type != "cpu" or logits.dtype != torch.float32 or p.numel() < _LARGE:
        return torch.rand_like(p).lt_(p).to(logits.dtype)
    seed = int(torch.randint(2**62, ()))
    bits = np.random.SFC64(seed).random_raw((p.numel() + 1) // 2).view(np.int32)[: p.numel()]
    bits &= -256  # the top 24 bits are exact in float32: p = 1 is certain, and so is p = 0
    return torch.from_numpy(bits).view_as(p).float().lt_(p.sub_(0.5).mul_(2.0**32))


def categorical(log_probs: Tensor, num_draws: int | None = None) -> Tensor:
    """Draws an index of the last axis with the given (normalised) log-probabilities, int64.

    One uniform number a draw, by inversion of the distribution function.

    Args:
        log_probs: `(..., K)`.
        num_draws: draws with replacement from each law; one, without an axis for it, when None.

    Returns:
        `(...)`, or `(..., num_draws)`.
    """
    cdf = wide(log_probs).exp().cumsum(-1)
    total = cdf[..., -1:]
    last = log_probs.shape[-1] - 1
    if num_draws is None:
        return (cdf <= torch.rand_like(total) * total).sum(-1).clamp(max=last)
    level = torch.rand_like(total.expand(*total.shape[:-1], num_draws)) * total
    return torch.searchsorted(cdf, level, right=True).clamp(max=last)


def wide(x: Tensor) -> Tensor:
    """At least float32: of uniform numbers in half precision there are so few that rare events have other odds."""
    return x.to(torch.promote_types(x.dtype, torch.float32))
