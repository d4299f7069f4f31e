"""Wraps loaders or a `LightningDataModule` that were not written for ebmlab as `Data`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from ebmlab.data.batch_checks import first_batch
from ebmlab.data.batch_parts import samples_of
from ebmlab.data.interface import Data, one_loader
from ebmlab.data.preprocessing import LEVELS, Preprocessing, are_levels
from ebmlab.domains import Categorical, Domain, Ordinal, Real
from ebmlab.errors import UserError
from ebmlab.numerics.streams import own_numbers, undisturbed

MEASURED = 10_000  # samples that tell the limits of pictures
Loaders = Mapping[str, Callable[[], Any]]


class PlainData(Data):
    """Data from loaders whose batches are states, except perhaps for their type and scale.

    The first batch decides how all batches are converted, unless a checkpoint is loaded, whose data have decided it:

    - Integers and float64 become float32.
    - With an energy on `Real`, pixel levels are divided by 255. Pixel levels are whole numbers from 0 to 255, at least
      one of them above 1, that are uint8 or have the shape of images. All other numbers stay unchanged.
    - With an energy on `Categorical`, class numbers become one-hot vectors.

    Pictures show pixels and numbers in [0, 1] as they are. They show other real numbers from black, the smallest of the
    first 10,000 samples, to white, the largest. The values of an energy on `Ordinal` go from 0 to its largest.

    Args:
        title: the name of the data in error messages.
        loaders: maps each split that exists ("train", "val" or "test") to a function that returns its loader.
        domain: the energy's domain.
    """

    title = ""
    raw_batches = True

    def __init__(self, title: str, loaders: Loaders, domain: Domain) -> None:
        self.title = title
        self.loaders = loaders
        self.domain = domain
        self.domains = (type(domain),)

    @property
    def event_shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """The shape of one state."""
        return self.preprocessing.event_shape

    @property
    def batch_size(self) -> int:  # type: ignore[override]
        """The number of samples in the first batch."""
        return len(self._first)

    @cached_property
    def preprocessing(self) -> Preprocessing:
        """The conversion of batches to states, chosen from the first batch."""
        x, shape = self._first, tuple(self._first.shape[1:])
        if isinstance(self.domain, Categorical) and shape == self.domain.shape != self.domain.event_shape:
            return Preprocessing(shape, num_classes=self.domain.num_values)
        pixels = isinstance(self.domain, Real) and (x.dtype == torch.uint8 or len(shape) == 3) and are_levels(x)
        fractions = isinstance(self.domain, Real) and len(shape) == 3 and x.is_floating_point() and not pixels
        if fractions and float(x.min()) >= 0 and float(x.max()) <= 1:
            return Preprocessing(shape, LEVELS, unit=True)
        if pixels:
            _say(f"{self.title}: the batches hold pixels from 0 to 255, which are divided by 255")
            return Preprocessing(shape, LEVELS, LEVELS if x.is_floating_point() else 1.0, unit=True)
        return Preprocessing(shape, limits=self._limits())

    def adopt(self, saved: Preprocessing) -> None:
        """Takes the checkpoint's preprocessing whole: loaders have no options, and their batches are raw data.

        Raises:
            UserError: the first batch does not fit it, or training would need new bits in each epoch.
        """
        if saved.binarize == "dynamic" and self.has("train"):
            raise UserError(
                f"{self.title}: the checkpoint's training draws bits anew in each batch, which plain loaders do not: "
                "train on a datamodule with binarize: dynamic, as before"
            )
        saved.check_units(self._first, self.title)
        found = self.preprocessing.difference(saved)
        saved.to_states(self._first)
        own = self.preprocessing.limits  # for checkpoints of older versions, which have none
        self.preprocessing = saved if saved.unit or saved.limits or found else replace(saved, limits=own)
        if found:
            _say(f"{self.title}: the batches become states as in the checkpoint's training: {found}")

    def has(self, split: str) -> bool:
        return split in self.loaders

    def loader(self, split: str) -> Iterable[Any]:
        if not self.has(split):
            raise UserError(
                f"{self.title} has no {split} data here: give it a {split}_dataloader, or a datamodule that is an "
                "ebmlab.data.Data, which gives every split at any time"
            )
        return one_loader(self.loaders[split](), f"{self.title}, {split} split")

    def convert(self, batch: Any) -> Tensor:
        return self.preprocessing.to_states(samples_of(batch, self.title))

    @property
    def _split(self) -> str:
        """The split that decides how batches are converted."""
        return next(iter(self.loaders), "train")

    @cached_property
    def _first(self) -> Tensor:
        return samples_of(first_batch(self, self._split), self.title)

    def _limits(self) -> tuple[float, float] | None:
        """The numbers that pictures show black and white, the same on every rank; None stands for 0 and 1."""
        if isinstance(self.domain, Ordinal):
            return 0.0, self.domain.num_values - 1.0
        if not isinstance(self.domain, Real) or self._first.dim() != 4:
            return None
        lows, highs, seen = [], [], 0
        with own_numbers(0), undisturbed(loader := self.loader(self._split), 0):
            for batch in loader:
                x = samples_of(batch, self.title)
                lows.append(float(x.min()))
                highs.append(float(x.max()))
                if (seen := seen + len(x)) >= MEASURED:
                    break
        return min(lows), max(highs)


def _say(text: str) -> None:
    """Says something once in a distributed run; a model that is not trained has no need to load Lightning."""
    from pytorch_lightning.utilities import rank_zero_info

    rank_zero_info(text)
