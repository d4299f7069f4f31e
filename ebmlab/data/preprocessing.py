"""Converts raw data to states and back, with settings that a checkpoint can hold."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

import torch
from torch import Tensor

from ebmlab.data import mixed
from ebmlab.domains import Domain, Real
from ebmlab.errors import WHY, UserError, explained
from ebmlab.numerics.streams import draw_alike
from ebmlab.product import Product

Binarize = bool | Literal["dynamic"]
LEVELS = 255.0
HUGE = 1e30  # the largest number and the inverse of the smallest one whose powers and products float32 holds
# types of what a checkpoint may hold
SINGLE = {"num_classes": int, "unit": bool, "letters": str, "gap": str, "width": int}
SEVERAL = {"shape": int, "columns": str, "classes": int}
FAR = 2**12  # standard deviations from 0 beyond which float32 rounds off more than a few thousandths of one


@dataclass(frozen=True)
class Preprocessing:
    """Scales raw numbers and then standardises or binarises them; or turns class numbers into one-hot vectors.

    A checkpoint holds it as `checkpoint["preprocessing"]`, the `to_dict()` of the training data's, whether the command
    line or a plain `Trainer` wrote it. `Preprocessing.from_dict` makes it again. Then `to_states(raw)` gives raw data,
    of any type and on any device, the states that training gave them, and needs no data set. If it is None, or is
    missing, the raw data are the states. New attributes get defaults, with which older checkpoints mean what they did.

    Attributes:
        shape: the shape of one raw sample, (C, H, W) for images.
        scale: the number by which integers are divided, and booleans too, unless `unit` is true: then they are 0 and 1.
        float_scale: the number by which floating-point numbers are divided.
        mean: the mean that is subtracted after scaling. One number, or one for each entry of the first axis of `shape`.
        std: the standard deviation by which the difference is divided; as many numbers as in `mean`.
        binarize: True gives 1 where the scaled number is above 1/2, else 0. "dynamic" draws 1 with the scaled number as
            the probability. What a sample becomes depends on its own numbers alone, not on its place in `raw`.
        num_classes: if not 0, raw numbers are classes 0, 1, ... and states are one-hot vectors of this length.
        unit: whether scaled numbers lie in [0, 1]. If so, `to_raw` clamps them to this interval.
        limits: the scaled numbers that pictures show black and white; None stands for 0 and 1.
        columns: the names of the columns of the training data's table, or the numbers that a model of another package
            gives its sites; () if there are none.
        letters: what the classes stand for in an alignment of sequences, a letter each; "" elsewhere.
        gap: the letter of the gap in `letters`.
        width: the columns of the alignment from which `columns` were chosen, which are numbered from 1; 0 elsewhere.
        classes: of a table of numbers and classes, how many classes each column has, or 0 if it holds real numbers; ()
            elsewhere. States are those of `Product.of_columns(classes)`.
    """

    shape: tuple[int, ...]
    scale: float = 1.0
    float_scale: float = 1.0
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    binarize: Binarize = False
    num_classes: int = 0
    unit: bool = False
    limits: tuple[float, float] | None = None
    columns: tuple[str, ...] = ()
    letters: str = ""
    width: int = 0
    classes: tuple[int, ...] = ()
    gap: str = "-"

    @property
    def event_shape(self) -> tuple[int, ...]:
        """The shape of one state."""
        if self.classes:
            return Product.of_columns(self.classes).event_shape
        return (*self.shape, self.num_classes) if self.num_classes else self.shape

    def to_states(self, raw: Tensor) -> Tensor:
        """Turns raw data, `(B, *shape)` or `(B, prod(shape))`, into states `(B, *event_shape)`, float32."""
        if self.num_classes:
            return self._one_hot(raw)
        if self.binarize is True and raw.dtype == torch.uint8:  # as below, in half the passes over memory
            return self.shaped(raw).float().gt_(0.5 * self.scale)
        x = self.scaled(raw)
        if self.binarize:
            return draw_alike(x) if self.binarize == "dynamic" else x.gt_(0.5).float()
        x = x.double() if self._far else x
        mean, std = self._moments_like(x)
        x = (x - mean) / std
        return (mixed.to_states(x, self.classes) if self.classes else x).float()

    def to_raw(self, x: Tensor) -> Tensor:
        """Turns states, `(B, *event_shape)` or `(B, prod(event_shape))`, into raw data `(B, *shape)`.

        The result is floating-point and in units of `float_scale`, even if the raw data were integers: pixels come back
        in [0, 1]. Class numbers come back as integers, and numbers that are far from 0 for their standard deviation,
        such as points of time, as float64.
        """
        x = x.reshape(len(x), *self.event_shape)
        if self.num_classes:
            return x.argmax(-1)
        x = mixed.to_table(x, self.classes) if self.classes else x
        if not self.binarize:
            x = x.double() if self._far else x
            mean, std = self._moments_like(x)
            x = x * std + mean
        return (x.clamp(0, 1) if self.unit else x) * self.float_scale

    def brightness(self, raw: Tensor) -> Tensor:
        """What pictures show of raw data that `to_raw` has returned: 0 is black and 1 white, beyond `limits` too."""
        low, high = self.limits or (0.0, 1.0)
        return ((raw / self.float_scale - low) / ((high - low) or 1.0)).clamp(0, 1)

    def scaled(self, raw: Tensor) -> Tensor:
        """Raw data after scaling and before anything else, `(B, *shape)`.

        They are float32, but float64 where the raw numbers have more digits than float32 holds.
        """
        raw = self.shaped(raw)
        exact = raw.dtype in (torch.float64, torch.int64, torch.int32)
        return (raw.double() if exact else raw.float()) / self.divisor(raw)

    def divisor(self, raw: Tensor) -> float:
        """The number by which raw numbers of raw's type are divided; 1 for booleans that stand for black and white."""
        if raw.dtype == torch.bool and self.unit:
            return 1.0
        return self.float_scale if raw.is_floating_point() else self.scale

    def to_dict(self) -> dict[str, Any]:
        """The settings as plain data, which `torch.load(weights_only=True)` can read and `from_dict` accepts."""
        return asdict(self)

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Self:
        """The preprocessing with the settings that `to_dict` returned.

        Raises:
            UserError: something else wrote it, or it is damaged.
        """
        with explained(f"the preprocessing is damaged or of another version ({WHY})", (TypeError, ValueError)):
            found = cls(**plain)
            found._check()
        return found

    def difference(self, other: Preprocessing) -> str | None:
        """What makes this preprocessing give other states than another one, in words; None if nothing does.

        How numbers are scaled to [0, 1] does not count, because pixels in [0, 1] mean the same in all units. The limits
        of pictures do not count either.
        """
        names = ["shape", "binarize", "num_classes", "letters", "classes"]
        names += [] if self.unit and other.unit else ["scale", "float_scale"]
        for name in names:
            if (mine := getattr(self, name)) != (its := getattr(other, name)):
                return f"{name} is {mine}, not {its}"
        if self.binarize or self.num_classes:
            return None
        for name, mine, its in (("mean", self.mean, other.mean), ("std", self.std, other.std)):
            size = max(len(mine), len(its))
            a, b, std = (torch.tensor(values).expand(size) for values in (mine, its, other.std))
            if (far := (a - b).abs() > 1e-4 * std).any():
                return f"{name} is {float(a[far][0]):.4g}, not {float(b[far][0]):.4g}"
        return None

    def check_units(self, raw: Tensor, where: str) -> None:
        """Raises `UserError` if raw data are clearly in other units than the data that were trained on.

        Args:
            raw: `(B, *shape)` or `(B, prod(shape))`.
            where: the beginning of the error message.
        """
        if not self.unit or len(raw) == 0:
            return
        scale = self.divisor(raw)
        low, high = float(raw.min()), float(raw.max())
        fractions = scale == LEVELS and (low < 0 or high <= 1) and bool((raw != raw.round()).any())
        if fractions or low / scale < -0.5 or high / scale > 1.5:
            divided = f"were divided by {scale:g} and then lay between 0 and 1" if scale != 1 else "lay between 0 and 1"
            raise UserError(
                f"{where}: the values lie between {low:.4g} and {high:.4g}, but those in training {divided}: give raw "
                "data in the same units"
            )

    @property
    def _far(self) -> bool:
        """Whether float32 rounds off too much of the mean for the standard deviation, or cannot hold either."""
        numbers = zip(self.mean, self.std, strict=False)
        return any(abs(mean) > FAR * std or not 1 / HUGE < std < HUGE or abs(mean) > HUGE for mean, std in numbers)

    def _check(self) -> None:
        """Raises `TypeError` or `ValueError` if a setting is not what it must be."""
        for name, kind in SINGLE.items():
            if type(value := getattr(self, name)) is not kind:
                raise ValueError(f"{name} is {value!r}, but must be of the type {kind.__name__}")
        for name, kind in SEVERAL.items():
            if not isinstance(values := getattr(self, name), tuple | list) or any(type(v) is not kind for v in values):
                raise ValueError(f"{name} is {values!r}, but must be a list of the type {kind.__name__}")
        if self.binarize not in (False, True, "dynamic"):
            raise ValueError(f'binarize is {self.binarize!r}, but must be true, false or "dynamic"')
        if self.limits is not None and not (len(self.limits) == 2 and all(map(math.isfinite, self.limits))):
            raise ValueError(f"limits are {self.limits}, but must be two numbers")
        if self.classes and ((len(self.classes),) != tuple(self.shape) or any(k < 0 or k == 1 for k in self.classes)):
            raise ValueError(f"classes are {self.classes}, but must be 0 or from 2 on, for {self.shape} columns")
        sizes = {1, *self.shape[:1]}
        if not (all(n > 0 for n in self.shape) and self.scale > 0 and self.float_scale > 0 and self.num_classes >= 0):
            raise ValueError(f"shape {self.shape}, scales {self.scale} and {self.float_scale} must be above 0")
        for name, values in (("mean", self.mean), ("std", self.std)):
            if len(values) not in sizes or not all(map(math.isfinite, values)) or (name == "std" and min(values) <= 0):
                raise ValueError(f"{name} is {values}, which does not fit the shape {self.shape}")

    def _moments_like(self, x: Tensor) -> list[Tensor]:
        shape = (-1, *[1] * (len(self.shape) - 1))
        return [torch.tensor(values, dtype=x.dtype, device=x.device).view(shape) for values in (self.mean, self.std)]

    def slope(self, raw: Tensor) -> Tensor:
        """The derivative of real states in raw numbers of raw's type; it broadcasts with `(B, *shape)`."""
        _, std = self._moments_like(torch.empty(0, device=raw.device))
        return 1 / (std * self.divisor(raw))

    def log_jacobian(self, domain: Domain) -> float:
        """Log density of raw data minus that of their states in a domain; 0 if it is finite. In tables, numbers count.

        A pixel's unit of length is one level, so that the density does not depend on how a file holds the pixel.
        """
        if self.classes:
            stds = self.std * (len(self.classes) // len(self.std))
            return -sum(math.log(std * self.scale) for std, k in zip(stds, self.classes, strict=True) if k == 0)
        if not isinstance(domain, Real) or self.binarize or self.num_classes:
            return 0.0
        return -domain.size / len(self.std) * sum(math.log(std * self.scale) for std in self.std)

    def shaped(self, raw: Tensor) -> Tensor:
        """Raw data as `(B, *shape)`, from flat ones, those that lack an axis of length 1, and images with colours last.

        Raises:
            UserError: raw data have another shape.
        """
        given, wanted = tuple(raw.shape[1:]), self.shape
        if len(wanted) == 3 and wanted[0] == 3 and given == (*wanted[1:], 3) != wanted:
            return raw.movedim(-1, 1).contiguous()
        alike = [n for n in given if n != 1] == [n for n in wanted if n != 1]
        if raw.dim() == 0 or not (alike or given == (math.prod(wanted),)):
            shape = ", ".join(map(str, wanted))
            raise UserError(
                f"raw data have shape {tuple(raw.shape)}; it must be (B, {shape})"
                + f" or (B, {math.prod(wanted)})" * (len(wanted) > 1)
            )
        return raw.reshape(len(raw), *wanted)

    def _one_hot(self, raw: Tensor) -> Tensor:
        classes = self.shaped(raw)
        if not ((classes == classes.round()) & (classes >= 0) & (classes < self.num_classes)).all():
            raise UserError(f"classes must be whole numbers from 0 to {self.num_classes - 1}")
        states = torch.zeros(*classes.shape, self.num_classes, device=classes.device)
        return states.scatter_(-1, classes.long().unsqueeze(-1), 1.0)


def moments(
    raw: Tensor, preprocessing: Preprocessing, *, weights: Tensor | None = None
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Means and standard deviations of scaled raw data `(N, *shape)`, one for each entry of the first axis of `shape`.

    An entry that does not vary gets the standard deviation 1, because its deviation of 0 cannot be a divisor. Samples
    count by their weights `(N,)`, and all alike when None.
    """
    if weights is None:
        weights = torch.ones(len(raw))
    raw, weights = (raw, weights) if weights.all() else (raw[weights > 0], weights[weights > 0])
    axis = preprocessing.shape[0]
    total = torch.zeros(2, axis, dtype=torch.float64)
    first = preprocessing.scaled(raw[:1]).double().reshape(axis, -1)[:, 0]
    varies = torch.zeros(axis, dtype=torch.bool)
    for part, each in zip(torch.split(raw, 4096), torch.split(weights.double().view(-1, 1, 1), 4096), strict=True):
        x = preprocessing.scaled(part).double().reshape(len(part), axis, -1)
        x = x - first.unsqueeze(1)  # so that nothing is rounded where nothing varies
        varies |= (x != 0).any(2).any(0)
        total += torch.stack([(each * x).sum((0, 2)), (each * x.square()).sum((0, 2))])
    shift, square = total / (weights.double().sum() * (raw[0].numel() / axis))
    mean, std = first + shift, (square - shift.square()).clamp_min(0).sqrt()
    if (bad := ~std.isfinite() | (varies & (std == 0))).any():
        raise UserError(
            f"the numbers of column or channel {int(bad.nonzero()[0])}, counted from 0, are too large or too small for "
            "a variance in double precision: change their unit"
        )
    return tuple(mean.tolist()), tuple(torch.where(std > 0, std, 1.0).tolist())


def are_levels(x: Tensor) -> bool:
    """Whether numbers are the levels of 8-bit pixels: whole, from 0 to 255, and at least one of them above 1."""
    if x.numel() == 0 or not 1 < float(x.max()) <= LEVELS or float(x.min()) < 0:
        return False
    return not x.is_floating_point() or bool((x == x.round()).all())
