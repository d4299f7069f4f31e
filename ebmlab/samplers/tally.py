"""Adds up the reports of steps, of several at once where their tensors are small."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from ebmlab.samplers.by_chain import ByChain, steps_together
from ebmlab.samplers.state import Info, State


def tallied(chain: Iterable[tuple[State, Info]], x: Tensor) -> tuple[Tensor, Info]:
    """The last x of a chain that starts at x `(B, *event)`, and the mean of its reports; zeros for a chain of no steps.

    Example:
        >>> from ebmlab.energies import Ising
        >>> from ebmlab.samplers import Gibbs
        >>> ising, x = Ising.lattice(3, 0.2), torch.ones(5, 9)
        >>> tallied(Gibbs().chain(ising, x, 10), x)[1].evaluations
        2.0
    """
    acceptance, hops = Tally(x.new_zeros(len(x))), Tally(x.new_zeros(len(x)))
    steps, evaluations = 0, 0.0
    for state, info in chain:
        x, later = state.x, info.unread
        acceptance.add(later[0])
        hops.add(later[1])
        steps, evaluations = steps + 1, evaluations + info.evaluations
    return x, Info(acceptance.total(), hops.total(), evaluations=evaluations) / max(steps, 1)


class Tally:
    """The sum over steps of a number for each chain.

    Args:
        zeros: where the sum begins, `(B,)`.

    Example:
        >>> tally = Tally(torch.zeros(2))
        >>> for k in range(100):
        ...     tally.add(ByChain(torch.neg, torch.ones(2)))
        >>> tally.total()
        tensor([-100., -100.])
    """

    def __init__(self, zeros: Tensor) -> None:
        self._total = zeros
        self._function: Callable[..., Tensor] | None = None
        self._waiting: list[tuple[Tensor, ...]] = []
        self._room = 0

    def add(self, value: Tensor | Callable[[], Tensor]) -> None:
        """Adds the number of one step."""
        if isinstance(value, ByChain):
            if self._room == 0 or value.function != self._function:
                self._read()
                self._function = value.function
                self._room = steps_together(max(tensor.numel() for tensor in value.tensors))
            self._waiting.append(value.tensors)
            if len(self._waiting) >= self._room:
                self._read()
        else:
            self._total = self._total + (value if isinstance(value, Tensor) else value())

    def total(self) -> Tensor:
        """The sum, `(B,)`."""
        self._read()
        return self._total

    def _read(self) -> None:
        """Adds the numbers of the steps whose tensors wait."""
        if not self._waiting:
            return
        assert self._function is not None
        if len(self._waiting) == 1:
            self._total = self._total + self._function(*self._waiting[0])
        else:
            values = self._function(*map(torch.cat, zip(*self._waiting, strict=True)))
            self._total = self._total + values.view(len(self._waiting), -1).sum(0)
        self._waiting.clear()
