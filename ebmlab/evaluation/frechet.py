"""The Frechet distance between sets of features (Heusel et al., 2017, GANs Trained by a Two Time-Scale Update Rule)."""

from __future__ import annotations

import torch
from torch import Tensor

from ebmlab.errors import UserError


def frechet_distance(x: Tensor, y: Tensor) -> Tensor:
    """|m_x - m_y|^2 + tr(C_x + C_y - 2 (C_x C_y)^(1/2)) of features `(N, F)` and `(M, F)`; a scalar, float64.

    The trace of (C_x C_y)^(1/2) is the sum of the singular values of C_x^(1/2) C_y^(1/2). Unlike the eigenvalues of
    C_x C_y, these stay real under rounding. `metrics.FrechetDistance` keeps moments of the features, not the features.

    Raises:
        UserError: a set has fewer than 2 features, and so no covariance, or NaN, or the sets do not fit each other.

    Example:
        >>> x = torch.randn(100, 3)
        >>> round(frechet_distance(x, x + 2.0).item(), 4)  # the means differ by 2 in each feature
        12.0
    """
    if x.dim() != 2 or y.dim() != 2 or x.shape[1] != y.shape[1] or min(len(x), len(y)) < 2:
        raise UserError(
            "frechet_distance compares two sets of 2 or more features (N, F) of the same length, got "
            f"{tuple(x.shape)} and {tuple(y.shape)}"
        )
    _check_finite(x, y)
    x, y = x.double(), y.double()
    return _distance(x.mean(0), _centred_root(x), y.mean(0), _centred_root(y))


def moments(x: Tensor) -> Tensor:
    """The number, sums and second moments of features `(N, F)`: the products of (1, x), `(1 + F, 1 + F)`, float64."""
    with_one = torch.cat([x.new_ones(len(x), 1), x], 1).double()
    return with_one.T @ with_one


def distance_of_moments(x: Tensor, y: Tensor) -> Tensor:
    """`frechet_distance` of two sets by their `moments`, a scalar, float64.

    Raises:
        UserError: a set has fewer than 2 features, or NaN or infinity among them.

    Example:
        >>> x = torch.randn(100, 3)
        >>> round(distance_of_moments(moments(x), moments(x + 2.0)).item(), 4)
        12.0
    """
    if min(float(x[0, 0]), float(y[0, 0])) < 2:
        raise UserError(
            f"the Frechet distance compares two sets of 2 or more features, got {x[0, 0]:.0f} and {y[0, 0]:.0f}"
        )
    _check_finite(x, y)
    return _distance(*_mean_and_root(x), *_mean_and_root(y))


def _check_finite(x: Tensor, y: Tensor) -> None:
    if not (bool(x.isfinite().all()) and bool(y.isfinite().all())):
        raise UserError("the Frechet distance: the features hold NaN or infinity, but must be finite")


def _distance(mean_x: Tensor, root_x: Tensor, mean_y: Tensor, root_y: Tensor) -> Tensor:
    trace = root_x.square().sum() + root_y.square().sum() - 2 * torch.linalg.svdvals(root_x @ root_y.T).sum()
    distance: Tensor = (mean_x - mean_y).square().sum() + trace
    return distance


def _centred_root(x: Tensor) -> Tensor:
    """A matrix R such that R'R is the covariance of x."""
    r: Tensor = torch.linalg.qr(x - x.mean(0), mode="r").R
    root: Tensor = r / (len(x) - 1) ** 0.5
    return root


def _mean_and_root(moments: Tensor) -> tuple[Tensor, Tensor]:
    """The mean, and a matrix R such that R'R is the covariance, whose eigenvalues below 0 are rounding."""
    n, mean = moments[0, 0], moments[0, 1:] / moments[0, 0]
    values, vectors = torch.linalg.eigh((moments[1:, 1:] - n * torch.outer(mean, mean)) / (n - 1))
    return mean, values.clamp(min=0).sqrt()[:, None] * vectors.T
