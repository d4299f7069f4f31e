"""The spaces that a state x can live in.

States are tensors `(B, *event_shape)` of any numeric type; energies and samplers convert them to their floating type.
Finite domains also have an index form, `(B, *shape)`, which numbers the values of each coordinate from 0 on.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Self

import torch
from torch import Tensor

from ebmlab.errors import UserError
from ebmlab.io.rebuilding import Recorded

MAX_ENUMERABLE = 2**22  # states


class Domain(Recorded):
    """A space of states.

    Args:
        shape: one entry per coordinate.

    Attributes:
        event_shape: of one state; `shape`, followed by the number of classes on a `Categorical` domain.

    Example:
        >>> domain = Spin((2, 3))
        >>> domain.random(5).shape, domain.size
        (torch.Size([5, 2, 3]), 6)
        >>> domain.validate(torch.zeros(5, 2, 3))
        Traceback (most recent call last):
        ebmlab.errors.UserError: state number 0, counted from 0, is not in Spin(2x3): its values must be -1 or +1
    """

    def __init__(self, shape: int | Sequence[int]) -> None:
        self.shape = self.event_shape = _sizes(type(self).__name__, "shape", shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'x'.join(map(str, self.event_shape))})"

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return math.prod(self.shape)

    def with_shape(self, shape: int | Sequence[int]) -> Self:
        """A domain of another shape whose coordinates take the same values."""
        return type(self)(shape)

    def flat(self, x: Tensor) -> Tensor:
        """States with their coordinates in one axis: `(B, size)`, or `(B, size, K)` on a Categorical domain."""
        return x.flatten(1)

    def random(self, n: int, device: torch.device | str | None = None) -> Tensor:
        """Draws `n` states from the domain's reference law; `(n, *event_shape)`."""
        raise NotImplementedError

    def validate(self, x: Tensor) -> None:
        """Raises `UserError` unless `x` is a batch of states of this domain."""
        if not isinstance(x, Tensor):
            raise UserError(f"states of {self} are tensors, got a {type(x).__name__}; make a tensor of it")
        self.require_shape(x)
        if x.is_complex() or x.is_quantized:
            raise UserError(f"states of {self} are real numbers, got {x.dtype}")
        if not x.is_floating_point() or x.itemsize == 1:  # there is no arithmetic on booleans and float8
            x = x.float()
        parts = x.chunk(-(-x.numel() // 2**18) or 1) if x.device.type == "cpu" else [x]  # which a cache holds
        if all(self._contains(part).all() for part in parts):
            return
        if (bad := ~torch.isfinite(x).flatten(1).all(1)).any():
            found = f"{int(bad.sum())} of {len(x)} states are not finite (NaN or infinite)"
            raise UserError(f"{found}, the first is number {int(bad.nonzero()[0])}, counted from 0")
        first = int((~self._contains(x).flatten(1).all(1)).nonzero()[0])
        raise UserError(f"state number {first}, counted from 0, is not in {self}: its values must be {self._values()}")

    def require_shape(self, x: Tensor) -> None:
        """Raises `UserError` unless `x` has the shape of a batch of states, `(B, *event_shape)`."""
        if x.shape[1:] != self.event_shape or not x.shape:
            expected = ", ".join(["B", *map(str, self.event_shape)])
            raise UserError(f"states of {self} have shape ({expected}), got {tuple(x.shape)}")

    def hops(self, new: Tensor, old: Tensor) -> Tensor:
        """How far each chain moved, `(B,)`: the Euclidean distance on Real, the number of changed coordinates else."""
        return self.lengths(self.difference(new, old))

    def difference(self, new: Tensor, old: Tensor, *, out: Tensor | None = None) -> Tensor:
        """How each entry of states `(B, *event_shape)` differs: new - old on Real, 1 or 0 else; written into `out`."""
        return torch.sub(new, old, out=out)

    def lengths(self, difference: Tensor) -> Tensor:
        """The hops `(N,)` of differences `(N, *event_shape)`, which may be overwritten."""
        moved = difference.flatten(1)
        if moved.shape[1] <= 4 and len(moved) > 1000:  # torch takes three times as long to sum many very short rows
            return reduce(torch.add, moved.square_().unbind(1)).sqrt()
        return torch.linalg.vector_norm(moved, dim=1)  # type: ignore[no-any-return]

    def enumerate(self) -> Tensor:
        """All N states of a finite domain, `(N, *event_shape)`.

        Raises:
            UserError: the domain is not finite, or N is above 2^22.
        """
        raise UserError(f"{self} cannot be enumerated: it is not finite")

    def _contains(self, x: Tensor) -> Tensor:
        """Where x has values of the domain, which neither NaN nor infinity is."""
        return torch.isfinite(x)

    def _values(self) -> str:
        return "real numbers"


class Real(Domain):
    """R^shape. Its reference law is the standard normal.

    Example:
        >>> Real(3).random(5).shape
        torch.Size([5, 3])
    """

    def random(self, n: int, device: torch.device | str | None = None) -> Tensor:
        return torch.randn(n, *self.event_shape, device=device)


class Finite(Domain):
    """A product of finite sets of `num_values` values each. Its reference law is uniform.

    Example:
        >>> domain = Spin(2)
        >>> domain.to_index(domain.enumerate()).tolist()
        [[0, 0], [0, 1], [1, 0], [1, 1]]
    """

    num_values: int

    @property
    def values(self) -> Tensor:
        """The values of one coordinate, in the order of the index form: `(num_values,)`, or one-hot rows `(K, K)`."""
        return self.from_index(torch.arange(self.num_values))

    def values_like(self, x: Tensor) -> Tensor:
        """`values`, made on the device of x and in its precision: a copy to a GPU would be waited for."""
        return self.from_index(torch.arange(self.num_values, device=x.device)).to(x.dtype)

    def difference(self, new: Tensor, old: Tensor, *, out: Tensor | None = None) -> Tensor:
        if out is None:  # booleans take six times as long to add
            return torch.ne(new := new.detach(), old.detach(), out=new.new_empty(new.shape))
        return torch.ne(new, old, out=out)

    def lengths(self, difference: Tensor) -> Tensor:
        return difference.flatten(1).sum(1)

    def to_index(self, x: Tensor) -> Tensor:
        """Converts states `(B, *event_shape)` to their index form `(B, *shape)`, int64."""
        raise NotImplementedError

    def from_index(self, index: Tensor) -> Tensor:
        """Converts an index form `(B, *shape)` to states `(B, *event_shape)` of torch's default float dtype."""
        raise NotImplementedError

    def random(self, n: int, device: torch.device | str | None = None) -> Tensor:
        return self.from_index(torch.randint(self.num_values, (n, *self.shape), device=device))

    def enumerate(self) -> Tensor:
        if self.num_values**self.size > MAX_ENUMERABLE:
            raise UserError(f"{self} has {self.num_values}^{self.size} states: {MAX_ENUMERABLE} can be enumerated")
        index = torch.tensor([*itertools.product(range(self.num_values), repeat=self.size)])
        return self.from_index(index.view(-1, *self.shape))


class Binary(Finite):
    """{0, 1}^shape.

    Example:
        >>> Binary(2).enumerate().tolist()
        [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
    """

    num_values = 2

    def to_index(self, x: Tensor) -> Tensor:
        return x.long()

    def from_index(self, index: Tensor) -> Tensor:
        return index.to(torch.get_default_dtype())

    def _contains(self, x: Tensor) -> Tensor:
        return (x == 0) | (x == 1)

    def _values(self) -> str:
        return "0 or 1"


class Spin(Finite):
    """{-1, +1}^shape; index 0 is -1.

    Example:
        >>> Spin(1).enumerate().tolist()
        [[-1.0], [1.0]]
    """

    num_values = 2

    def to_index(self, x: Tensor) -> Tensor:
        return (x > 0).long()

    def from_index(self, index: Tensor) -> Tensor:
        return index.to(torch.get_default_dtype()).mul(2).sub_(1)

    def _contains(self, x: Tensor) -> Tensor:
        return x.abs() == 1

    def _values(self) -> str:
        return "-1 or +1"


class Ordinal(Finite):
    """{0, ..., num_values - 1}^shape, whose values are ordered as integers are.

    Example:
        >>> Ordinal(1, num_values=3).enumerate().tolist()
        [[0.0], [1.0], [2.0]]
    """

    def __init__(self, shape: int | Sequence[int], num_values: int) -> None:
        super().__init__(shape)
        (self.num_values,) = _sizes("Ordinal", "num_values", num_values)

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, num_values={self.num_values})"

    def with_shape(self, shape: int | Sequence[int]) -> Self:
        return type(self)(shape, self.num_values)

    def to_index(self, x: Tensor) -> Tensor:
        return x.long()

    def from_index(self, index: Tensor) -> Tensor:
        return index.to(torch.get_default_dtype())

    def _contains(self, x: Tensor) -> Tensor:
        return (x >= 0) & (x < self.num_values) & (x == x.round())

    def _values(self) -> str:
        return f"integers 0 to {self.num_values - 1}"


class Categorical(Finite):
    """One-hot vectors of length `num_values`, one per entry of `shape`; event shape `(*shape, num_values)`.

    Example:
        >>> Categorical(2, num_values=3).from_index(torch.tensor([[0, 2]])).tolist()
        [[[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]]
    """

    def __init__(self, shape: int | Sequence[int], num_values: int) -> None:
        super().__init__(shape)
        (self.num_values,) = _sizes("Categorical", "num_values", num_values)
        self.event_shape = (*self.shape, self.num_values)

    def with_shape(self, shape: int | Sequence[int]) -> Self:
        return type(self)(shape, self.num_values)

    def to_index(self, x: Tensor) -> Tensor:
        return x.argmax(-1)

    def from_index(self, index: Tensor) -> Tensor:
        zeros = torch.zeros(*index.shape, self.num_values, device=index.device)
        return zeros.scatter(-1, index.long().unsqueeze(-1), 1.0)  # torch's `one_hot` takes twice as long

    def flat(self, x: Tensor) -> Tensor:
        return x.reshape(len(x), self.size, self.num_values)

    def lengths(self, difference: Tensor) -> Tensor:
        return difference.flatten(1).sum(1) / 2  # where a coordinate changes, a 1 moves

    def _contains(self, x: Tensor) -> Tensor:
        return ((x == 0) | (x == 1)).all(-1) & (x.sum(-1) == 1)

    def _values(self) -> str:
        return f"one-hot vectors of length {self.num_values}"


def _sizes(name: str, what: str, given: int | Sequence[int]) -> tuple[int, ...]:
    """Sizes that a user has given, one or several, as whole numbers."""
    try:
        sizes = tuple(map(operator.index, given)) if isinstance(given, Iterable) else (operator.index(given),)
    except TypeError:
        sizes = ()
    if not sizes or min(sizes) < 1:
        raise UserError(f"{name}: {what} is {given!r}, but must be a whole number from 1 on, or several for a shape")
    return sizes
