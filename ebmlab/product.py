"""States of several kinds side by side: bits with real numbers, categories with reals, labels with pixels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Self

import torch
from torch import Tensor

from ebmlab.domains import Binary, Categorical, Domain, Real
from ebmlab.errors import WHY, UserError, explained


class Product(Domain):
    """A product of named domains. A state is one row of numbers, the flattened states of the parts one after the other.

    `split` takes states apart and `join` puts them together. Finite parts keep their values as floats, so that one
    tensor holds all. `samplers.Alternate` moves each part given the others.

    Args:
        parts: the domains by name, in the order in which a state holds them.

    Attributes:
        parts: as in the arguments.

    Raises:
        UserError: there are no parts, or one is no domain, or a product itself.

    Example:
        >>> domain = Product(bits=Binary(3), place=Real(2))
        >>> x = domain.random(5)
        >>> domain, x.shape, domain.split(x)["place"].shape
        (Product(bits=Binary(3), place=Real(2)), torch.Size([5, 5]), torch.Size([5, 2]))
    """

    def __init__(self, **parts: Domain) -> None:
        for name, part in parts.items():
            if not isinstance(part, Domain) or isinstance(part, Product):
                raise UserError(f"Product: {name} is {part!r}, but must be a domain such as Binary(3) or Real(2)")
        if not parts:
            raise UserError("Product has no parts: name some, such as Product(bits=Binary(3), place=Real(2))")
        self.parts = parts
        self._widths = [math.prod(part.event_shape) for part in parts.values()]
        super().__init__(sum(self._widths))

    def __repr__(self) -> str:
        return f"Product({', '.join(f'{name}={part}' for name, part in self.parts.items())})"

    @classmethod
    def of_columns(cls, columns: Sequence[int]) -> Product:
        """The domain of the rows of a table: `numbers` on `Real`, `bits`, and `classes_K` of K classes.

        Args:
            columns: for each column the number of its classes, or 0 if it holds real numbers.

        Example:
            >>> Product.of_columns([0, 3, 2, 0, 3])
            Product(numbers=Real(2), bits=Binary(1), classes_3=Categorical(2x3))
        """
        if any(k < 0 or k == 1 for k in columns):
            raise UserError(f"Product: columns are {list(columns)}, but each must be 0, or a number of classes from 2")
        parts: dict[str, Domain] = {}
        for k in sorted(set(columns)):
            size = list(columns).count(k)
            name = {0: "numbers", 2: "bits"}.get(k, f"classes_{k}")
            parts[name] = Real(size) if k == 0 else Binary(size) if k == 2 else Categorical(size, k)
        return cls(**parts)

    @property
    def size(self) -> int:
        return sum(part.size for part in self.parts.values())

    def with_shape(self, shape: int | Sequence[int]) -> Self:
        raise UserError(f"{self} has parts of several kinds, and so no other shape")

    def entries(self, *names: str) -> Tensor:
        """Which numbers of a state belong to these parts, `(n,)`, bool: a mask for `Clamped`.

        Raises:
            UserError: there is no such part.

        Example:
            >>> Product(bits=Binary(3), place=Real(2)).entries("place").tolist()
            [False, False, False, True, True]
        """
        if missing := [name for name in names if name not in self.parts]:
            raise UserError(f"{self} has no part {missing[0]}")
        flags = [torch.full((width,), name in names) for name, width in zip(self.parts, self._widths, strict=True)]
        return torch.cat(flags)

    def subset(self, kept: Tensor) -> Product:
        """The product of the coordinates whose numbers are kept, `(n,)`, bool; parts that lose all of theirs are gone.

        Raises:
            UserError: some numbers of a one-hot vector are kept and others are not.
        """
        parts: dict[str, Domain] = {}
        rows = torch.split(kept, self._widths)
        for (name, part), row in zip(self.parts.items(), rows, strict=True):
            whole = row.view(part.size, -1)
            if not (whole == whole[:, :1]).all():
                raise UserError(f"of a coordinate of {name}, {part}, some classes are kept and others are not")
            if size := int(whole[:, 0].sum()):
                parts[name] = part.with_shape(size)
        return Product(**parts)

    def split(self, x: Tensor) -> dict[str, Tensor]:
        """The parts `(B, *event_shape)`, by name, of states `(B, n)`.

        Raises:
            UserError: x has another shape.
        """
        self.require_shape(x)
        rows = torch.split(x, self._widths, 1)
        return {name: row.view(len(x), *p.event_shape) for (name, p), row in zip(self.parts.items(), rows, strict=True)}

    def join(self, parts: Mapping[str, Tensor]) -> Tensor:
        """States `(B, n)` with these parts `(B, *event_shape)`, by name.

        Raises:
            UserError: a part is missing, is not one of this domain, or has another shape.
        """
        if parts.keys() != self.parts.keys():
            raise UserError(f"states of {self} have parts {', '.join(self.parts)}, got {', '.join(parts) or 'none'}")
        for name, part in self.parts.items():
            part.require_shape(parts[name])
        return torch.cat([parts[name].flatten(1) for name in self.parts], 1)

    def random(self, n: int, device: torch.device | str | None = None) -> Tensor:
        return self.join({name: part.random(n, device) for name, part in self.parts.items()})

    def validate(self, x: Tensor) -> None:
        super().validate(x)
        for name, part in self.split(x).items():
            with explained(f"{name}: {WHY}", UserError):
                self.parts[name].validate(part)

    def difference(self, new: Tensor, old: Tensor, *, out: Tensor | None = None) -> Tensor:
        before, after = self.split(old), self.split(new)
        joined = self.join({name: part.difference(after[name], before[name]) for name, part in self.parts.items()})
        return joined if out is None else out.copy_(joined)

    def lengths(self, difference: Tensor) -> Tensor:
        """Coordinates of finite parts that have changed, plus the Euclidean distances of real parts, `(N,)`."""
        rows = self.split(difference)
        return torch.stack([part.lengths(rows[name]) for name, part in self.parts.items()]).sum(0)
