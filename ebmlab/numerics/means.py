"""Means over samples, which may count by weights."""

from __future__ import annotations

from torch import Tensor


def mean_of(x: Tensor, weights: Tensor | None) -> Tensor:
    """The mean over the first axis of x `(N, ...)`, by weights `(N,)`; all count alike when None."""
    if weights is None:
        return x.mean(0)
    return ((weights / weights.sum()).to(x) @ x.flatten(1)).view(x.shape[1:])
