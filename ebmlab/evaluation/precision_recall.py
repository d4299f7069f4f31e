"""Precision and recall of samples (Kynkaanniemi et al., 2019, Improved Precision and Recall Metric)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ebmlab.evaluation.two_sets import distances, two_sets
from ebmlab.settings import require_count

CHUNK = 2**22  # distances at a time


class PrecisionRecall(NamedTuple):
    """How much of the samples looks like data, and how much of the data is covered by samples.

    Attributes:
        precision: share of samples that lie among the data.
        recall: share of data that lie among the samples.

    Example:
        >>> PrecisionRecall(precision=1.0, recall=0.5).recall  # samples of one of two modes
        0.5
    """

    precision: float
    recall: float


@torch.no_grad()
def precision_recall(data: Tensor, samples: Tensor, *, neighbours: int = 3) -> PrecisionRecall:
    """Precision and recall, with the support of a law estimated by balls around its states (Eqs. 1 to 3).

    The ball around a state reaches to its k-th nearest neighbour in its own set. A state of the other set lies among
    them if it is in a ball, the border included. Both numbers are near 1 for equal laws, not exactly 1. One outlier in
    either set has a large ball, which may hold much of the other set.

    Distances are Euclidean, in float64, without the products of matrices, whose rounding makes equal distances differ.
    Pictures are better compared by features of a network.

    Args:
        data: `(n, *event)`, n above `neighbours`.
        samples: `(m, *event)`, m above `neighbours`.
        neighbours: k.

    Raises:
        UserError: the sets are too small, differ in shape, or are not finite.

    Example:
        >>> data = torch.cat([torch.randn(100, 2), torch.randn(100, 2) + 50])
        >>> precision_recall(data, data[:100])
        PrecisionRecall(precision=1.0, recall=0.5)
    """
    require_count("precision_recall", neighbours=neighbours)
    x, y = two_sets(data, samples, owner="precision_recall", least=neighbours + 1)
    return PrecisionRecall(precision=_share_inside(y, x, neighbours), recall=_share_inside(x, y, neighbours))


def _share_inside(x: Tensor, centres: Tensor, neighbours: int) -> float:
    """The share of x that lies in a ball around one of the centres."""
    size = max(1, CHUNK // len(centres))
    nearest = [distances(c, centres).topk(neighbours + 1, largest=False) for c in torch.split(centres, size)]
    radii = torch.cat([found.values[:, -1] for found in nearest])
    return sum(int((distances(part, centres) <= radii).any(1).sum()) for part in torch.split(x, size)) / len(x)
