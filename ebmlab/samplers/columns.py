"""Chains of few real coordinates, moved in place with each coordinate of all chains in one row of memory."""

from __future__ import annotations

from functools import reduce

import torch
from torch import Tensor

from ebmlab.energies import Bipartite, Energy
from ebmlab.native.moves import moves
from ebmlab.samplers.tally import MOST, steps_together

FEW = 16  # coordinates of a chain


class Columns:
    """x `(d, B)`, and the distances that chains move, which are added up over several steps at once.

    Sums over few coordinates then run along memory. The energy sees an x that is not contiguous, and noise is drawn in
    the order of these rows.

    Args:
        x: where the chains begin, `(B, d)`.
        hops: distances are added to it, `(B,)`; None if nobody asks for them.

    Example:
        >>> walk = Columns(torch.zeros(3, 2), hops := torch.zeros(3))
        >>> walk.next_move().fill_(1.0).shape
        torch.Size([2, 3])
        >>> walk.move()
        >>> walk.last().tolist(), hops
        ([[1.0, 1.0], [1.0, 1.0], [1.0, 1.0]], tensor([1.4142, 1.4142, 1.4142]))
    """

    def __init__(self, x: Tensor, hops: Tensor | None) -> None:
        self.x, self._hops = x.T.clone(memory_format=torch.contiguous_format), hops
        steps = 1 if hops is None else steps_together(x.numel())
        kernel = None if hops is None or steps == MOST else moves(self.x, hops)
        self._moves = self.x.new_empty(steps if kernel is None else 1, *self.x.shape)
        self._in_cpp = None if kernel is None else kernel.lengths_of(self._moves[0])
        self._rows, self._waiting, self._states = self._moves.unbind(), 0, self.x.T

    @staticmethod
    def suit(energy: Energy, x: Tensor) -> bool:
        """Whether chains x `(B, *event)` have few coordinates, and the energy gives the gradient alone, on a CPU."""
        return x.device.type == "cpu" and not isinstance(energy, Bipartite) and x.dim() == 2 and x.shape[1] <= FEW

    def gradient(self, energy: Energy) -> Tensor:
        """dE/dx, `(d, B)`."""
        return energy.gradient(self._states).T

    def next_move(self) -> Tensor:
        """The tensor to write the next move into, `(d, B)`."""
        return self._rows[self._waiting]

    def move(self) -> None:
        """Adds the next move to x."""
        self.x.add_(self._rows[self._waiting])
        if self._hops is not None:
            self._waiting += 1
            if self._waiting == len(self._rows):
                self._measure(self._hops)

    def last(self) -> Tensor:
        """The states `(B, d)`, with all distances in `hops`."""
        if self._hops is not None and self._waiting:
            self._measure(self._hops)
        return self._states.contiguous()

    def _measure(self, hops: Tensor) -> None:
        """Adds the lengths of the moves `(steps, d, B)`, and may overwrite them."""
        self._waiting, waiting = 0, self._waiting
        if self._in_cpp is not None:
            self._in_cpp()
            return
        squares = self._moves[:waiting].square_()
        few = squares.shape[1] <= 4  # rows of long memory are added faster one by one
        lengths = (reduce(Tensor.add_, squares.unbind(1)) if few else squares.sum(1)).sqrt_()
        hops += lengths[0] if len(lengths) == 1 else lengths.sum(0)
