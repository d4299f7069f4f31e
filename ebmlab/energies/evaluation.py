"""What one evaluation of an energy yields, and how two of them are merged chain by chain."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Self

import torch
from torch import Tensor


class PerChain:
    """Holds tensors with one row per chain. Scalars, and attributes that are not tensors, belong to all chains.

    Example:
        >>> from ebmlab.energies import Evaluation
        >>> new, old = Evaluation(torch.ones(2), torch.ones(2, 3)), Evaluation(torch.zeros(2), torch.zeros(2, 3))
        >>> new.where(torch.tensor([True, False]), old).energy
        tensor([1., 0.])
    """

    def where(self, accept: Tensor, other: Self) -> Self:
        """Takes the rows of this object where `accept` `(B,)` is True, and those of `other` elsewhere."""
        return self.merged(Merge(accept), other)

    def overwritten(self, accept: Tensor, other: Self) -> Self:
        """`where`, for an object whose tensors nobody else holds: on a CPU, rows of `other` are written into them."""
        merge = Merge(accept, overwrite=True)
        return self if merge.takes_all else self.merged(merge, other)

    def merged(self, merge: Merge, other: Self) -> Self:
        """All tensors merged with those of `other` by the same decisions."""
        return self.each(merge, other)

    def rows(self, index: Tensor) -> Self:
        """The rows of this object with these numbers `(n,)`, in this order."""
        return self.each(lambda mine, _: mine[index], self)

    def with_rows(self, index: Tensor, other: Self) -> Self:
        """This object, with the rows of `other` in place of those with these numbers `(n,)`."""
        return self.each(lambda mine, new: mine.index_copy(0, index, new), other)

    def each(self, change: Callable[[Tensor, Tensor], Tensor], other: Self) -> Self:
        """An object of what becomes of each tensor and that of `other`; what belongs to all chains stays."""
        changed = object.__new__(type(self))
        parts, theirs = vars(changed), vars(other)
        for name, mine in vars(self).items():
            if isinstance(mine, PerChain):
                parts[name] = mine.each(change, theirs[name])
            else:
                parts[name] = change(mine, theirs[name]) if isinstance(mine, Tensor) and mine.dim() > 0 else mine
        return changed

    def tensors(self) -> list[Tensor]:
        """All tensors, those of parts included."""
        found: list[Tensor] = []
        for value in vars(self).values():
            found += value.tensors() if isinstance(value, PerChain) else [value] if isinstance(value, Tensor) else []
        return found

    def with_tensors(self, tensors: Iterable[Tensor]) -> Self:
        """This object with others in place of `tensors()`, in the same order."""
        return self._filled(iter(tensors))

    def _filled(self, tensors: Iterator[Tensor]) -> Self:
        filled = object.__new__(type(self))
        for name, value in vars(self).items():
            if isinstance(value, PerChain):
                filled.__dict__[name] = value._filled(tensors)
            else:
                filled.__dict__[name] = next(tensors) if isinstance(value, Tensor) else value
        return filled


class Merge:
    """Merges pairs of tensors `(B, ...)`: rows of the first where `accept` `(B,)` is True, of the second elsewhere.

    A pair that comes again is merged once only: x, for example, is part of a state and of its proposal. On a CPU, only
    rows of the second tensor are copied, and none if all chains decide alike. On a GPU, where finding these rows would
    make the CPU wait, and in a compiled program, `torch.where` takes all rows.

    Args:
        accept: `(B,)`, bool.
        overwrite: the first tensor of a pair may be overwritten.
    """

    def __init__(self, accept: Tensor, overwrite: bool = False) -> None:
        self.accept, self.overwrite = accept, overwrite
        by_rows = not torch.compiler.is_compiling() and accept.device.type == "cpu"
        if by_rows and accept.numel() == 1:  # one chain needs no rows
            self.rejected, self._num_rejected = None, 0 if accept.item() else 1
        else:
            self.rejected = (~accept).nonzero().squeeze(1) if by_rows else None
            self._num_rejected = -1 if self.rejected is None else self.rejected.numel()
        self.takes_all = self._num_rejected == 0  # as far as is known without waiting for a GPU
        self._done: dict[tuple[int, int], tuple[Tensor, Tensor, Tensor]] = {}  # holds the pair, so that ids stay theirs

    def __call__(self, new: Tensor, old: Tensor) -> Tensor:
        if torch.compiler.is_compiling():
            return self._merge(new, old)
        if new is old or self.takes_all:
            return new
        if self._num_rejected == self.accept.numel():
            return old
        key = id(new), id(old)
        if key not in self._done:
            self._done[key] = new, old, self._merge(new, old)
        return self._done[key][2]

    def _merge(self, new: Tensor, old: Tensor) -> Tensor:
        if self.rejected is None or new.dim() == 1:
            return torch.where(self.accept.view(-1, *[1] * (new.dim() - 1)), new, old)
        kept = old.index_select(0, self.rejected)
        met = any(new is first for first, _, _ in self._done.values())  # with another `old`: that result must stay
        if self.overwrite and new.is_contiguous() and not met:
            return new.index_copy_(0, self.rejected, kept)
        return torch.index_copy(new, 0, self.rejected, kept)


@dataclass
class Evaluation(PerChain):
    """What one evaluation of an energy at x yields.

    Attributes:
        energy: E(x), `(B,)`.
        grad: dE/dx, `(B, *event)`.
        logits: pre-activations of the hidden units, `(B, H)`, from energies that yield them: `GRBM` and its `Bridge`.
        known: what a later evaluation at the same x may reuse at another beta: the ends of a `Bridge`, or the energy of
            chains at temperatures of their own. Other energies set none.

    Example:
        >>> from ebmlab.energies import GRBM
        >>> at = GRBM(4, 3).evaluate(torch.ones(2, 4))
        >>> at.energy.shape, at.grad.shape, at.logits.shape
        (torch.Size([2]), torch.Size([2, 4]), torch.Size([2, 3]))
    """

    energy: Tensor
    grad: Tensor
    _: KW_ONLY
    logits: Tensor | None = None
    known: PerChain | None = None
