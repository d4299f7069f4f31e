"""Numbers for each chain that are computed when they are read, of several steps at once where tensors are small."""

from __future__ import annotations

from collections.abc import Callable

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
