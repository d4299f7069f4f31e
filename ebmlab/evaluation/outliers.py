"""Detection of outliers: how well an energy separates data of its own law from other data."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from ebmlab.errors import UserError

RECALL = 0.95


@dataclass(frozen=True)
class Detection:
    """Scores of a detector whose positives are data of the law, scored by minus E (Liu et al. 2020, Sec. 3.1 and 4.1).

    Attributes:
        auroc: area under the ROC curve: the probability that data of the law have the lower energy; 0.5 by chance.
        aupr: area under the precision-recall curve, as average precision; by chance the share of data of the law.
        fpr95: share of the other data that pass the threshold which 95 % of the data of the law pass; 0.95 by chance.
    """

    auroc: float
    aupr: float
    fpr95: float

    def as_dict(self) -> dict[str, float]:
        """The three numbers by name."""
        return asdict(self)


def detection(inside: Tensor, outside: Tensor) -> Detection:
    """Compares energies of data of the law `(N,)` with those of other data `(M,)`.

    The scores are ranks, since torchmetrics applies a sigmoid, under which all large energies become equal. All numbers
    are NaN if an energy is.

    Raises:
        UserError: there are no energies of one kind.
    """
    if min(inside.numel(), outside.numel()) == 0:
        raise UserError(
            f"detection compares energies of two sets, but there are {inside.numel()} of data of the law and "
            f"{outside.numel()} of other data"
        )
    from torchmetrics.functional.classification import (  # here, because it loads torchvision
        binary_auroc,
        binary_average_precision,
        binary_roc,
    )

    energies = torch.cat([inside, outside])
    if energies.isnan().any():
        return Detection(math.nan, math.nan, math.nan)
    ranks = torch.unique(energies, return_inverse=True)[1]
    scores = 1 - (ranks + 1) / (len(energies) + 1)  # within (0, 1)
    law = torch.cat([torch.ones_like(inside), torch.zeros_like(outside)]).long()
    false, true, _ = binary_roc(scores, law)
    return Detection(
        float(binary_auroc(scores, law)),
        float(binary_average_precision(scores, law)),
        float(false[true >= RECALL].min()),
    )
