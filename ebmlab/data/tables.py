"""Tables of features and targets: what posteriors are built from and files are read into."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


@dataclass(frozen=True)
class Rows:
    """A table in memory. It is a `TabularSource` itself.

    Attributes:
        train_x: features, `(N, F)`.
        train_y: targets between 0 and 1, `(N,)`.
        test_x: features of the test rows, `(M, F)`, if there are any.
        test_y: targets of the test rows, `(M,)`.

    Example:
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
    """Anything that can read a table.

    Example:
        >>> class Noise:
        ...     def load(self) -> Rows:
        ...         return Rows(torch.rand(5, 3), torch.rand(5))
        >>> source: TabularSource = Noise()
        >>> source.load().train_y.shape
        torch.Size([5])
    """

    def load(self) -> Rows: ...
