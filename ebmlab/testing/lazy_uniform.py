"""Uniform random numbers of which is only known what code has asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


class NotEnumerableError(Exception):
    """Code uses random numbers in a way that cannot be enumerated; the message completes "the kernel ..."."""


class Source:
    """The uniform numbers of one call: the interval that each may still lie in, and which are decided together.

    Args:
        shape: of the call's result.
        num_chains: the length of the axis that numbers the chains. One number without such an axis is shared by all.

    Attributes:
        lower, upper: ends of the interval of each number, `(numel,)`, float64.
        group: the group of each number, `(numel,)`; the numbers of a group are decided together, one for each chain.
        rows: the chain of each number, `(numel,)`; 0 where all chains share it.
        num_rows: the number of chains; 1 where all share the numbers.
    """

    def __init__(self, shape: torch.Size, num_chains: int) -> None:
        size = shape.numel()
        axes = [axis for axis, length in enumerate(shape) if length == num_chains > 1]
        if len(axes) > 1 or (not axes and min(num_chains, size) > 1):
            raise NotEnumerableError(f"draws random numbers of shape {tuple(shape)}, of which no axis is the chains")
        self.lower, self.upper = torch.zeros(size, dtype=torch.float64), torch.ones(size, dtype=torch.float64)
        self.group, self.rows, self.num_rows = torch.arange(size), torch.zeros(size, dtype=torch.long), 1
        if axes:
            places = self.group.view(shape).movedim(axes[0], 0).reshape(num_chains, -1)
            self.num_rows = num_chains
            self.rows[places] = torch.arange(num_chains).unsqueeze(1).expand_as(places)
            self.group[places.clone()] = torch.arange(places.shape[1]).expand_as(places)


class Undecided(Tensor):
    """scale * f(u) + shift for uniform numbers u of a `Source`, with f(u) = u, log(u), or log(-log(u)).

    Attributes:
        source: where the numbers come from.
        places: which number of the source each entry is, int64.
        scale, shift: float64 tensors of the same shape.
        logs: the number of logarithms in f.
    """

    source: Source
    places: Tensor
    scale: Tensor
    shift: Tensor
    logs: int

    @classmethod
    def of(cls, like: Tensor, source: Source) -> Undecided:
        """The numbers of a source, in the shape and dtype of `like`."""
        ones = torch.ones(like.shape, dtype=torch.float64)
        ids = torch.arange(like.numel()).view(like.shape)
        return torch.full_like(like, torch.nan).as_subclass(cls).made(source, 0, ids, ones, 0 * ones)

    def made(self, source: Source, logs: int, places: Tensor, scale: Tensor, shift: Tensor) -> Undecided:
        """Sets the attributes."""
        self.source, self.logs, self.places, self.scale, self.shift = source, logs, places, scale, shift
        return self

    def become(self, other: Undecided) -> Undecided:
        """Changes in place."""
        return self.made(other.source, other.logs, other.places, other.scale, other.shift)

    def seen(self, view: Callable[[Tensor], Any]) -> Undecided:
        """The same numbers in another shape, or some of them."""
        new: Undecided = view(self.as_subclass(Tensor)).as_subclass(Undecided)
        return new.made(self.source, self.logs, view(self.places), view(self.scale), view(self.shift))

    def moved(self, scale: Any = 1.0, shift: Any = 0.0) -> Undecided:
        """`scale` times the numbers plus `shift`."""
        like = self.as_subclass(Tensor) * scale + shift
        same = self.seen(lambda tensor: tensor.expand(like.shape))
        new: Undecided = like.as_subclass(Undecided)
        return new.made(self.source, self.logs, same.places, same.scale * scale, same.shift * scale + shift)

    def log_of(self) -> Undecided:
        """Their logarithms."""
        sign = -1.0 if self.logs else 1.0
        if self.logs > 1 or self.shift.any() or not (sign * self.scale > 0).all():
            raise NotEnumerableError("takes a logarithm of random numbers that cannot be followed")
        new = self.seen(lambda tensor: tensor)
        return new.made(self.source, self.logs + 1, self.places, torch.ones_like(self.scale), (sign * self.scale).log())

    def is_gumbel(self) -> bool:
        """Whether they are independent Gumbel numbers, each with a shift."""
        return self.logs == 2 and bool((self.scale == -1).all()) and self._is_whole()

    def is_fresh(self) -> bool:
        """Whether they are all numbers of their source, as uniform as they were."""
        return not (self.logs or self.shift.any() or (self.scale != 1).any()) and self._is_whole()

    def _is_whole(self) -> bool:
        asked = bool(self.source.lower.any() or (self.source.upper < 1).any())
        return not asked and len(set(self.places.flatten().tolist())) == len(self.source.lower)
