"""The Frechet distance between sets of features (Heusel et al., 2017, GANs Trained by a Two Time-Scale Update Rule)."""

from __future__ import annotations

import torch
from torch import Tensor

from ebmlab.errors import UserError


def frechet_distance(x: Tensor, y: Tensor) -> Tensor:
    """|m_x - m_y|^2 + tr(C_x + C_y - 2 (C_x C_y)^(1/2)) of features `(N, F)` and `(M, F)`; a scalar, float64.

    The trace of (C_x C_y)^(1/2) is the sum of the singular values of C_x^(1/2) C_y^(1/2). Unlike the eigenvalues of
    C_x C_y, these stay real under rounding. The function is the reference for `metrics.FrechetDistance`, whose memory
    does not grow with the number of samples.

    Raises:
        UserError: a set has fewer than 2 features, and so no covariance, or the sets do not fit each other.

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
    x, y = x.double(), y.double()
    root_x, root_y = _centred_root(x), _centred_root(y)
    trace = root_x.square().sum() + root_y.square().sum() - 2 * torch.linalg.svdvals(root_x @ root_y.T).sum()
    distance: Tensor = (x.mean(0) - y.mean(0)).square().sum() + trace
    return distance


def _centred_root(x: Tensor) -> Tensor:
    """A matrix R such that R'R is the covariance of x."""
    r: Tensor = torch.linalg.qr(x - x.mean(0), mode="r").R
    root: Tensor = r / (len(x) - 1) ** 0.5
    return root
