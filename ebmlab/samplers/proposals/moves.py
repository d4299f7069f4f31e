"""Moves that change one coordinate, and tables of their log-probabilities.

A move is a coordinate i of the flattened domain shape and a shift s = 1, ..., num_values - 1. The shift is added to the
index form of the coordinate, modulo num_values. The shift num_values - s reverses the move. A coordinate with two
values has one move.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ebmlab.domains import Binary, Categorical, Finite, Spin


def first_order_moves(domain: Finite, x: Tensor, grad: Tensor) -> Tensor:
    """The locally balanced law of one move, by a first-order expansion of E at x (Grathwohl et al. 2021, Alg. 1).

    It is the softmax of -grad E(x) . (y - x) / 2 over all moves, where y is the state after the move.

    Args:
        domain: where x lives.
        x: states, `(B, *event)`.
        grad: dE/dx at x, `(B, *event)`.

    Returns:
        Log-probabilities `(B, size, num_values - 1)`.

    Example:
        >>> import torch
        >>> from ebmlab.domains import Binary
        >>> first_order_moves(Binary(2), torch.zeros(1, 2), torch.zeros(1, 2)).exp()
        tensor([[[0.5000],
                 [0.5000]]])
    """
    x, grad = domain.flat(x), domain.flat(grad)
    if isinstance(domain, Binary | Spin):
        half = x - 0.5 if isinstance(domain, Binary) else x  # (x - y) / 2
        return (grad * half).log_softmax(1).unsqueeze(-1)
    shifts = torch.arange(1, domain.num_values, device=x.device)
    here = domain.to_index(x).unsqueeze(-1)
    there = (here + shifts) % domain.num_values
    if isinstance(domain, Categorical):
        gain = grad.gather(-1, here) - grad.gather(-1, there)
    else:
        gain = -grad.unsqueeze(-1) * (there - here)
    return (gain / 2).flatten(1).log_softmax(1).view_as(gain)


class Path(NamedTuple):
    """Moves in the order in which they were drawn.

    Attributes:
        coordinates: the coordinate that each move changes, `(B, K)`.
        shifts: the shift of each move, `(B, K)`.
        taken: whether each move is made, `(B, K)`, bool; the moves made come first. None if all are made.

    Example:
        >>> import torch
        >>> path = Path(torch.tensor([[1, 0]]), torch.tensor([[1, 2]]))
        >>> path.gather(torch.tensor([[[0.1, 0.2], [0.3, 0.4]]]))
        tensor([[0.3000, 0.2000]])
    """

    coordinates: Tensor
    shifts: Tensor
    taken: Tensor | None = None

    def gather(self, log_moves: Tensor) -> Tensor:
        """The entries `(B, K)` of a table over moves `(B, size, num_values - 1)`."""
        return log_moves.flatten(1).gather(1, self.coordinates * log_moves.shape[-1] + self.shifts - 1)
