"""Checks the first batch against the energy's domain before training."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ebmlab.data.batch_parts import samples_of
from ebmlab.data.interface import Data
from ebmlab.domains import Binary, Domain, Ordinal, Spin
from ebmlab.errors import UserError, how_many
from ebmlab.numerics.streams import undisturbed


def first_batch(data: Data, split: str) -> Any:
    """The first batch of a split's loader, as the loader gives it. All random streams stay as they are.

    Raises:
        UserError: the loader is empty, or is an iterator, which can be read only once.
    """
    loader: Any = data.loader(split)
    if isinstance(loader, Iterator):
        raise UserError(
            f"{data.title}: the {split} loader is an iterator, which can be read only once: give a DataLoader, or "
            "another object that starts anew each time it is iterated over"
        )
    with undisturbed(loader):
        batch = next(iter(loader), None)
    if batch is None:
        raise UserError(f"{data.title}: the {split} loader is empty: it must give at least one batch")
    return batch


def check_first_batch(data: Data, split: str, domain: Domain, energy: str) -> None:
    """Raises `UserError` unless the first batch of a split holds states of the energy's domain.

    Args:
        data: the data to check.
        split: "train", "val" or "test".
        domain: the energy's domain.
        energy: the energy's name, for error messages.
    """
    batch, where = first_batch(data, split), f"{data.title}, {split} split"
    if data.raw_batches and data.preprocessing is not None:
        data.preprocessing.check_units(samples_of(batch, data.title), where)
    x = data.convert(batch)
    if len(x) == 0 or x.dim() < 2:
        raise UserError(f"{where}: the first batch has shape {tuple(x.shape)}; it must be (B, ...) with B at least 1")
    check_event_shape(tuple(x.shape[1:]), domain, data.title, energy)
    limits = None if data.preprocessing is None else data.preprocessing.limits
    if isinstance(domain, Ordinal) and limits is not None and limits[1] >= domain.num_values:
        raise UserError(  # the largest values may be rare, and in no first batch
            f"{data.title}: the values go up to {limits[1]:g}, but {energy} models {domain}: change its num_values"
        )
    bad = ~torch.isfinite(x).flatten(1).all(1)
    if bad.any():
        raise UserError(
            f"{where}: {int(bad.sum())} of the {len(x)} samples of the first batch hold NaN or infinity, the first is "
            f"number {int(bad.nonzero()[0])}, counted from 0: remove them from the data"
        )
    x = x.reshape(len(x), *domain.event_shape).float()
    try:
        domain.validate(x)
    except UserError as error:
        low, high = float(x.min()), float(x.max())
        found = f"the first batch's lie between {low:.4g} and {high:.4g}{_mend(x, domain)}"
        raise UserError(f"{where}: {error}; {found}") from error


def check_event_shape(given: tuple[int, ...], domain: Domain, title: str, energy: str) -> None:
    """Raises `UserError` unless events of the shape `given` fit the domain, flattened if its states are vectors."""
    wanted = domain.event_shape
    if given == wanted or (len(wanted) == 1 and math.prod(given) == wanted[0]):
        return
    raise UserError(
        f"{title} gives events of shape {given} ({how_many(math.prod(given), 'number')}), but {energy} models "
        f"{domain}: change the energy's size or the data set"
    )


def _mend(x: Tensor, domain: Domain) -> str:
    """Advice on how to convert x to states of the domain; empty if none is known."""
    if isinstance(domain, Binary):
        if (x.abs() == 1).all():
            return ": (x + 1) / 2 makes bits of spins"
        return ": binarize them, or take an energy on real numbers, such as GRBM"
    if isinstance(domain, Spin) and ((x == 0) | (x == 1)).all():
        return ": 2 x - 1 makes spins of bits"
    return ""
