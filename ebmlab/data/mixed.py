"""Rows of a table of numbers and classes as states of `Product.of_columns`, and back."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from ebmlab.errors import UserError


def to_states(table: Tensor, columns: Sequence[int]) -> Tensor:
    """States `(B, n)` of rows `(B, len(columns))`: real numbers, bits, and one-hot vectors by number of classes.

    Args:
        table: the rows.
        columns: for each column the number of its classes, or 0 if it holds real numbers.

    Raises:
        UserError: a class is none of its column's.
    """
    counts = torch.tensor(columns, device=table.device)
    wrong = ((table != table.round()) | (table < 0) | (table >= counts)) & (counts > 0)
    if wrong.any():
        row, column = wrong.nonzero()[0].tolist()
        raise UserError(
            f"row {row}, column {column}, both counted from 0, holds {float(table[row, column]):.6g}, but must hold "
            f"classes from 0 to {columns[column] - 1}"
        )
    parts = []
    for k in sorted(set(columns)):
        part = table[:, counts == k]
        parts.append(one_hot(part.long(), k).flatten(1).to(table) if k > 2 else part)
    return torch.cat(parts, 1)


def to_entries(mask: Tensor, columns: Sequence[int]) -> Tensor:
    """A mask over the columns of a table `(len(columns),)` as one over the numbers of a state, `(n,)`."""
    counts = torch.tensor(columns, device=mask.device)
    parts = [mask[counts == k].repeat_interleave(k if k > 2 else 1) for k in sorted(set(columns))]
    return torch.cat(parts)


def to_table(x: Tensor, columns: Sequence[int]) -> Tensor:
    """Rows `(B, len(columns))` of states `(B, n)`, the inverse of `to_states`."""
    counts = torch.tensor(columns, device=x.device)
    table = x.new_empty(len(x), len(columns))
    first = 0
    for k in sorted(set(columns)):
        size = int((counts == k).sum())
        part = x[:, first : first + size * max(1, k * (k > 2))]
        table[:, counts == k] = part.view(len(x), size, k).argmax(2).to(x) if k > 2 else part
        first += part.shape[1]
    return table
