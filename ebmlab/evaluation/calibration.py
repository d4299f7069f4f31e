"""The expected calibration error of a classifier (Guo et al., 2017, On Calibration of Modern Neural Networks)."""

from __future__ import annotations

import torch
from torch import Tensor

from ebmlab.errors import UserError
from ebmlab.settings import require_count


@torch.no_grad()
def calibration_error(probabilities: Tensor, labels: Tensor, *, num_bins: int = 15) -> Tensor:
    """The mean distance of confidence from accuracy, over bins of equal width of the confidence (Eq. 3).

    The confidence is the largest probability, and the accuracy the share of right classes in a bin. A confidence on
    the border of two bins counts in the upper one. Few samples a bin make the error larger than it is.

    Args:
        probabilities: p(y | x), `(n, num_classes)`.
        labels: right classes, `(n,)`.
        num_bins: number of bins.

    Returns:
        A scalar from 0 to 1, float64.

    Raises:
        UserError: shapes do not fit, or the rows are no probabilities.

    Example:
        >>> calibration_error(torch.tensor([[0.75, 0.25], [0.75, 0.25]]), torch.tensor([0, 1])).item()
        0.25
    """
    if probabilities.dim() != 2 or labels.shape != probabilities.shape[:1] or probabilities.numel() == 0:
        raise UserError(
            "calibration_error needs probabilities (n, num_classes) and labels (n,), got "
            f"{tuple(probabilities.shape)} and {tuple(labels.shape)}"
        )
    probabilities = probabilities.double()
    if not ((probabilities >= 0).all() and ((probabilities.sum(1) - 1).abs() <= 1e-2).all()):  # NaN is refused too
        raise UserError("calibration_error: rows of probabilities must be at least 0 and sum to 1: softmax the logits")
    require_count("calibration_error", num_bins=num_bins)
    confidence, predicted = probabilities.max(1)
    bins = (confidence * num_bins).long().clamp(max=num_bins - 1)
    gaps = confidence - (predicted == labels).double()
    return gaps.new_zeros(num_bins).index_add(0, bins, gaps).abs().sum() / len(labels)
