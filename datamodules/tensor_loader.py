"""Batches of a tensor in memory: a DataLoader without workers that can resume within an epoch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from ebmlab.numerics.ranks import rank_and_world
from ebmlab.numerics.streams import stream


class TensorLoader:
    """Iterates over `data` in batches `(batch_size, *shape)`.

    Order. The permutation of an epoch depends on `seed` and the epoch alone, and is the same on every rank. The global
    generator is not used.

    Draws. `transform` gets a generator with each batch. It differs between epochs, ranks and batches, and depends on
    `seed`, the epoch, the batch's number and the rank alone.

    Ranks. `batch_size` is per rank. Rank r takes the entries r, r + world, ... of the epoch's order. The i-th batches
    of all ranks together are so the i-th batch of one process with `world * batch_size`. Every rank gets the same
    number of batches of the same sizes. To this end, a pass without `drop_last` leaves out the last N mod world samples
    (none in a single process).

    Resuming. Lightning saves `state_dict()` with its checkpoints and calls `load_state_dict`, then `iter`, then
    `sampler.set_epoch`, in that order. The start of a pass is therefore determined when its first batch is requested.

    Args:
        data: `(N, *shape)`, any dtype.
        batch_size: samples per batch and rank.
        shuffle: a new order each epoch; else the order of `data`.
        seed: of the orders, and of the generators for `transform`.
        drop_last: leave out the last, smaller batch.
        transform: applied to each batch, with the batch's own generator.
    """

    batch_sampler = None  # Lightning reads this attribute if there is a `sampler`

    def __init__(
        self,
        data: Tensor,
        batch_size: int,
        shuffle: bool = False,
        seed: int = 0,
        drop_last: bool = False,
        transform: Callable[[Tensor, torch.Generator], Tensor] | None = None,
    ) -> None:
        self.data = data
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.seed = seed
        self.drop_last = drop_last
        self.transform = transform
        self.epoch = 0
        self._yielded = 0  # batches of this epoch, for the checkpoint
        self._start = 0  # the batch at which the next pass starts: 0, or that of a checkpoint

    @property
    def sampler(self) -> TensorLoader:
        """The object on which Lightning calls `set_epoch`."""
        return self

    def set_epoch(self, epoch: int) -> None:
        """Chooses the order of the next pass. A position loaded from a checkpoint holds for its own epoch only."""
        if epoch != self.epoch:
            self.epoch, self._yielded, self._start = epoch, 0, 0

    def state_dict(self) -> dict[str, int]:
        """The epoch and the number of its batches that have been yielded."""
        return {"epoch": self.epoch, "batches": self._yielded}

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        """Makes the next pass begin at the saved position."""
        self.epoch = state_dict["epoch"]
        self._yielded = self._start = state_dict["batches"]

    def __len__(self) -> int:
        per_rank = len(self.data) // rank_and_world()[1]
        return per_rank // self.batch_size if self.drop_last else math.ceil(per_rank / self.batch_size)

    def __iter__(self) -> Iterator[Tensor]:
        start, self._start = self._start, 0
        order, key = self._order(), ("batch", self.seed, self.epoch, rank_and_world()[0])
        batches = [order[i * self.batch_size : (i + 1) * self.batch_size] for i in range(start, len(self))]
        for batch, x in enumerate(self._read(batches), start):
            self._yielded = batch + 1
            yield x if self.transform is None else self.transform(x, stream(*key, batch))

    def _read(self, batches: list[Tensor]) -> Iterator[Tensor]:
        """The samples with the indices in each batch."""
        for indices in batches:
            yield self.data.index_select(0, indices)

    def _order(self) -> Tensor:
        """This rank's indices of the epoch, `(N // world,)`."""
        n, epoch = len(self.data), stream("shuffle", self.seed, self.epoch)
        order = torch.randperm(n, generator=epoch) if self.shuffle else torch.arange(n)
        rank, world = rank_and_world()
        return order[rank : n - n % world : world]
