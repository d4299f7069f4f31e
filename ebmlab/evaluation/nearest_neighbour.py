"""Whether samples can be told from data by their nearest neighbours (Yale et al. 2020)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ebmlab.errors import UserError
from ebmlab.evaluation.two_sets import distances

CHUNK = 500  # states whose distances to all others are computed at once


@dataclass(frozen=True)
class AdversarialAccuracy:
    """How often the nearest neighbour of a state is of its own kind, data or sample.

    For n data and n samples of one law both are (n - 1) / (2 n - 1) on average, close to 1/2. Near 1 the two sets lie
    apart. Near 0 each sample copies a datum. The mean of the two may be close to 1/2 where both are far from it.

    | samples | `data` | `samples` |
    |---|---|---|
    | lack one of two equal modes | 0.67 | 0.67 |
    | lack nine of ten | 0.91 | 0.91 |
    | spread too widely, in many dimensions | near 1 | near 0 |
    | spread too narrowly, in many dimensions | near 0 | near 1 |

    Attributes:
        data: the share of data whose nearest neighbour is another datum.
        samples: the share of samples whose nearest neighbour is another sample.

    Example:
        >>> AdversarialAccuracy(data=0.8, samples=0.6).mean
        0.7
    """

    data: float
    samples: float

    @property
    def mean(self) -> float:
        """The nearest-neighbour adversarial accuracy."""
        return (self.data + self.samples) / 2

    @property
    def larger(self) -> float:
        """The larger share, which is near 1/2 only if neither set is told from the other."""
        return max(self.data, self.samples)


@torch.no_grad()
def adversarial_accuracy(data: Tensor, samples: Tensor) -> AdversarialAccuracy:
    """The nearest-neighbour adversarial accuracy of two sets, under the Euclidean distance.

    Several neighbours may be equally near, as states of bits often are. Then the share of them that are of its own kind
    counts for a state.

    Args:
        data: `(n, *event)`, n at least 2.
        samples: `(n, *event)`.

    Raises:
        UserError: the sets are too small or differ in shape.

    Example:
        >>> x = torch.eye(4)
        >>> adversarial_accuracy(x, x), adversarial_accuracy(x, x + 9).mean
        (AdversarialAccuracy(data=0.0, samples=0.0), 1.0)
    """
    if data.shape != samples.shape or len(data) < 2:
        raise UserError(
            f"adversarial_accuracy compares two sets of the same shape with 2 or more states, got {tuple(data.shape)} "
            f"and {tuple(samples.shape)}"
        )
    exact = torch.promote_types(data.dtype, samples.dtype) in (torch.float64, torch.int64, torch.int32)
    x, y = (s.flatten(1).double() if exact else s.flatten(1).float() for s in (data, samples))
    return AdversarialAccuracy(_share_of_own(x, y), _share_of_own(y, x))


def _share_of_own(own: Tensor, other: Tensor) -> float:
    total = 0.0
    for first in range(0, len(own), CHUNK):
        part = own[first : first + CHUNK]
        to_own, to_other = distances(part, own), distances(part, other)
        to_own.diagonal(first).fill_(torch.inf)  # a state is no neighbour of its own
        nearest = torch.minimum(to_own.amin(1), to_other.amin(1)).unsqueeze(1)
        near_own, near_other = (to_own == nearest).sum(1), (to_other == nearest).sum(1)
        total += float((near_own / (near_own + near_other)).sum())
    return total / len(own)
