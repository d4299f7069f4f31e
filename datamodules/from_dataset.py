"""Any data set of PyTorch's kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from PIL import Image
from pytorch_lightning.utilities import rank_zero_warn
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset

from ebmlab.data.interface import chosen
from ebmlab.data.numbers import as_numbers
from ebmlab.data.preprocessing import Binarize
from ebmlab.datamodules.own_data import OwnData
from ebmlab.datamodules.scaling import DomainName, Form, as_images, scaling
from ebmlab.datamodules.stream_loader import StreamLoader
from ebmlab.datamodules.tensor_datamodule import TensorDataModule
from ebmlab.datamodules.tensor_loader import TensorLoader
from ebmlab.errors import WHY, UserError, explained
from ebmlab.numerics.streams import own_numbers
from ebmlab.reading.pictures import pixels_of

LOOKED_AT = 32  # samples that tell whether the data set draws at random
MEASURED = 10_000  # samples of a streamed data set that tell its scale and its moments


class FromDataset(OwnData):
    """Any `torch.utils.data.Dataset`, such as torchvision's: read into memory, or streamed by workers.

    An item of the data set is a sample x, (x, label) or a dictionary with x under `field`. A sample is a tensor, an
    array, a picture, a number or a list of numbers. `Arrays` says what becomes of the numbers.

    In memory, what the data set draws at random, such as crops, is drawn once, and a warning says so. Streamed, it is
    drawn anew in each epoch.

    Streamed, the scale and the moments are those of 10,000 training samples. The order of the batches is the same as in
    memory, and a run that is resumed goes on within the epoch. Only what the data set itself draws, such as crops, is
    then drawn anew.

    Args:
        train: what to train on; parts of it validate and test where `val` and `test` are None.
        val: what to validate on.
        test: what to test on.
        field: the name of x in items that are dictionaries.
        domain: real, binary, spin, ordinal or categorical (which needs `num_values`).
        standardize: give real numbers mean 0 and variance 1: in images each channel, else each entry of the first axis.
        binarize: make bits of numbers in [0, 1] or of pixels: true or dynamic, see `TensorDataModule`.
        max_value: what all numbers are divided by, in place of the rule.
        num_values: of an ordinal or categorical coordinate.
        streamed: read a batch when it is needed, in place of all data before training.
        num_workers: processes that read.
        val_fraction: part of the training samples that validates, where there is no `val`.
        test_fraction: part of the training samples that tests, where there is no `test`.
        split_seed: of the choice of these parts.
        batch_size: samples per batch and process.
        seed: of the order of the training batches.

    Example:
        >>> from torch.utils.data import TensorDataset
        >>> data = FromDataset(TensorDataset(torch.randn(50, 3), torch.arange(50) % 2), batch_size=10)
        >>> next(iter(data.train_dataloader())).shape
        torch.Size([10, 3])
    """

    def __init__(
        self,
        train: Dataset,  # type: ignore[type-arg]  # the command line does not look into Dataset[Any]
        val: Dataset | None = None,  # type: ignore[type-arg]
        *,
        test: Dataset | None = None,  # type: ignore[type-arg]
        field: str = "x",
        domain: DomainName = "real",
        standardize: bool = True,
        binarize: Binarize = False,
        max_value: float | None = None,
        num_values: int | None = None,
        streamed: bool = False,
        num_workers: int = 0,
        val_fraction: float = 0.1,
        test_fraction: float = 0.1,
        split_seed: int = 0,
        batch_size: int = 100,
        seed: int = 0,
    ) -> None:
        self.save_hyperparameters(ignore=["train", "val", "test"], logger=False)
        if domain == "categorical" and num_values is None:
            raise UserError("FromDataset: domain categorical needs num_values, the number of classes")
        self.datasets: dict[str, Any] = {"train": train, "val": val, "test": test}
        for split, dataset in self.datasets.items():
            if isinstance(dataset, IterableDataset):
                if streamed:
                    raise UserError(
                        f"FromDataset: {split} is an IterableDataset, whose order only it knows: set streamed to "
                        "false, or give the trainer a DataLoader of your own"
                    )
                self.datasets[split] = list(dataset)
            if dataset is not None and not hasattr(self.datasets[split], "__len__"):
                raise UserError(f"FromDataset: {split} has no length: give {type(dataset).__name__} a __len__")
            if dataset is not None and len(self.datasets[split]) == 0:
                raise UserError(f"FromDataset: {split} is empty; it must have at least one sample")
        if streamed and binarize == "dynamic":
            raise UserError("FromDataset: binarize dynamic draws from data in memory: set streamed to false")
        self.field = field
        self.streamed = streamed
        self.num_workers = num_workers
        self.domain = domain
        with own_numbers(split_seed):
            shape = tuple(self._sample(self.datasets["train"][0]).shape) or (1,)
        form = Form(domain, standardize, binarize, max_value, num_values)
        super().__init__(shape, form, val_fraction, test_fraction, split_seed, batch_size, seed)
        self.name = type(train).__name__.lower()
        self._measured: Tensor | None = None

    @property
    def num_classes(self) -> int | None:  # type: ignore[override]
        """Of the labels that come with the items, if they are whole numbers and in memory."""
        labels = None if self.streamed else self.labels("train")
        return None if labels is None else int(labels.max()) + 1

    def count(self, split: str) -> int | None:
        return None if self.datasets[split] is None else len(self.datasets[split])

    def take(self, split: str, index: Tensor) -> tuple[Tensor, Tensor | None]:
        subset = Subset(self.datasets[split], index.tolist())
        with own_numbers(self.split_seed) as generator:  # what the data set draws is the same in every run
            collate, workers = self._collate_labelled, self.num_workers
            parts = list(DataLoader(subset, 1000, num_workers=workers, collate_fn=collate, generator=generator))
        labels = [y for _, y in parts if y is not None]
        return torch.cat([x for x, _ in parts]), torch.cat(labels) if len(labels) == len(parts) else None

    def sample(self) -> Tensor:
        if not self.streamed:
            return self.raw("train")
        if self._measured is None:
            place, index = self.part("train")
            self._measured = self.take(place, index[chosen(len(index), MEASURED, self.split_seed).sort().values])[0]
            self._check("train", self._measured, None)
        return self._measured

    def states(self, split: str, n: int | None = None, seed: int = 0) -> Tensor:
        if not self.streamed:
            return super().states(split, n, seed)
        place, index = self.part(split)
        x = self.take(place, index if n is None else index[chosen(len(index), n, seed)])[0]
        return self.to_states(self._checked(split, x))

    def setup(self, stage: str | None = None) -> None:
        """Reads and checks what the stage needs."""
        if not self.streamed:
            super().setup(stage)
            if stage == "fit":
                self._warn_of_draws()
        elif stage == "fit":
            self._check_batch_size()
            self.announce()

    def make_loader(self, split: str, shuffle: bool = False, drop_last: bool = False) -> TensorLoader:
        if not self.streamed:
            return super().make_loader(split, shuffle, drop_last)
        place, index = self.part(split)
        subset = Subset(self.datasets[place], index.tolist())
        collate, workers = self._collate, self.num_workers

        def convert(x: Tensor, generator: torch.Generator) -> Tensor:
            return self._batch(self._checked(split, x), generator)

        return StreamLoader(subset, self.batch_size, collate, workers, shuffle, self.seed, drop_last, convert)

    def _checked(self, split: str, x: Tensor) -> Tensor:
        """Streamed samples, after a look whether they are what those that were measured are."""
        TensorDataModule._check(self, split, x, None)  # their shape, and that they are finite
        where, low, high = f"{self.title}, {split} split", float(x.min()), float(x.max())
        white = self.scaling.divisor(x)
        if self.form.domain != "real" and not self.form.binarize:
            scaling(x, self._measured_form, where)
        elif self.form.binarize and not 0 <= low <= high <= white:
            raise UserError(
                f"{where}: the values lie between {low:.6g} and {high:.6g}, but what becomes bits must lie between 0 "
                f"and {white:g}"
            )
        return x

    def _warn_of_draws(self) -> None:
        """Warns if the data set draws at random, such as crops, for in memory it does so only once."""
        place, index = self.part("train")
        with own_numbers(self.split_seed + 1):
            again = self._collate([self.datasets[place][i] for i in index[:LOOKED_AT].tolist()])
        if not torch.equal(again, self.raw("train")[:LOOKED_AT]):
            rank_zero_warn(
                "FromDataset: the training items differ from one reading to the next, as random transforms make them; "
                "in memory each is drawn once: set streamed to true to draw them anew in each epoch"
            )

    def _collate(self, items: list[Any]) -> Tensor:
        return self._collate_labelled(items)[0]

    def _collate_labelled(self, items: list[Any]) -> tuple[Tensor, Tensor | None]:
        """Samples `(B, *shape)` of a list of items, and labels `(B,)` if all of them have a whole number as theirs."""
        samples = [self._sample(item) for item in items]
        shapes = {tuple(sample.shape) for sample in samples}
        if len(shapes) > 1:
            raise UserError(
                f"FromDataset: samples have different shapes, {' and '.join(map(str, sorted(shapes)[:2]))}: give the "
                "data set a transform that makes them alike"
            )
        labels = [_label(item) for item in items]
        known = [label for label in labels if label is not None]
        x = torch.stack(samples)
        return x.view(len(x), *(x.shape[1:] or (1,))), torch.tensor(known) if len(known) == len(labels) else None

    def _sample(self, item: Any) -> Tensor:
        """The sample in an item."""
        if isinstance(item, tuple) or (isinstance(item, list) and not all(isinstance(n, int | float) for n in item)):
            item = item[0] if item else None
        if isinstance(item, dict):
            if self.field not in item:
                raise UserError(
                    f"FromDataset: an item has no {self.field}, but {', '.join(map(str, item))}: set `field` to one of "
                    "them"
                )
            item = item[self.field]
        if isinstance(item, Image.Image):
            x = pixels_of(item)
        else:
            with explained(
                f"FromDataset: a sample is of the type {type(item).__name__}; it must be a tensor, an array, a "
                f"picture, a number or a list of numbers ({WHY})",
                UserError,
            ):
                x = as_numbers(item, "a sample")
        return as_images(x[None], self.domain)[0]


def _label(item: Any) -> int | None:
    """The label in an item (x, label), if it is a whole number."""
    if not isinstance(item, list | tuple) or len(item) != 2:
        return None
    label = item[1]
    if isinstance(label, np.generic) or (isinstance(label, Tensor) and label.numel() == 1):
        label = label.item()
    return label if isinstance(label, int) and not isinstance(label, bool) and label >= 0 else None
