"""What one evaluation of an energy yields, and how two of them are merged chain by chain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

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
        mixed = object.__new__(type(self))
        parts, theirs = vars(mixed), vars(other)
        for name, mine in vars(self).items():
            parts[name] = _choose(accept, mine, theirs[name])
        return mixed

    def rows(self, index: Tensor) -> Self:
        """The rows of this object with these numbers `(n,)`, in this order."""
        chosen = object.__new__(type(self))
        for name, mine in vars(self).items():
            chosen.__dict__[name] = _rows(mine, index)
        return chosen


def _rows(value: Any, index: Tensor) -> Any:
    if isinstance(value, PerChain):
        return value.rows(index)
    return value[index] if isinstance(value, Tensor) and value.dim() > 0 else value


def _choose(accept: Tensor, new: Any, old: Any) -> Any:
    if isinstance(new, PerChain):
        return new.where(accept, old)
    if not isinstance(new, Tensor) or new.dim() == 0 or new is old:
        return new
    rows = accept if new.dim() == 1 else accept.view(-1, *[1] * (new.dim() - 1))
    return torch.where(rows, new, old)


@dataclass
class Evaluation(PerChain):
    """What one evaluation of an energy at x yields.

    Attributes:
        energy: E(x), `(B,)`.
        grad: dE/dx, `(B, *event)`.
        logits: pre-activations of the hidden units, `(B, H)`, from energies that yield them: `GRBM` and its `Bridge`.
        known: what a later evaluation at the same x may reuse. Only a `Bridge` sets it, since its ends do not depend on
            its beta.

    Example:
        >>> from ebmlab.energies import GRBM
        >>> at = GRBM(4, 3).evaluate(torch.ones(2, 4))
        >>> at.energy.shape, at.grad.shape, at.logits.shape
        (torch.Size([2]), torch.Size([2, 4]), torch.Size([2, 3]))
    """

    energy: Tensor
    grad: Tensor
    logits: Tensor | None = None
    known: PerChain | None = None
