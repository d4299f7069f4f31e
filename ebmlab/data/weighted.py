"""States of a split for means and for comparisons, where samples may count by weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.utils.data import Sampler

from ebmlab.data.interface import Data, chosen
from ebmlab.errors import UserError
from ebmlab.numerics.noise import by_weight, uniform_numbers
from ebmlab.numerics.streams import own_numbers, undisturbed


@runtime_checkable
class Weighted(Protocol):
    """Data that know the weights of all samples, such as `datamodules.Alignment`."""

    def weights(self, split: str) -> Tensor:
        """The weights of a split's samples, `(N,)`, with mean 1, in the order of `states`."""


class ByWeight(Sampler[int]):
    """Indices of an epoch, as many as samples, in random order.

    Each comes as often as its share of the weight says, rounded down or up at random.

    Args:
        weights: at least 0, `(N,)`.

    Example:
        >>> sorted(ByWeight(torch.tensor([1.0, 0.0, 3.0, 0.0])))
        [0, 2, 2, 2]
    """

    def __init__(self, weights: Tensor) -> None:
        self.weights = weights

    def __len__(self) -> int:
        return len(self.weights)

    def __iter__(self) -> Iterator[int]:
        index = by_weight(self.weights, len(self), start=uniform_numbers())
        return iter(index[torch.randperm(len(index))].tolist())


def weighted_states(data: Data, split: str, *, n: int | None = None, seed: int = 0) -> tuple[Tensor, Tensor | None]:
    """All states of a split, or n of them, for means, and their weights `(N,)`; None if all count alike.

    Of a split with more than n states, n are drawn as in `drawn_states`; they count alike. Of weighted data that do not
    know all weights at once, it takes an epoch of batches.
    """
    if not data.weighted:
        return data.states(split, n, seed), None
    x, weights = _all(data, split)
    return (x, weights) if n is None or n >= len(x) else (_drawn(x, weights, n, seed), None)


def drawn_states(data: Data, split: str, *, n: int | None = None, seed: int = 0) -> Tensor:
    """States of a split that follow the law of the data, for comparisons: `n` or, if it has fewer, as many as it has.

    They are those of `Data.states` if all count alike. Weighted data are drawn by their weights: a state comes as often
    as its share says, rounded at random, which `seed` decides.
    """
    if not data.weighted:
        return data.states(split, n, seed)
    x, weights = _all(data, split)
    return _drawn(x, weights, len(x) if n is None else min(n, len(x)), seed)


def _all(data: Data, split: str) -> tuple[Tensor, Tensor]:
    if isinstance(data, Weighted):
        return data.states(split), data.weights(split)
    states, each = [], []
    with own_numbers(0), undisturbed(loader := data.loader(split), 0):
        for batch in loader:
            states.append(data.convert(batch).float().cpu())
            each.append(data.batch_weights(batch))
    weights = torch.cat([w for w in each if w is not None]).cpu()
    return torch.cat(states), with_mean_one(weights, f"{data.title}, {split} split")


def _drawn(x: Tensor, weights: Tensor, n: int, seed: int) -> Tensor:
    start = uniform_numbers(generator=torch.Generator().manual_seed(seed))
    return x[by_weight(weights.double(), n, start=start)[chosen(n, n, seed)]]


def with_mean_one(weights: Tensor, where: str) -> Tensor:
    """Weights `(N,)` over their mean, float32.

    Args:
        weights: of a split.
        where: what the error names.

    Raises:
        UserError: all are 0.
    """
    if not weights.any():
        raise UserError(f"{where}: all weights are 0: give others, or another split_seed")
    return (weights / weights.mean()).float()
