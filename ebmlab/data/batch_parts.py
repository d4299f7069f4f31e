"""The parts of a batch, in any form that loaders give: samples, their weights, their labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from torch import Tensor

from ebmlab.data.numbers import as_numbers
from ebmlab.errors import UserError


def samples_of(batch: Any, where: str, field: str = "x") -> Tensor:
    """The tensor of samples in a batch.

    Args:
        batch: x, (x,), (x, y) or a dictionary in which x has the name `field` or is the only tensor.
        where: the beginning of error messages.
        field: the key of x in a dictionary.

    Raises:
        UserError: the batch has another form.
    """
    if isinstance(batch, Mapping):
        tensors = [name for name, value in batch.items() if isinstance(value, Tensor)]
        if field not in batch and len(tensors) != 1:
            raise UserError(
                f"{where}: a batch is a dictionary of {', '.join(map(str, batch)) or 'nothing'}, and which of them is "
                f'the samples is not clear: call them "{field}", or wrap the data set in datamodules.FromDataset, '
                "which has the option `field`"
            )
        batch = batch[field if field in batch else tensors[0]]
    elif isinstance(batch, list | tuple) and batch:
        return samples_of(batch[0], where, field)
    if not isinstance(batch, Tensor):
        kind = type(batch).__name__
        raise UserError(f"{where}: a batch is of the type {kind}; it must be a tensor x, (x, y) or a dictionary")
    return as_numbers(batch, f"{where}: a batch")


def weights_of(batch: Any, where: str) -> Tensor:
    """The weights in a batch of weighted data.

    Args:
        batch: (x, weights).
        where: the beginning of error messages.

    Raises:
        UserError: the batch has another form, or weights are negative or not finite.
    """
    if not isinstance(batch, list | tuple) or len(batch) != 2 or not all(isinstance(part, Tensor) for part in batch):
        raise UserError(f"{where}: a batch of weighted data must be a pair of tensors (x, weights)")
    x, weights = batch
    if not weights.is_floating_point() or weights.shape != x.shape[:1]:
        raise UserError(
            f"{where}: weights have shape {tuple(weights.shape)} and type {weights.dtype}, but must be floats "
            f"({len(x)},), one for each sample of the batch"
        )
    if not (weights >= 0).all() or weights.isinf().any():
        raise UserError(f"{where}: weights must be finite and at least 0")
    return cast(Tensor, weights)


def labels_of(batch: Any, where: str) -> Tensor:
    """The class numbers in a batch of labelled data, `(B,)`, int64.

    Args:
        batch: (x, y), or a dictionary that calls them "y", "label" or "labels".
        where: the beginning of error messages.

    Raises:
        UserError: the batch holds none.
    """
    if isinstance(batch, Mapping):
        labels = next((batch[name] for name in ("y", "label", "labels") if name in batch), None)
    else:
        labels = batch[1] if isinstance(batch, list | tuple) and len(batch) == 2 else None
    if not isinstance(labels, Tensor) or labels.dim() != 1 or labels.is_floating_point():
        raise UserError(
            f"{where}: a batch holds no labels: it must be (x, y) with whole numbers y from 0 on, one for each sample, "
            'or a dictionary that calls them "y"'
        )
    return labels.long()
