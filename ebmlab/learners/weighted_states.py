"""The training data as one tensor, with their weights."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import pytorch_lightning as pl
import torch
from torch import Tensor

from ebmlab.lightning.run_data import data_of
from ebmlab.numerics.streams import undisturbed


@runtime_checkable
class Weighted(Protocol):
    """Data that know the weights of all samples, such as `datamodules.Alignment`."""

    def weights(self, split: str) -> Tensor:
        """The weights of a split's samples, `(N,)`, with mean 1, in the order of `states`."""


def weighted_states(trainer: pl.Trainer, shape: tuple[int, ...]) -> tuple[Tensor, Tensor | None]:
    """All training states `(N, *shape)`, and their weights `(N,)`; None if all count alike.

    Of weighted data that do not know all weights at once, it takes an epoch of batches.
    """
    data = data_of(trainer)
    if not data.weighted or isinstance(data, Weighted):
        x = data.states("train")
        return x.reshape(len(x), *shape), data.weights("train") if data.weighted and isinstance(
            data, Weighted
        ) else None
    states, each = [], []
    with undisturbed(loader := data.loader("train")):
        for batch in loader:
            states.append(data.convert(batch))
            each.append(data.batch_weights(batch))
    x = torch.cat(states)
    return x.reshape(len(x), *shape), torch.cat([w for w in each if w is not None])
