"""What a user's own data share: domains, one rule for scaling, splits by fractions."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal

import torch
from pytorch_lightning.utilities import rank_zero_info
from torch import Tensor

from datamodules.tensor_datamodule import TensorDataModule
from ebmlab.data import SPLITS
from ebmlab.domains import Binary, Categorical, Domain, Ordinal, Real, Spin
from ebmlab.errors import UserError
from ebmlab.preprocessing import LEVELS, Binarize, Preprocessing, are_levels, moments
from ebmlab.streams import stream

DomainName = Literal["real", "binary", "spin", "ordinal", "categorical"]
DOMAINS: dict[str, type[Domain]] = {
    "real": Real,
    "binary": Binary,
    "spin": Spin,
    "ordinal": Ordinal,
    "categorical": Categorical,
}


@dataclass(frozen=True)
class Form:
    """What a user says of the numbers in the data.

    Attributes:
        domain: of the states.
        standardize: give real numbers mean 0 and variance 1 over the training samples, in images by channel, else by
            entry of the first axis, such as the columns of a table.
        binarize: make bits of numbers in [0, 1]; see `TensorDataModule`.
        max_value: what all numbers are divided by, in place of the rule of `scaling`.
        num_values: of an ordinal or categorical coordinate; by default as many as the training samples show.

    Example:
        >>> Form("binary", binarize=True).max_value is None
        True
    """

    domain: DomainName = "real"
    standardize: bool = True
    binarize: Binarize = False
    max_value: float | None = None
    num_values: int | None = None


def scaling(x: Tensor, form: Form, title: str) -> Preprocessing:
    """Finds how raw training data become states, but for standardisation and binarisation.

    One rule says what numbers are divided by. It holds for images, for uint8 of any shape and for what is binarised:
    whole numbers from 0 to 255, of which one is above 1, are levels of pixels and are divided by 255. All other numbers
    stay what they are.

    Args:
        x: `(N, *shape)`, finite.
        form: what the user says of the numbers.
        title: stands at the beginning of errors.

    Raises:
        UserError: the numbers are not what the form says.

    Example:
        >>> pixels = torch.randint(256, (9, 1, 4, 4), dtype=torch.uint8)
        >>> scaling(pixels, Form("real"), "mine").scale
        255.0
    """
    shape, low, high = tuple(x.shape[1:]), float(x.min()), float(x.max())
    found = f"{title}: the values lie between {low:.6g} and {high:.6g}"
    whole = not x.is_floating_point() or bool((x == x.round()).all())
    if form.domain in ("ordinal", "categorical"):
        return _discrete(x, form, whole, found)
    if form.domain == "spin":
        if _only(x, 0, 1):
            return Preprocessing(shape, mean=(0.5,), std=(0.5,))
        if not _only(x, -1, 1):
            raise UserError(f"{found}; spins must be -1 and +1, or 0 and 1, which become -1 and +1")
        return Preprocessing(shape)
    if form.domain == "binary" and not form.binarize:
        if _only(x, 0, 1):
            return Preprocessing(shape, unit=True)
        mend = "domain spin takes -1 and +1" if _only(x, -1, 1) else "set binarize to true, or domain to real"
        raise UserError(f"{found}; bits must be 0 or 1: {mend}")
    pixels = bool(form.binarize) or (len(shape) == 3 and shape[0] in (1, 3))
    divisor = form.max_value or (LEVELS if (pixels or x.dtype == torch.uint8) and are_levels(x) else 1.0)
    unit = low >= 0 and high <= divisor
    if form.binarize and not unit:
        raise UserError(
            f"{found}; what is binarised must lie in [0, 1] or [0, 255]: set max_value to the largest level"
        )
    if pixels and low < 0 and high > 1 and whole:
        raise UserError(f"{found}; pixels must not be negative: signed bytes become levels again with .astype('uint8')")
    if not x.is_floating_point():
        return Preprocessing(shape, divisor, unit=unit)
    integers = LEVELS if pixels and unit and divisor == 1 else divisor  # what integers mean beside floats in [0, 1]
    return Preprocessing(shape, integers, divisor, unit=unit)


def _discrete(x: Tensor, form: Form, whole: bool, found: str) -> Preprocessing:
    if not whole or float(x.min()) < 0:
        raise UserError(f"{found}; {form.domain} values must be whole numbers from 0 on")
    if form.num_values is not None and int(x.max()) >= form.num_values:
        raise UserError(f"{found}, but num_values is {form.num_values}: they must be from 0 to {form.num_values - 1}")
    num_classes = (form.num_values or int(x.max()) + 1) if form.domain == "categorical" else 0
    return Preprocessing(tuple(x.shape[1:]), num_classes=num_classes)


def _only(x: Tensor, low: float, high: float) -> bool:
    return bool(((x == low) | (x == high)).all())


class OwnData(TensorDataModule):
    """A user's data set. A subclass counts its samples and takes some of them.

    Args:
        shape: of one raw sample.
        form: what its numbers are.
        val_fraction: part of the training samples that validates, where there are no other samples to validate on.
        test_fraction: part of the training samples that tests, where there are no other samples to test on.
        split_seed: of the choice of these parts.
        batch_size: samples per batch and process.
        seed: of the order of the training batches.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        form: Form,
        val_fraction: float,
        test_fraction: float,
        split_seed: int,
        batch_size: int,
        seed: int,
    ) -> None:
        super().__init__(shape, batch_size, seed, form.binarize)
        if form.domain not in DOMAINS:
            raise UserError(f"{self.title}: no domain '{form.domain}'; there are {', '.join(DOMAINS)}")
        if form.binarize and form.domain != "binary":
            raise UserError(f"{self.title}: binarize makes bits, but domain is {form.domain}: set domain to binary")
        if not (0 < val_fraction < 1 and 0 < test_fraction < 1 and val_fraction + test_fraction < 1):
            raise UserError(
                f"{self.title}: val_fraction is {val_fraction} and test_fraction {test_fraction}; both must be above 0 "
                "and together below 1"
            )
        if form.max_value is not None and not form.max_value > 0:
            raise UserError(f"{self.title}: max_value is {form.max_value}; it must be above 0")
        if form.domain == "categorical":
            self.event_shape = (*shape, form.num_values or 0)
        self.domains = (DOMAINS[form.domain],)
        self.form = form
        self.val_fraction = val_fraction
        self.test_fraction = test_fraction
        self.split_seed = split_seed
        self.standardize = form.standardize and form.domain == "real"
        if self.standardize:
            self.mean, self.std = (), ()
        self._scaling: Preprocessing | None = None

    @abstractmethod
    def count(self, split: str) -> int | None:
        """How many samples a split has of its own; None where it is a part of the training samples."""

    @abstractmethod
    def take(self, split: str, index: Tensor) -> tuple[Tensor, Tensor | None]:
        """Samples `(N, *shape)`, and labels where there are any, of those that a split has of its own."""

    def load(self, split: str) -> tuple[Tensor, Tensor | None]:
        return self.take(*self.part(split))

    def part(self, split: str) -> tuple[str, Tensor]:
        """Where the samples of a split are found: the split to which they belong, and their numbers in it."""
        own = self.count(split)
        if split != "train" and own is not None:
            return split, torch.arange(own)
        size = self.count("train") or 0
        fractions = {"val": self.val_fraction, "test": self.test_fraction}
        sizes = {k: max(1, round(f * size)) if self.count(k) is None else 0 for k, f in fractions.items()}
        if (rest := size - sum(sizes.values())) < 1:
            raise UserError(f"{self.title}: {size} samples are too few to set some aside for validation and testing")
        order = torch.randperm(size, generator=stream("own data", self.split_seed))
        parts = torch.split(order, [rest, sizes["val"], sizes["test"]])
        return "train", parts[SPLITS.index(split)].sort().values

    def setup(self, stage: str | None = None) -> None:
        """Reads and checks the splits that the stage needs, and says what becomes of the numbers."""
        super().setup(stage)
        if stage == "fit":
            self.announce()

    def announce(self) -> None:
        """Says how many samples there are, of which shape, and what becomes of their numbers."""
        sizes = f"{self.num_train_samples():,} to train on, {len(self.part('val')[1]):,} to validate"
        rank_zero_info(f"{self.title}: samples of shape {self.raw_shape}, {sizes}; {self._said()}")

    def num_train_samples(self) -> int:
        return len(self.part("train")[1])

    @property
    def scaling(self) -> Preprocessing:
        if self._scaling is None:
            self._scaling = scaling(self.sample(), self.form, f"{self.title}, train split")
        return self._scaling

    def moments(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        if self.standardize and not self.mean:
            self.mean, self.std = moments(self.sample(), self.scaling)
        return (self.mean, self.std) if self.standardize else (self.scaling.mean, self.scaling.std)

    def sample(self) -> Tensor:
        """Raw training samples that tell how the numbers are scaled: all of them, where they are in memory."""
        return self.raw("train")

    def _said(self) -> str:
        """What becomes of the numbers."""
        divisor = self.scaling.float_scale if self.sample().is_floating_point() else self.scaling.scale
        words = [f"divided by {divisor:g}"] if divisor != 1 else []
        words += ["standardised"] if self.standardize else []
        words += ["binarised at 1/2" if self.binarize is True else "drawn as bits in each batch"] * bool(self.binarize)
        words += ["turned from 0 and 1 into -1 and +1"] * (not self.standardize and self.scaling.mean != (0.0,))
        words += ["turned into one-hot vectors"] * bool(self.scaling.num_classes)
        return f"the values are {', then '.join(words)}" if words else "the values stay what they are"
