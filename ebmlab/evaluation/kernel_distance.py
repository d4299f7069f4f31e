"""The kernel distance between sets of features, KID (Binkowski et al., 2018, Demystifying MMD GANs)."""

from __future__ import annotations

import torch
from torch import Tensor

from ebmlab.errors import UserError

CHUNK = 2**22  # kernel values at a time


@torch.no_grad()
def kernel_distance(x: Tensor, y: Tensor) -> Tensor:
    """The squared MMD under the kernel (x'y / F + 1)^3, of features `(n, F)` and `(m, F)`, without bias.

    With the features of the Inception network it is the KID. Unlike `frechet_distance` its expectation does not depend
    on the number of samples, and it may be below 0 if the laws agree. All pairs are used, which is the estimate of
    least variance; papers often average over subsets of 1,000.

    The kernel changes if both sets are moved. Computed in float64.

    Returns:
        A scalar, float64.

    Raises:
        UserError: a set has fewer than 2 features, the sets do not fit each other, or are not finite.

    Example:
        >>> x = torch.ones(3, 2)
        >>> kernel_distance(x, x).item(), kernel_distance(x, 0 * x).item()  # 2^3 + 1 - 2
        (0.0, 7.0)
    """
    if x.dim() != 2 or y.dim() != 2 or x.shape[1] != y.shape[1] or min(len(x), len(y)) < 2 or x.shape[1] == 0:
        raise UserError(
            "kernel_distance compares two sets of 2 or more features (n, F) of the same length, got "
            f"{tuple(x.shape)} and {tuple(y.shape)}"
        )
    if not (x.isfinite().all() and y.isfinite().all()):
        raise UserError("kernel_distance: some features are not finite (NaN or infinite)")
    x, y = x.double(), y.double()
    return _within(x) + _within(y) - 2 * _sum(x, y) / (len(x) * len(y))


def _sum(x: Tensor, y: Tensor) -> Tensor:
    """The kernel summed over all pairs."""
    parts = torch.split(x, max(1, CHUNK // len(y)))
    return torch.stack([(part @ y.T).div_(x.shape[1]).add_(1).pow_(3).sum() for part in parts]).sum()


def _within(x: Tensor) -> Tensor:
    """The mean of the kernel over all pairs of two different features."""
    diagonal = (x.square().sum(1) / x.shape[1] + 1).pow(3).sum()
    return (_sum(x, x) - diagonal) / (len(x) * (len(x) - 1))
