"""Two sets of states that are to be compared, brought into one form."""

from __future__ import annotations

import torch
from torch import Tensor

from ebmlab.errors import UserError


def two_sets(x: Tensor, y: Tensor, *, owner: str, least: int = 1) -> tuple[Tensor, Tensor]:
    """Both sets flattened, in float64, with the mean of y at 0: `(n, d)` and `(m, d)`.

    What is compared does not change if both sets are moved. Without the move, an offset that is large beside the spread
    would cost digits in every product of matrices.

    Args:
        x: states, `(n, *event)`.
        y: states, `(m, *event)`.
        owner: compares them.
        least: the smallest number of states in a set.

    Raises:
        UserError: the sets are too small, differ in shape, or hold NaN or infinite values.
    """
    if x.dim() < 2 or y.dim() < 2 or x.shape[1:] != y.shape[1:] or x[:1].numel() == 0 or min(len(x), len(y)) < least:
        raise UserError(
            f"{owner} compares two sets (n, *event) of {least} or more states of the same shape, got "
            f"{tuple(x.shape)} and {tuple(y.shape)}"
        )
    x, y = (s.detach().flatten(1).double() for s in (x, y))
    for name, states in (("first", x), ("second", y)):
        if (bad := ~states.isfinite().all(1)).any():
            raise UserError(
                f"{owner}: {int(bad.sum())} of {len(states)} states of the {name} set are not finite (NaN or "
                f"infinite), the first is number {int(bad.nonzero()[0])}, counted from 0"
            )
    centre = y.mean(0)
    return x - centre, y - centre


def distances(x: Tensor, y: Tensor) -> Tensor:
    """Euclidean distances of states `(n, d)` and `(m, d)`, `(n, m)`; equal ones come out equal.

    Products of matrices would be faster, but round them apart.
    """
    return torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist")
