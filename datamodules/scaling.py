"""How a user's numbers become states: one rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from ebmlab.data.preprocessing import LEVELS, Binarize, Preprocessing, are_levels
from ebmlab.domains import Binary, Categorical, Domain, Ordinal, Real, Spin
from ebmlab.errors import UserError
from ebmlab.product import Product

DomainName = Literal["real", "binary", "spin", "ordinal", "categorical", "mixed"]
DOMAINS: dict[str, type[Domain]] = {
    "real": Real,
    "binary": Binary,
    "spin": Spin,
    "ordinal": Ordinal,
    "categorical": Categorical,
    "mixed": Product,
}


@dataclass(frozen=True)
class Form:
    """What a user says of the numbers in the data.

    Attributes:
        domain: of the states.
        standardize: give real numbers mean 0 and variance 1 over the training samples. Images have them by channel,
            others by entry of the first axis, such as the columns of a table.
        binarize: make bits of numbers in [0, 1]; see `TensorDataModule`.
        max_value: what all numbers are divided by, in place of the rule of `scaling`.
        num_values: of an ordinal or categorical coordinate; by default as many as the training samples show.
        classes: of each column of a mixed table; 0 for real numbers.
    """

    domain: DomainName = "real"
    standardize: bool = True
    binarize: Binarize = False
    max_value: float | None = None
    num_values: int | None = None
    classes: tuple[int, ...] = ()


def as_images(x: Tensor, domain: DomainName) -> Tensor:
    """Real or binary samples `(N, H, W)` or `(N, H, W, C)` as images `(N, C, H, W)`; other samples stay what they are.

    C is 1 or 3. An axis of this length is that of the channels if it is the last of three and the first is another.
    """
    shape = x.shape[1:]
    if domain not in ("real", "binary"):
        return x
    if len(shape) == 2:
        return x[:, None]
    return x.movedim(3, 1) if len(shape) == 3 and shape[2] in (1, 3) and shape[0] not in (1, 3) else x


def for_bits(x: Tensor, form: Form) -> str:
    """All that has to be set to make bits of a user's numbers, where a form asks for something else."""
    low, high = float(x.min()), float(x.max())
    end = ""
    if _only(x, -1, 1):
        wanted = {"domain": "binary", "binarize": "false"}
    elif low < 0:
        wanted, end = {"domain": "real", "binarize": "false"}, ", and take an energy on real numbers: some are below 0"
    elif _only(x, 0, 1):
        wanted = {"domain": "binary"}
    else:
        white = LEVELS if are_levels(x) else 1.0
        wanted = {"domain": "binary", "binarize": "true"}
        wanted |= {} if white / 2 < high <= white else {"max_value": f"{high:.6g}"}
    set_already = {"domain": form.domain, "binarize": str(bool(form.binarize)).lower()}
    return "set " + " and ".join(f"{n} to {value}" for n, value in wanted.items() if set_already.get(n) != value) + end


def scaling(x: Tensor, form: Form, title: str) -> Preprocessing:
    """Finds how raw training data become states, but for standardisation and binarisation.

    One rule says what numbers are divided by. It holds for images, for uint8 of any shape and for what is binarised.
    Whole numbers from 0 to 255, of which one is above 1, are levels of pixels and are divided by 255. All other numbers
    stay what they are. Numbers that were divided, images and what is binarised lie between 0 and 1 by their nature
    (`Preprocessing.unit`). A table, or flat samples, may hold such floating-point numbers by chance.

    Args:
        x: `(N, *shape)`, finite.
        form: what the user says of the numbers.
        title: stands at the beginning of errors.

    Raises:
        UserError: the numbers are not what the form says.
    """
    shape, low, high = tuple(x.shape[1:]), float(x.min()), float(x.max())
    if form.domain == "mixed":
        return Preprocessing(shape, classes=form.classes)
    found = f"{title}: the values {_seen(x, form)}"
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
        if _only(x, -1, 1):
            return Preprocessing(shape, mean=(-1.0,), std=(2.0,))
        raise UserError(f"{found}; bits must be 0 and 1, or -1 and +1, which become 0 and 1: {for_bits(x, form)}")
    pixels = bool(form.binarize) or (len(shape) == 3 and shape[0] in (1, 3))
    divisor = form.max_value or (LEVELS if (pixels or x.dtype == torch.uint8) and are_levels(x) else 1.0)
    unit = (pixels or divisor > 1) and low >= 0 and high <= divisor  # other samples only happen to lie in [0, 1]
    if form.binarize and not unit:
        raise UserError(f"{found}; what is binarised must lie in [0, 1] or [0, 255]: {for_bits(x, form)}")
    if pixels and low < 0 and high > 1 and whole and form.max_value is None:
        raise UserError(
            f"{found}; pixels must not be negative: signed bytes become levels again with .astype('uint8'); if these "
            "are no pixels, set max_value to 1"
        )
    limits = None if unit else (low / divisor, high / divisor)
    if not x.is_floating_point():
        return Preprocessing(shape, divisor, unit=unit, limits=limits)
    integers = LEVELS if pixels and unit and divisor == 1 else divisor  # what integers mean beside floats in [0, 1]
    return Preprocessing(shape, integers, divisor, unit=unit, limits=limits)


def _discrete(x: Tensor, form: Form, whole: bool, found: str) -> Preprocessing:
    if not whole or float(x.min()) < 0:
        raise UserError(f"{found}; {form.domain} values must be whole numbers from 0 on")
    if form.num_values is not None and int(x.max()) >= form.num_values:
        raise UserError(f"{found}, but num_values is {form.num_values}: they must be from 0 to {form.num_values - 1}")
    if form.domain == "categorical" and x.dim() > 2 and _only(x, 0, 1) and bool((x.sum(-1) == 1).all()):
        raise UserError(
            f"{found}, with one 1 along the last axis: one-hot vectors become class numbers by .argmax(-1); if these "
            "are class numbers themselves, set domain to binary"
        )
    num_values, shape = form.num_values or int(x.max()) + 1, tuple(x.shape[1:])
    limits = (0.0, num_values - 1.0)
    return Preprocessing(shape, num_classes=num_values if form.domain == "categorical" else 0, limits=limits)


def _seen(x: Tensor, form: Form) -> str:
    """The values, if they should be bits or spins and are few, else their range."""
    values = torch.unique(x).tolist()
    if form.domain in ("binary", "spin") and 2 < len(values) <= 5:
        return f"are {', '.join(f'{value:.6g}' for value in values)}"
    return f"lie between {values[0]:.6g} and {values[-1]:.6g}"


def _only(x: Tensor, low: float, high: float) -> bool:
    return bool(((x == low) | (x == high)).all())
