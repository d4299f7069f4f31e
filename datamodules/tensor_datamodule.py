"""The base class of data sets in memory: splits, standardisation or binarisation, checks and loaders."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, Self

import pytorch_lightning as pl
import torch
from lightning_utilities.core.apply_func import apply_to_collection
from pytorch_lightning.utilities import rank_zero_info
from torch import Tensor

from ebmlab.data.interface import SPLITS, Data, chosen
from ebmlab.data.preprocessing import LEVELS, Binarize, Preprocessing, moments
from ebmlab.datamodules.tensor_loader import TensorLoader
from ebmlab.domains import Binary, Domain, Real
from ebmlab.errors import UserError
from ebmlab.io.rebuilding import path_of
from ebmlab.numerics.ranks import rank_and_world
from ebmlab.numerics.streams import draw_bits, stream
from ebmlab.settings import require_count

_STAGES: dict[str | None, tuple[str, ...]] = {
    "fit": ("train", "val"),
    "validate": ("val",),
    "test": ("test",),
    "predict": (),
    None: SPLITS,
}


class TensorDataModule(Data, pl.LightningDataModule, ABC):
    """A data set in memory. Its batches are one tensor x, `(B, *event_shape)`, float32, standardised or binary.

    A subclass has `name`, `load`, and for images `mean`, `std` and `max_value`; for other data its `preprocessing`.

    Args:
        event_shape: shape of one sample, images (C, H, W); known before any data are read.
        batch_size: samples per batch and process.
        seed: of the order of the training batches.
        binarize: use 0 and 1 in place of standardised pixels. True: 1 if a pixel in [0, 1] is above 1/2. dynamic: 1
            with the pixel's value as its probability, drawn again for each training batch (see `TensorLoader`). The
            validation and test splits are drawn once, the same in every run and on every rank. Likelihoods can so be
            compared.

    Example:
        >>> class Stripes(TensorDataModule):
        ...     max_value = 1.0
        ...     def load(self, split):
        ...         return torch.eye(4, dtype=torch.uint8).repeat(25, 1), None
        >>> data = Stripes((4,), batch_size=20, seed=0, binarize=True)
        >>> len(data.train_dataloader()), data.states("val").shape
        (5, torch.Size([100, 4]))
    """

    domains: tuple[type[Domain], ...] = (Real,)
    event_shape: tuple[int, ...]
    name = "tensor"
    max_value = LEVELS
    """Integer pixels are divided by this, which gives numbers in [0, 1]."""
    mean: tuple[float, ...] = (0.0,)
    """Mean of the training images, per channel; if it is empty, it is measured on them."""
    std: tuple[float, ...] = (1.0,)

    def __init__(self, event_shape: tuple[int, ...], batch_size: int, *, seed: int, binarize: Binarize = False) -> None:
        super().__init__()
        if binarize not in (False, True, "dynamic"):
            raise UserError(f"{type(self).__name__}: binarize is '{binarize}'; it must be false, true or dynamic")
        self.binarize = binarize
        self.domains = (Binary,) if binarize else (Real,)
        require_count(type(self).__name__, batch_size=batch_size)
        self.event_shape = self.raw_shape = event_shape
        self.batch_size = batch_size
        self.seed = seed
        self.labelled = False  # whether a batch is a pair (x, labels)
        self._splits: dict[str, tuple[Tensor, Tensor | None]] = {}

    @classmethod
    def load_from_checkpoint(cls, checkpoint_path: Any, *args: Any, **kwargs: Any) -> Self:
        """As in Lightning, but the checkpoint chooses neither another class nor a function that makes it.

        A checkpoint of 0.1.0 calls this class `datamodules.X`.
        """
        kwargs = {"_class_path": path_of(cls), "_instantiator": None} | kwargs
        return super().load_from_checkpoint(checkpoint_path, *args, **kwargs)

    @abstractmethod
    def load(self, split: str) -> tuple[Tensor, Tensor | None]:
        """Reads a split: raw data `(N, *event_shape)`, uint8 or float, and labels `(N,)` or None."""

    def moments(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Mean and standard deviation of the training images in [0, 1], per channel."""
        if not self.mean:
            weights = self.weights("train") if self.weighted else None
            self.mean, self.std = moments(self.raw("train"), self.scaling, weights=weights)
        return self.mean, self.std

    def raw(self, split: str) -> Tensor:
        """The split's data as loaded, `(N, *event_shape)`; read and checked on first use.

        With dynamic binarisation, the validation and test splits hold their draws, 0 and the largest raw value.
        """
        return self._split(split)[0]

    def labels(self, split: str) -> Tensor | None:
        """The split's labels `(N,)`, int64, or None."""
        return self._split(split)[1]

    def weights(self, split: str) -> Tensor:
        """How much each sample of the split counts, `(N,)`, float32, with mean 1."""
        return torch.ones(len(self.raw(split)))

    def states(self, split: str, n: int | None = None, seed: int = 0) -> Tensor:
        raw = self.raw(split)
        return self.to_states(raw if n is None else raw[chosen(len(raw), n, seed)])

    @property
    def preprocessing(self) -> Preprocessing:
        if self.binarize:
            return replace(self.scaling, binarize=self.binarize)
        mean, std = self.moments()
        return replace(self.scaling, mean=mean, std=std)

    def adopt(self, saved: Preprocessing) -> None:
        """Takes the checkpoint's mean and standard deviation; everything else must agree."""
        own = self.preprocessing
        if own.shape == saved.shape and not (self.binarize or saved.binarize):
            self.mean, self.std = saved.mean, saved.std
        super().adopt(saved)
        if found := own.difference(saved):
            rank_zero_info(
                f"{self.title}: mean and standard deviation are the checkpoint's, not those of these data: {found}"
            )

    @property
    def scaling(self) -> Preprocessing:
        """How raw data are scaled to [0, 1], before they are standardised or binarised."""
        return Preprocessing(self.event_shape, self.max_value, unit=True)

    def setup(self, stage: str | None = None) -> None:
        """Reads and checks the splits that the stage needs."""
        for split in _STAGES[stage]:
            self._split(split)
        if "train" in _STAGES[stage]:
            self._check_batch_size()

    def train_dataloader(self) -> TensorLoader:
        """Shuffled full batches; in a fixed order where the trainer is asked to overfit a few."""
        shuffle = self.trainer is None or not self.trainer.overfit_batches  # type: ignore[attr-defined]
        return self.make_loader("train", shuffle, drop_last=True)

    def val_dataloader(self) -> TensorLoader:
        """The validation split in order."""
        return self.make_loader("val")

    def test_dataloader(self) -> TensorLoader:
        """The test split in order."""
        return self.make_loader("test")

    def transfer_batch_to_device(self, batch: Any, device: torch.device, dataloader_idx: int) -> Any:
        """Copies a batch to a GPU from page-locked memory; from any other the CPU may wait for what the GPU does."""
        if device.type == "cuda":
            batch = apply_to_collection(batch, Tensor, lambda t: t.pin_memory() if t.device.type == "cpu" else t)
        return super().transfer_batch_to_device(batch, device, dataloader_idx)

    def make_loader(self, split: str, shuffle: bool = False, drop_last: bool = False) -> TensorLoader:
        """Makes the loader of a split; a batch of weighted data is states and weights."""
        raw, labels = self._split(split)
        beside = self.weights(split) if self.weighted else labels if self.labelled else None
        if beside is None:
            return TensorLoader(raw, self.batch_size, shuffle, self.seed, drop_last, self._batch)

        def batch(index: Tensor, generator: torch.Generator) -> Any:
            return self._batch(raw[index], generator), beside[index]

        return TensorLoader(torch.arange(len(raw)), self.batch_size, shuffle, self.seed, drop_last, batch)

    def give_labels(self) -> None:
        if self.num_classes is None:
            raise UserError(f"{type(self).__name__} has no labels: take data of several classes, such as Digits")
        self.labelled = True

    def _split(self, split: str) -> tuple[Tensor, Tensor | None]:
        if split not in SPLITS:
            raise UserError(f"{type(self).__name__}: no split '{split}'; there are {', '.join(SPLITS)}")
        if split not in self._splits:
            data, labels = self.load(split)
            self._check(split, data, labels)
            if self.binarize == "dynamic" and split != "train":
                white = self.scaling.divisor(data)
                drawn = draw_bits(self.scaling.scaled(data), stream("binarize", self.name, split))
                data = (drawn * white).to(data.dtype)
            self._splits[split] = data, labels
        return self._splits[split]

    def _batch(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Raw data as a batch: `to_states`, or draws from the batch's own generator."""
        return draw_bits(self.scaling.scaled(x), generator) if self.binarize == "dynamic" else self.to_states(x)

    def _check(self, split: str, data: Tensor, labels: Tensor | None) -> None:
        where = f"{type(self).__name__}, {split} split"
        if tuple(data.shape[1:]) != self.raw_shape or len(data) == 0:
            shape = ", ".join(["N", *map(str, self.raw_shape)])
            raise UserError(f"{where}: the data have shape {tuple(data.shape)}; it must be ({shape}) with N at least 1")
        if labels is not None and len(labels) != len(data):
            raise UserError(f"{where}: {len(data)} samples but {len(labels)} labels; there must be one each")
        if data.is_floating_point():
            bad = ~torch.isfinite(data).flatten(1).all(1)
            if bad.any():
                count, first = int(bad.sum()), int(bad.nonzero()[0])
                raise UserError(
                    f"{where}: {count} of {len(data)} samples hold NaN or infinity, the first is number {first}, "
                    "counted from 0"
                )

    def num_train_samples(self) -> int:
        """How many samples there are to train on."""
        return len(self.raw("train"))

    def _check_batch_size(self) -> None:
        n, world = self.num_train_samples(), rank_and_world()[1]
        if self.batch_size * world > n:
            times = f" on each of {world} processes" if world > 1 else ""
            raise UserError(
                f"{type(self).__name__}: batch_size {self.batch_size}{times} is more than the {n} training samples; "
                f"it must be at most {n // world}"
            )
