"""How well an energy tells data of its own law from others.

This module loads torchmetrics: `ebmlab.evaluation` does not import it.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

import torch
from torch import Tensor
from torchmetrics.functional.classification import binary_auroc, binary_average_precision, binary_roc

RECALL = 0.95


@dataclass(frozen=True)
class Detection:
    """Data of the law are the positives, and minus the energy is their score (Liu et al. 2020, Sec. 3.1 and 4.1).

    Attributes:
        auroc: area under the ROC curve: the probability that data of the law have the lower energy; 0.5 by chance.
        aupr: area under the precision-recall curve, as average precision; by chance the share of data of the law.
        fpr95: share of the others that pass at the threshold where 95 % of the data of the law do; 0.95 by chance.
    """

    auroc: float
    aupr: float
    fpr95: float

    def as_dict(self) -> dict[str, float]:
        """The three numbers by name."""
        return asdict(self)


def detection(inside: Tensor, outside: Tensor) -> Detection:
    """Compares energies of data of the law `(N,)` with those of others `(M,)`.

    The scores are ranks: torchmetrics would squash energies by a sigmoid, which makes ties of all that are large.
    All numbers are NaN if an energy is.

    Example:
        >>> detection(inside=torch.tensor([-3.0, -2.0]), outside=torch.tensor([-2.5, 900.0])).auroc
        0.75
    """
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
