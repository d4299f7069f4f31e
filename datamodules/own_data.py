"""What a user's own data sets share: splits by fractions, and the rule for their numbers."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace

import torch
from pytorch_lightning.utilities import rank_zero_info
from torch import Tensor

from ebmlab.data.interface import SPLITS
from ebmlab.data.preprocessing import Preprocessing, moments
from ebmlab.datamodules.scaling import DOMAINS, Form, for_bits, scaling
from ebmlab.datamodules.tensor_datamodule import TensorDataModule
from ebmlab.domains import Binary, Categorical, Domain, Ordinal, Real, Spin
from ebmlab.errors import UserError
from ebmlab.numerics.streams import stream
from ebmlab.product import Product
from ebmlab.settings import require_choice, require_positive


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

    domains: tuple[type[Domain], ...] = (Real, Binary, Spin, Ordinal, Categorical, Product)

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
        super().__init__(shape, batch_size, seed=seed, binarize=form.binarize)
        require_choice(self.title, DOMAINS, domain=form.domain)
        if form.binarize and form.domain != "binary":
            raise UserError(f"{self.title}: binarize makes bits, but domain is {form.domain}: set domain to binary")
        check_fractions(self.title, val_fraction, test_fraction)
        if form.max_value is not None and form.domain != "real" and not form.binarize:
            raise UserError(
                f"{self.title}: max_value is {form.max_value} and domain {form.domain}; it is for real numbers and for "
                "what is binarised"
            )
        if form.max_value is not None:
            require_positive(self.title, max_value=form.max_value)
        if form.num_values is not None and not (form.num_values > 1 and form.domain in ("ordinal", "categorical")):
            raise UserError(
                f"{self.title}: num_values is {form.num_values} and domain {form.domain}; it must be above 1, and is "
                "for ordinal and categorical data"
            )
        if form.domain == "categorical":
            self.event_shape = (*shape, form.num_values or 0)
        if form.classes:
            self.event_shape = Product.of_columns(form.classes).event_shape
        self.domains = (DOMAINS[form.domain],)
        self.form = form
        self.val_fraction = val_fraction
        self.test_fraction = test_fraction
        self.split_seed = split_seed
        self.standardize = form.standardize and form.domain in ("real", "mixed")
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
            raise UserError(
                f"{self.title}: the number of samples is {size}, too few to set some aside for validation and testing"
            )
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

    def adopt(self, saved: Preprocessing) -> None:
        """Takes the checkpoint's limits of pictures, too, so that all pictures of a model can be compared."""
        super().adopt(saved)
        limits = None if saved.unit else saved.limits or self.scaling.limits  # old checkpoints have none
        self._scaling = replace(self.scaling, limits=limits)

    @property
    def scaling(self) -> Preprocessing:
        if self._scaling is None:
            where, sample = f"{self.title}, train split", self.sample()
            self._scaling = scaling(sample, self.form, where)
            high, white = float(sample.max()), self._scaling.divisor(sample)
            if self.form.binarize and self.form.max_value is None and high <= white / 2:
                raise UserError(
                    f"{where}: the values go up to {high:.6g}, but {white:g} would be white, so that next to all bits "
                    f"would be 0: {for_bits(sample, self.form)}"
                )
        return self._scaling

    def moments(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        if self.standardize and not self.mean:
            weights = self.weights("train") if self.weighted else None
            self.mean, self.std = moments(self.sample(), self.scaling, weights=weights)
            if classes := self.form.classes:  # class numbers stay what they are
                self.mean = tuple(0.0 if k else mean for k, mean in zip(classes, self.mean, strict=True))
                self.std = tuple(1.0 if k else std for k, std in zip(classes, self.std, strict=True))
        return (self.mean, self.std) if self.standardize else (self.scaling.mean, self.scaling.std)

    def sample(self) -> Tensor:
        """Raw training samples that tell how the numbers are scaled: all of them, where they are in memory."""
        return self.raw("train")

    def _check(self, split: str, data: Tensor, labels: Tensor | None) -> None:
        """Also refuses samples of a split's own in other units than the training samples."""
        super()._check(split, data, labels)
        if split == "train" or self.count(split) is None:
            return
        where = f"{self.title}, {split} split"
        found = scaling(data, self._measured_form, where)
        mine, its = self.scaling.divisor(data), found.divisor(data)
        low, high = float(data.min()), float(data.max())
        whole = not data.is_floating_point() or bool((data == data.round()).all())
        dark = high <= 1 and whole  # 0 and 1 may be levels of dark pixels
        if mine != its and not dark:
            raise UserError(
                f"{where}: the values lie between {low:.6g} and {high:.6g}, but those of the training samples are "
                f"divided by {mine:g}: bring all samples to the same units"
            )

    @property
    def _measured_form(self) -> Form:
        """The form, with as many ordinal values as the training samples show."""
        limits = self.scaling.limits
        if self.form.domain != "ordinal" or self.form.num_values is not None or limits is None:
            return self.form
        return replace(self.form, num_values=int(limits[1]) + 1)

    def _said(self) -> str:
        """What becomes of the numbers."""
        divisor = self.scaling.divisor(self.sample())
        words = [f"divided by {divisor:g}"] if divisor != 1 else []
        words += ["standardised"] if self.standardize else []
        words += ["binarised at 1/2" if self.binarize is True else "drawn as bits in each batch"] * bool(self.binarize)
        words += ["turned from 0 and 1 into -1 and +1"] * (self.scaling.mean == (0.5,))
        words += ["turned from -1 and +1 into 0 and 1"] * (self.scaling.mean == (-1.0,))
        words += ["turned into one-hot vectors"] * bool(self.scaling.num_classes)
        return f"the values are {', then '.join(words)}" if words else "the values stay what they are"


def check_fractions(owner: str, val_fraction: float, test_fraction: float) -> None:
    """Raises `UserError` unless something is left to validate on, to test on and to train on."""
    if not (0 < val_fraction < 1 and 0 < test_fraction < 1 and val_fraction + test_fraction < 1):
        raise UserError(
            f"{owner}: val_fraction is {val_fraction} and test_fraction {test_fraction}; both must be above 0 and "
            "together below 1"
        )
