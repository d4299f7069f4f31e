"""Batches of a data set that is read while it is used."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from ebmlab.datamodules.tensor_loader import TensorLoader
from ebmlab.numerics.streams import stream


class StreamLoader(TensorLoader):
    """A `TensorLoader` over a data set in place of a tensor: the same order, shares of ranks and resuming.

    Args:
        data: a map-style data set, `len(data)` items.
        batch_size: samples per batch and rank.
        collate: makes a batch `(B, *shape)` of a list of items.
        num_workers: processes that read.
        shuffle: give a new order in each epoch.
        seed: of the orders, and of what the data set draws at random.
        drop_last: leave out the last, smaller batch.
        transform: as for `TensorLoader`.
    """

    def __init__(
        self,
        data: Any,
        batch_size: int,
        collate: Callable[[list[Any]], Tensor],
        num_workers: int = 0,
        shuffle: bool = False,
        seed: int = 0,
        drop_last: bool = False,
        transform: Callable[[Tensor, torch.Generator], Tensor] | None = None,
    ) -> None:
        super().__init__(data, batch_size, shuffle, seed, drop_last, transform)
        self.collate = collate
        self.num_workers = num_workers

    def _read(self, batches: list[Tensor]) -> Iterator[Tensor]:
        generator = stream("workers", self.seed, self.epoch)
        yield from DataLoader(
            self.data,  # type: ignore[arg-type]
            batch_sampler=[indices.tolist() for indices in batches],
            num_workers=self.num_workers,
            collate_fn=self.collate,
            generator=generator,
        )
