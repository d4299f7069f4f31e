"""Reports of steps: numbers for each chain, computed when they are read, of several small steps at once."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

TOGETHER = 2**15  # numbers that are read at once, about: an operation on fewer takes as long
MOST = 32  # steps that are read at once


class ByChain:
    """A number for each chain, `(B,)`, which a function computes of tensors `(B, ...)`.

    The function treats rows one by one. So it may be given the rows of several steps, one step after the other.

    Args:
        function: of the tensors.
        tensors: each `(B, ...)`, not overwritten afterwards.

    Example:
        >>> ByChain(torch.sub, torch.ones(3), torch.ones(3))()
        tensor([0., 0., 0.])
    """

    def __init__(self, function: Callable[..., Tensor], *tensors: Tensor) -> None:
        self.function, self.tensors = function, tensors

    def __call__(self) -> Tensor:
        return self.function(*self.tensors)

    def times(self, factor: Tensor) -> ByChain:
        """The product with a factor `(B,)`."""
        return ByChain(_Times(self.function), factor, *self.tensors)


def certain(x: Tensor) -> Tensor:
    """1 for each chain, `(B,)`: the acceptance of states x `(B, *event)` that nothing rejects.

    Example:
        >>> certain(torch.zeros(2, 3))
        tensor([1., 1.])
    """
    return x.new_ones(len(x))


class _Times:
    """The product of a factor and of what a function computes. Those of equal functions are equal."""

    def __init__(self, function: Callable[..., Tensor]) -> None:
        self.function = function

    def __call__(self, factor: Tensor, *tensors: Tensor) -> Tensor:
        return self.function(*tensors) * factor

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Times) and self.function == other.function

    def __hash__(self) -> int:
        return hash(self.function)


def steps_together(size: int) -> int:
    """How many steps to read at once, if a step has tensors of at most `size` numbers.

    Example:
        >>> steps_together(100), steps_together(2**14), steps_together(10**6)
        (32, 2, 1)
    """
    return min(MOST, max(1, TOGETHER // max(1, size)))


class Tally:
    """The sum over steps of a number for each chain.

    Args:
        zeros: where the sum begins, `(B,)`.

    Example:
        >>> tally = Tally(torch.zeros(2))
        >>> for k in range(100):
        ...     tally.add(ByChain(torch.neg, torch.ones(2)))
        >>> tally.total()
        tensor([-100., -100.])
    """

    def __init__(self, zeros: Tensor) -> None:
        self._total = zeros
        self._function: Callable[..., Tensor] | None = None
        self._waiting: list[tuple[Tensor, ...]] = []
        self._room = 0

    def add(self, value: Tensor | Callable[[], Tensor]) -> None:
        """Adds the number of one step."""
        if isinstance(value, ByChain):
            if self._room == 0 or value.function != self._function:
                self._read()
                self._function = value.function
                self._room = steps_together(max(tensor.numel() for tensor in value.tensors))
            self._waiting.append(value.tensors)
            if len(self._waiting) >= self._room:
                self._read()
        else:
            self._total = self._total + (value if isinstance(value, Tensor) else value())

    def total(self) -> Tensor:
        """The sum, `(B,)`."""
        self._read()
        return self._total

    def _read(self) -> None:
        """Adds the numbers of the steps whose tensors wait."""
        if not self._waiting:
            return
        assert self._function is not None
        if len(self._waiting) == 1:
            self._total = self._total + self._function(*self._waiting[0])
        else:
            values = self._function(*map(torch.cat, zip(*self._waiting, strict=True)))
            self._total = self._total + values.view(len(self._waiting), -1).sum(0)
        self._waiting.clear()
