"""Tables of features and targets, between those who read them and those who fit them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


@dataclass(frozen=True)
class Rows:
    """A table in memory; a `TabularSource`.

    Attributes:
        train_x: features, `(N, F)`.
        train_y: targets between 0 and 1, `(N,)`.
        test_x: features to test on, `(M, F)`, if there are any.
        test_y: their targets, `(M,)`.

    Example:
        >>> import torch
        >>> Rows(torch.rand(5, 3), torch.rand(5)).load().train_x.shape
        torch.Size([5, 3])
    """

    train_x: Tensor
    train_y: Tensor
    test_x: Tensor | None = None
    test_y: Tensor | None = None

    def load(self) -> Rows:
        """Itself."""
        return self


class TabularSource(Protocol):
    """Reads a table."""

    def load(self) -> Rows: ...
