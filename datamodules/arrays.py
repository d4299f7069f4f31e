"""Samples in a file of numbers."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ebmlab.data.columns import check_columns
from ebmlab.data.preprocessing import Binarize, Preprocessing
from ebmlab.data.weighted import with_mean_one
from ebmlab.datamodules.own_data import OwnData
from ebmlab.datamodules.scaling import DomainName, Form, as_images, for_bits
from ebmlab.errors import UserError, few
from ebmlab.exchange.samples import variables
from ebmlab.reading.number_files import FOREIGN, SUFFIXES, read_numbers, require_finite
from ebmlab.reading.tables import read_head
from ebmlab.sequences.weight_file import read_weights


class Arrays(OwnData):
    """Samples in a file: .npy, .npz, .csv (one in each row, with or without names above) or .pt.

    Numbers become states of the domain by one rule (`datamodules.scaling.scaling`). Levels of pixels are divided by
    255, and class numbers become one-hot vectors. Booleans and bits are 0 and 1, or spins if these are asked for. Spins
    become bits if these are.

    Args:
        path: the file with the samples to train on; parts of them validate and test where `val` and `test` name none.
        domain: real, binary, spin, ordinal or categorical; or mixed, a table of real numbers and of classes.
        labels: where the labels are; None if there are none. In a .csv file it is the name or the number of a column,
            in an .npz or .pt file the name of an array. Or it is an .npy file beside the samples.
        field: the name of the samples' array in an .npz or .pt file with several.
        weights_file: a text file with a weight a line, one for each sample of `path`: how much it counts, in training,
            in scores and in the mean and variance that standardise it. Samples of files of their own, `val` and `test`,
            count alike. None counts all alike.
        shape: of one sample, such as [1, 28, 28]. By default that of the file. With domain real and binary, (H, W) and
            (H, W, 1) become (1, H, W), and (H, W, 3) becomes (3, H, W).
        standardize: give real numbers mean 0 and variance 1: in images each channel, in tables each column.
        binarize: make bits of numbers in [0, 1] or of pixels: true or dynamic, see `TensorDataModule`.
        max_value: what all numbers are divided by, in place of the rule.
        num_values: of an ordinal or categorical coordinate; by default as many as the training file shows.
        categories: of a mixed table, the columns that hold classes, by names or numbers. Each column has as many as the
            training file shows, from 0 on. States are those of `Product.of_columns`.
        val: file of the validation samples, laid out like `path`.
        test: file of the test samples, laid out like `path`.
        val_fraction: part of the training samples that validates, where there is no `val`.
        test_fraction: part of the training samples that tests, where there is no `test`.
        split_seed: of the choice of these parts.
        batch_size: samples per batch and process.
        seed: of the order of the training batches.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "bits.npy")
        >>> np.save(path, np.random.default_rng(0).integers(0, 2, (100, 6)))
        >>> data = Arrays(str(path), domain="binary", batch_size=10)
        >>> next(iter(data.train_dataloader())).shape
        torch.Size([10, 6])
    """

    def __init__(
        self,
        path: str,
        domain: DomainName = "real",
        *,
        labels: str | int | None = None,
        field: str = "x",
        weights_file: str | None = None,
        shape: Sequence[int] | None = None,
        standardize: bool = True,
        binarize: Binarize = False,
        max_value: float | None = None,
        num_values: int | None = None,
        categories: Sequence[str | int] = (),
        val: str | None = None,
        test: str | None = None,
        val_fraction: float = 0.1,
        test_fraction: float = 0.1,
        split_seed: int = 0,
        batch_size: int = 100,
        seed: int = 0,
    ) -> None:
        self.save_hyperparameters(logger=False)
        self.files = {"train": path, "val": val, "test": test}
        self._where = labels, field
        if isinstance(labels, str) and Path(path).suffix == Path(labels).suffix == ".npy" and (val or test):
            raise UserError(
                f"Arrays: {labels} has the labels of one file: put samples and labels together in .npz files"
            )
        x, names = self._read(path)
        self._weights = None if weights_file is None else read_weights(weights_file, len(x))
        self.weighted = weights_file is not None
        self._columns = self._names(path)  # checkpoints are still written if the file goes during training
        self._as_found = shape is None
        own = tuple(as_images(x, domain).shape[1:]) if shape is None else tuple(shape)
        if domain == "categorical" and num_values is None:
            num_values = int(x.max()) + 1
        if domain == "ordinal" and num_values is None:
            num_values = max(2, int(x.max()) + 1)
        classes = self._classes(x, categories) if domain == "mixed" else ()
        if categories and domain != "mixed":
            raise UserError(f"Arrays: categories are of mixed tables, but domain is {domain}: set domain to mixed")
        form = Form(domain, standardize, binarize, max_value, num_values, classes)
        if binarize and domain != "binary":
            mend = for_bits(x, form) if domain == "real" else f"set binarize to false, or for bits {for_bits(x, form)}"
            raise UserError(f"Arrays: binarize makes bits, but domain is {domain}: {mend}")
        super().__init__(own, form, val_fraction, test_fraction, split_seed, batch_size, seed)
        self.name = Path(path).stem
        self.classes = None if names is None else np.unique(names)
        self.num_classes = None if self.classes is None else len(self.classes)

    @property
    def preprocessing(self) -> Preprocessing:
        """How raw data become states, and the names of the columns of a table or the variables of a sample set."""
        return replace(super().preprocessing, columns=tuple(self._columns))

    def adopt(self, saved: Preprocessing) -> None:
        """Also refuses a table whose columns are not those of the checkpoint's training data."""
        check_columns(self._columns, saved.columns, f"Arrays: {self.files['train']}")
        super().adopt(saved)

    def count(self, split: str) -> int | None:
        path = self.files[split]
        return None if path is None else len(self._read(path)[0])

    def weights(self, split: str) -> Tensor:
        own, index = self.part(split)
        if self._weights is None or own != "train":
            return super().weights(split)
        return with_mean_one(self._weights[index], f"Arrays, {split} split")

    def take(self, split: str, index: Tensor) -> tuple[Tensor, Tensor | None]:
        path = self.files[split]
        assert path is not None
        x, names = self._read(path, self._columns)
        if Path(path).suffix.lower() not in FOREIGN:  # variables of those have been put in order
            check_columns(self._names(path), self._columns, f"Arrays: {path}")
        if self._as_found:
            x = as_images(x, self.form.domain)
        if x[:1].numel() != math.prod(self.raw_shape):
            raise UserError(
                f"Arrays: the samples of {path} have shape {tuple(x.shape[1:])}, which cannot be {self.raw_shape}"
            )
        samples = x[index].reshape(-1, *self.raw_shape)
        if names is None or self.classes is None:
            return samples, None
        if unknown := set(names.tolist()) - set(self.classes.tolist()):
            raise UserError(f"Arrays: {path} has the label {min(unknown)}, which {self.files['train']} lacks")
        return samples, torch.from_numpy(np.searchsorted(self.classes, names[index.numpy()])).long()

    def _classes(self, x: Tensor, categories: Sequence[str | int]) -> tuple[int, ...]:
        """How many classes each column of a mixed table has; 0 for real numbers."""
        path = self.files["train"]
        if x.dim() != 2:
            raise UserError(f"Arrays: {path} has samples of shape {tuple(x.shape[1:])}, but a mixed table has rows")
        numbers = [str(i) for i in range(x.shape[1])]
        classes = [0] * x.shape[1]
        for name in map(str, categories):
            places = self._columns if name in self._columns else numbers
            if name not in places:
                raise UserError(f"Arrays: {path} has no column {name}; it has {few(self._columns or numbers, 10)}")
            column = x[:, place := places.index(name)].double()
            if not ((column == column.round()) & (column >= 0)).all():
                raise UserError(f"Arrays: column {name} of {path} must hold classes, whole numbers from 0 on")
            classes[place] = max(2, int(column.max()) + 1)
        return tuple(classes)

    def _names(self, name: str) -> Sequence[str]:
        path = Path(name).expanduser()
        if path.suffix.lower() in FOREIGN:
            return variables(path)
        return read_head(path, self._where[0]).names if path.suffix.lower() == ".csv" else ()

    def _read(self, name: str, columns: Sequence[str] = ()) -> tuple[Tensor, np.ndarray | None]:
        path = Path(name).expanduser()
        if not path.is_file():
            raise UserError(f"Arrays: there is no file {path}")
        if path.suffix.lower() not in SUFFIXES:
            mend = "call a table of text .csv, and save other numbers as .npy"
            raise UserError(f"Arrays: {path} is none of {', '.join(SUFFIXES)}: {mend}")
        return _numbers(path, path.stat().st_mtime_ns, *self._where, tuple(columns))


@functools.lru_cache(maxsize=4)  # the command line makes a datamodule more than once
def _numbers(
    path: Path, changed: int, labels: str | int | None, field: str, columns: tuple[str, ...]
) -> tuple[Tensor, np.ndarray | None]:
    x, names = read_numbers(path, labels, field, columns)
    require_finite(x, path, labels)
    return x, names
