"""Numbers of any type to calculate with, and means over samples, which may count by weights."""

from __future__ import annotations

from functools import reduce

import torch
from torch import Tensor

AT_ONCE = 2**12  # rows that are converted at a time


def as_floats(x: Tensor) -> Tensor:
    """Whole numbers and booleans in torch's default floating type; floats stay as they are."""
    return x if x.is_floating_point() else x.to(torch.get_default_dtype())


def mean_of(x: Tensor, weights: Tensor | None, *, dtype: torch.dtype | None = None) -> Tensor:
    """The mean over the first axis of x `(N, ...)`, by weights `(N,)`; all count alike when None.

    It is summed up in `dtype`, by default in that of x, without a copy of x.
    """
    x = as_floats(x)
    if weights is None:
        return x.mean(0, dtype=dtype)
    shares = torch.split((weights / weights.sum()).to(x.device, dtype or x.dtype), AT_ONCE)
    parts = zip(shares, torch.split(x.flatten(1), AT_ONCE), strict=True)
    return reduce(torch.add, (share @ part.to(share) for share, part in parts)).view(x.shape[1:])


def moments_of(rows: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of rows `(N, d)`, `(d,)` each, by weights `(N,)`; all count alike when None."""
    if weights is None:
        return rows.mean(0), rows.std(0, correction=0)
    mean = rows[0] + mean_of(rows - rows[0], weights)  # exact where a feature is constant, so that its deviation is 0
    return mean, mean_of((rows - mean).square(), weights).sqrt()
