"""The contract between a data set and everything that uses it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, cast, runtime_checkable

import torch
from torch import Tensor

from ebmlab.data.batch_parts import labels_of, samples_of, weights_of
from ebmlab.data.preprocessing import Preprocessing
from ebmlab.domains import Categorical, Domain
from ebmlab.errors import UserError
from ebmlab.numerics.streams import own_numbers, undisturbed

Split = Literal["train", "val", "test"]
SPLITS: tuple[Split, ...] = ("train", "val", "test")


@dataclass(frozen=True)
class Images:
    """Samples that are images.

    Attributes:
        values: `(B, C, H, W)` in [0, 1], with one channel or three.
    """

    values: Tensor


@dataclass(frozen=True)
class Points:
    """Samples that are points in the plane.

    Attributes:
        values: `(B, 2)`.
        extent: most of the points lie between -extent and extent in both coordinates.
    """

    values: Tensor
    extent: float


@dataclass(frozen=True)
class Graphs:
    """Samples that are graphs.

    Attributes:
        adjacency: symmetric matrices `(B, n, n)`, zero where there is no edge.
    """

    adjacency: Tensor


@dataclass(frozen=True)
class Table:
    """Samples that are rows of numbers and classes.

    Attributes:
        values: `(B, columns)`, classes by their numbers.
        names: of the columns.
        classes: how many each column has, or 0 if it holds real numbers.
    """

    values: Tensor
    names: tuple[str, ...]
    classes: tuple[int, ...]


Shown = Images | Points | Graphs | Table


class Data:
    """What energies, learners, callbacks, `predict` and pictures ask of a data set.

    A subclass that is also a `LightningDataModule` must define the loaders; everything else has a default. What it
    defines beyond the loaders is used: `event_shape` is checked against the energy before training, `labels` train
    FID's classifier, `show` decides what pictures show. `ebmlab.lightning.run_data.data_of` wraps plain loaders and
    any `LightningDataModule` that is not a `Data`.

    Attributes:
        name: a part of the names of metrics.
        domains: the domains that the states may belong to.
        event_shape: the shape of one state; None if it is known only from the batches.
        batch_size: samples in a training batch of each process; 0 if it is known only from the batches.
        num_classes: number of classes of the labels; None if there are no labels.
        preprocessing: how raw data become states; None if the raw data are the states.
        raw_batches: whether the loaders give raw data, in place of states.
        weighted: whether a batch is a pair (x, weights) of float tensors: states `(B, *event_shape)`, and how much each
            counts, `(B,)`, at least 0. Sequences are one-hot states `(B, d, q)`. The mean of the weights over a split
            is 1, so that the mean over batches of weight times loss is the weighted mean.

    Example:
        >>> class Coins(Data):
        ...     def train_dataloader(self):
        ...         return [torch.tensor([[0.0, 1.0], [1.0, 1.0]])] * 3
        >>> Coins().states("train").shape
        torch.Size([6, 2])
    """

    name: str = "data"
    domains: tuple[type[Domain], ...] = (Domain,)
    event_shape: tuple[int, ...] | None = None
    batch_size: int = 0
    num_classes: int | None = None
    raw_batches: bool = False
    weighted: bool = False

    @property
    def title(self) -> str:
        """The name of the data in error messages."""
        return type(self).__name__

    @property
    def preprocessing(self) -> Preprocessing | None:
        """How raw data become states. It is a property because a subclass may have to read the training data first."""
        return None

    def adopt(self, saved: Preprocessing) -> None:
        """Makes raw data become states as in a checkpoint; called when one is loaded with these data.

        Mean and standard deviation belong to the model, as weights do: `TensorDataModule` and `PlainData` take the
        checkpoint's. If another setting differs, neither value would be safe to use unasked, and it is refused.

        Raises:
            UserError: the data would become other states.
        """
        mine = self.preprocessing or Preprocessing(saved.shape)
        if found := mine.difference(saved):
            raise UserError(
                f"{self.title} does not turn raw data into the states that the checkpoint's model was trained on: "
                f"{found}; set the data's options as in training"
            )

    def has(self, split: str) -> bool:
        """Whether the present run has data of the split "train", "val" or "test"."""
        return split in SPLITS

    def loader(self, split: str) -> Iterable[Any]:
        """The batches of "train", "val" or "test"; a new loader each time."""
        return one_loader(getattr(self, f"{split}_dataloader")(), f"{self.title}, {split} split")

    def convert(self, batch: Any) -> Tensor:
        """A batch of a loader as states `(B, *event_shape)`.

        Default: the tensor that `samples_of` finds in it, as floating-point numbers.

        Raises:
            UserError: there is no tensor of samples in the batch.
        """
        x = samples_of(batch, self.title)
        return x if x.is_floating_point() else x.float()

    def batch_weights(self, batch: Any) -> Tensor | None:
        """The weights `(B,)` of a batch of a loader; None if all samples count alike.

        Raises:
            UserError: the data say that they are weighted, but the batch holds no weights.
        """
        return weights_of(batch, self.title) if self.weighted else None

    def give_labels(self) -> None:
        """Makes batches pairs (x, labels) from now on; learners of classes ask for it. Default: they are such pairs.

        Raises:
            UserError: the data have no labels.
        """

    def batch_labels(self, batch: Any) -> Tensor:
        """The labels `(B,)`, int64, of a batch of a loader that gives them.

        Raises:
            UserError: the batch holds no labels.
        """
        return labels_of(batch, self.title)

    def states(self, split: str, n: int | None = None, seed: int = 0) -> Tensor:
        """All states of a split, or `n` of them.

        The `n` states are the first of a random order that depends on `seed` alone, so a smaller selection is part of a
        larger one. If the split has fewer than `n` states, all are returned.

        Returns:
            `(N, *event_shape)`, on the CPU.
        """
        with own_numbers(seed), undisturbed(loader := self.loader(split), seed):  # the same order each time
            states = torch.cat([self.convert(batch).float().cpu() for batch in loader])
        return states if n is None else states[chosen(len(states), n, seed)]

    def labels(self, split: str) -> Tensor | None:
        """The labels of `states(split)`, `(N,)`, int64, or None."""
        return None

    def to_states(self, raw: Tensor) -> Tensor:
        """Raw data as states `(B, *event_shape)`."""
        preprocessing = self.preprocessing
        return raw if preprocessing is None else preprocessing.to_states(raw)

    def to_raw(self, x: Tensor) -> Tensor:
        """States in the units of the raw data. Pixels are in [0, 1]."""
        preprocessing = self.preprocessing
        return x if preprocessing is None else preprocessing.to_raw(x)

    def show(self, x: Tensor) -> Shown | None:
        """The states in a form that can be drawn, or None if there is none.

        By default these are rows of a mixed table, images and points. Images have the shape (1, H, W) or (3, H, W), are
        no table of one-hot vectors, and are scaled by `Preprocessing.brightness`. Points have the shape (2,).
        """
        if (form := self.preprocessing) and form.classes:
            return Table(self.to_raw(x), form.columns or tuple(map(str, range(len(form.classes)))), form.classes)
        shape = tuple(x.shape[1:]) if self.event_shape is None else self.event_shape
        classes = ((made := self.preprocessing) and made.num_classes) or self.domains == (Categorical,)
        if len(shape) == 3 and shape[0] in (1, 3) and not classes:
            raw = self.to_raw(x.reshape(len(x), *shape))
            return Images(raw.clamp(0, 1) if made is None else made.brightness(raw))
        if shape == (2,):
            points = self.to_raw(x)
            return Points(points, 1.1 * float(points.abs().max()) if len(points) else 1.0)
        return None


def one_loader(loader: Any, where: str) -> Iterable[Any]:
    """The loader itself, or the single loader in a list or dictionary, which Lightning accepts too.

    Raises:
        UserError: the list or dictionary does not hold exactly one loader.
    """
    loaders = list(loader.values()) if isinstance(loader, Mapping) else loader
    if not isinstance(loaders, list | tuple) or any(isinstance(part, Tensor) for part in loaders):
        return cast(Iterable[Any], loader)
    if len(loaders) != 1:
        raise UserError(f"{where}: the number of loaders is {len(loaders)}; a split must have one, or no method at all")
    return cast(Iterable[Any], loaders[0])


def chosen(size: int, n: int, seed: int) -> Tensor:
    """The first `n` indices of a random order of 0 to size - 1, which depends on `seed` alone."""
    return torch.randperm(size, generator=torch.Generator().manual_seed(seed))[:n]


@runtime_checkable
class KnownDensity(Protocol):
    """Data with a known density, such as `datamodules.GaussianMixture`."""

    def log_density(self, x: Tensor) -> Tensor:
        """The normalised log-density `(B,)` at points `(B, *event_shape)`."""

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Fresh points `(n, *event_shape)`."""


@runtime_checkable
class CodedPoints(Protocol):
    """Points of the plane that are coded as bits, such as `datamodules.GrayCode2D`."""

    def encode(self, points: Tensor) -> Tensor:
        """Points `(B, 2)` to states."""

    def decode(self, bits: Tensor) -> Tensor:
        """States to points `(B, 2)`."""

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Fresh points `(n, 2)`."""


@runtime_checkable
class KnownCouplings(Protocol):
    """Samples of a pairwise model with known couplings, such as `datamodules.IsingSamples`."""

    def coupling_matrix(self) -> Tensor:
        """The true J `(d, d)`, symmetric with a zero diagonal: E(x) = -1/2 x'Jx."""
