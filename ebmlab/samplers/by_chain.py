"""Numbers for each chain of a step's report, which are computed where somebody reads them."""

from __future__ import annotations

from torch import Tensor

from ebmlab.domains import Domain


class Moved:
    """How far each chain moved.

    Args:
        domain: of the states.
        new: x after the step, `(B, *event)`.
        old: x before it.

    Example:
        >>> import torch
        >>> from ebmlab.domains import Binary
        >>> Moved(Binary(3), torch.ones(2, 3), torch.zeros(2, 3))()
        tensor([3., 3.])
    """

    __slots__ = ("domain", "new", "old")

    def __init__(self, domain: Domain, new: Tensor, old: Tensor) -> None:
        self.domain, self.new, self.old = domain, new, old

    def __call__(self) -> Tensor:
        return self.domain.hops(self.new, self.old)


class Sure:
    """1 for each chain, the acceptance of a step that nothing rejects; NaN where what it drew from has NaN.

    Args:
        x: the chains, `(B, *event)`.
        law: numbers of the laws that the step drew from, `(B, n)`, if they may be NaN.

    Example:
        >>> import torch
        >>> x = torch.zeros(2, 3)
        >>> Sure(x)(), Sure(x, torch.tensor([[0.0, 3.0], [torch.nan, 3.0]]))()
        (tensor([1., 1.]), tensor([1., nan]))
    """

    __slots__ = ("law", "x")

    def __init__(self, x: Tensor, law: Tensor | None = None) -> None:
        self.x, self.law = x, law

    def __call__(self) -> Tensor:
        return self.x.new_ones(len(self.x)) if self.law is None else self.law.sum(1).clamp(1, 1)  # clamp keeps NaN
