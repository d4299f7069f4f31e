"""Numbers of any type to calculate with, and means over samples, which may count by weights."""

from __future__ import annotations

import torch
from torch import Tensor


def as_floats(x: Tensor) -> Tensor:
    """Whole numbers and booleans in torch's default floating type; floats stay as they are."""
    return x if x.is_floating_point() else x.to(torch.get_default_dtype())


def mean_of(x: Tensor, weights: Tensor | None) -> Tensor:
    """The mean over the first axis of x `(N, ...)`, by weights `(N,)`; all count alike when None."""
    x = as_floats(x)
    if weights is None:
        return x.mean(0)
    return ((weights / weights.sum()).to(x) @ x.flatten(1)).view(x.shape[1:])


def moments_of(rows: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of rows `(N, d)`, `(d,)` each, by weights `(N,)`; all count alike when None."""
    if weights is None:
        return rows.mean(0), rows.std(0, correction=0)
    mean = rows[0] + mean_of(rows - rows[0], weights)  # exact where a feature is constant, so that its deviation is 0
    return mean, mean_of((rows - mean).square(), weights).sqrt()
