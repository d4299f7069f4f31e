"""The sum of the reports of a chain's steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import cast

import torch
from torch import Tensor

from ebmlab.domains import Domain, Finite, Real
from ebmlab.native.moves import moves
from ebmlab.numerics.noise import wide
from ebmlab.samplers.by_chain import Moved, Sure
from ebmlab.samplers.state import Info, State

TOGETHER = 2**17  # about so many numbers are added up by one operation, which takes as long for fewer
MOST = 64  # steps whose reports are added up at once, at most
BYTE = 127  # the largest int8
FEW = 16  # chains of fewer numbers fill no vectors of the kernel: torch adds up several steps as fast


def steps_together(size: int) -> int:
    """How many steps to add up at once, if the report of one holds `size` numbers.

    Example:
        >>> steps_together(100), steps_together(2**14), steps_together(10**6)
        (64, 8, 1)
    """
    return min(MOST, max(1, TOGETHER // max(1, size)))


def tallied(domain: Domain, x: Tensor, chain: Iterable[tuple[State, Info]]) -> tuple[Tensor, Info]:
    """The last x of a chain, and the sum of its reports.

    Every operation takes microseconds, however few the numbers. So small reports are kept, and several are added up at
    once. Of many chains the moves alone are kept. On a finite domain changes are counted in bytes, which take less
    memory. Where there is a kernel in C++, it adds up each step at once.

    Args:
        domain: of the states.
        x: where the chains begin, `(B, *event)`.
        chain: its steps.

    Example:
        >>> from ebmlab.domains import Real
        >>> x = torch.zeros(2, 3)
        >>> steps = [(State(x=x + 1), Info(Sure(x), Moved(Real(3), x + 1, x)))] * 4
        >>> tallied(Real(3), x, steps)[1].hops
        tensor([6.9282, 6.9282])
    """
    if steps_together(x.numel()) < MOST:
        return _one_by_one(domain, x, chain)
    sums, kept, together = _Sums(x), [], 0
    for state, info in chain:
        x = state.x
        kept.append(info)
        together = together or _room(x, info)
        del info  # it holds the state before, whose memory the next step can take
        if len(kept) == together:
            _read(domain, kept, sums)
            kept.clear()
    if kept:
        _read(domain, kept, sums)
    return x, sums.total()


def _one_by_one(domain: Domain, x: Tensor, chain: Iterable[tuple[State, Info]]) -> tuple[Tensor, Info]:
    sums, path = _Sums(x), _path(domain, x)
    laws = moves(x, sums.acceptance)
    for state, info in chain:
        x = state.x
        sums.evaluations += info.evaluations
        accepted, moved = info.later()
        if isinstance(accepted, Sure):
            seen = accepted.law is not None and laws is not None and laws.add_nan(accepted.law)
            sums.add_sure(1, None if seen else accepted.law)
        else:
            sums.acceptance += accepted if isinstance(accepted, Tensor) else accepted()
        if isinstance(moved, Moved) and not (moved.new.requires_grad or moved.old.requires_grad):
            path.step(moved.new, moved.old)
        else:
            sums.hops += moved if isinstance(moved, Tensor) else moved()
        del info, accepted, moved
    sums.hops += path.hops()
    return x, sums.total()


def _path(domain: Domain, x: Tensor) -> _Changes | _Moves | _InCpp:
    finite, sums = isinstance(domain, Finite), wide(x.new_zeros(len(x)))
    kernel = moves(x, sums) if domain.size >= FEW and (finite or type(domain) is Real) else None
    if kernel is not None:
        return _InCpp(domain, sums, kernel.add_changes if finite else kernel.add_distances)
    return _Changes(domain, x) if isinstance(domain, Finite) else _Moves(domain, x)


class _InCpp:
    """Adds up distances or changes by a kernel in C++, in one pass over memory for each step."""

    def __init__(self, domain: Domain, sums: Tensor, add: Callable[[Tensor, Tensor], bool]) -> None:
        self._domain, self._add, self._sums, self._others = domain, add, sums, torch.zeros_like(sums)

    def step(self, new: Tensor, old: Tensor) -> None:
        if not self._add(new, old):
            self._others += self._domain.hops(new, old)

    def hops(self) -> Tensor:
        """Where a coordinate changes, one number does, or two of a one-hot vector."""
        return self._others + self._domain.lengths(self._sums.unsqueeze(1))


class _Changes:
    """Counts the changes of each coordinate in bytes, and adds up along the coordinates before a byte is full."""

    def __init__(self, domain: Finite, x: Tensor) -> None:
        small = torch.int8 if domain.num_values <= 128 else torch.int32
        self._domain, self._at, self._left = domain, x, BYTE
        self._old, self._new = torch.empty_like(x, dtype=small), torch.empty_like(x, dtype=small)
        self._old.copy_(x.detach())
        self._counts, self._hops = torch.zeros_like(self._old), wide(x.new_zeros(len(x)))

    def step(self, new: Tensor, old: Tensor) -> None:
        if old is not self._at:
            self._old.copy_(old)
        self._new.copy_(new)
        self._counts.add_(torch.ne(self._new, self._old, out=self._old))
        self._at, self._old, self._new, self._left = new, self._new, self._old, self._left - 1
        if self._left == 0:
            self._hops, self._left = self.hops(), BYTE
            self._counts.zero_()

    def hops(self) -> Tensor:
        return self._hops + self._domain.lengths(self._counts)


class _Moves:
    """Keeps the moves of a few steps, and computes all their lengths at once."""

    def __init__(self, domain: Domain, x: Tensor) -> None:
        self._domain, self._hops, self._waiting = domain, wide(x.new_zeros(len(x))), 0
        self._moves = wide(x.new_empty(steps_together(x.numel()), *x.shape))
        self._rows = self._moves.unbind()

    def step(self, new: Tensor, old: Tensor) -> None:
        self._domain.difference(new, old, out=self._rows[self._waiting])
        self._waiting += 1
        if self._waiting == len(self._rows):
            self.hops()

    def hops(self) -> Tensor:
        count, self._waiting = self._waiting, 0
        lengths = self._domain.lengths(self._moves[:count].flatten(0, 1))
        self._hops += lengths if count == 1 else lengths.view(count, len(self._hops)).sum(0)
        return self._hops


class _Sums:
    """What chains x `(B, *event)` have reported so far: acceptance and hops, each `(B,)`, and evaluations."""

    def __init__(self, x: Tensor) -> None:
        self.acceptance, self.hops = (wide(x.new_zeros(len(x))) for _ in range(2))
        self.evaluations, self._sure, self._law = 0.0, 0, cast(Tensor | None, None)

    def add_sure(self, steps: int, law: Tensor | None) -> None:
        """Adds steps that nothing rejects. NaN of the law stays in the sum."""
        self._sure += steps
        if law is not None:
            self._law = wide(law).clone() if self._law is None else self._law.add_(law)

    def total(self) -> Info:
        """The sum of all reports."""
        sure = self._sure if self._law is None else Sure(self._law, self._law)() * self._sure
        return Info(self.acceptance + sure, self.hops, evaluations=self.evaluations)


def _room(x: Tensor, info: Info) -> int:
    """How many reports like this one to keep before they are added up."""
    accepted, _ = info.later()
    law = accepted.law if isinstance(accepted, Sure) else None
    return steps_together(x.numel() + (0 if law is None else law.numel()))


def _read(domain: Domain, reports: Sequence[Info], sums: _Sums) -> None:
    """Adds several reports to the sums."""
    chances: list[Tensor] = []
    laws: list[Tensor] = []
    new: list[Tensor] = []
    old: list[Tensor] = []
    sure = 0
    for info in reports:
        sums.evaluations += info.evaluations
        accepted, moved = info.later()
        if isinstance(accepted, Sure):
            sure += 1
            if accepted.law is not None:
                laws.append(accepted.law)
        else:
            chances.append(accepted if isinstance(accepted, Tensor) else accepted())
        if isinstance(moved, Moved):
            new.append(moved.new)
            old.append(moved.old)
        else:
            sums.hops += moved if isinstance(moved, Tensor) else moved()
    if chances:
        sums.acceptance += _added(chances)
    sums.add_sure(sure, _added(laws) if laws else None)
    if new:
        lengths = domain.lengths(wide(domain.difference(_joined(new), _joined(old))))
        sums.hops += lengths if len(new) == 1 else lengths.view(len(new), -1).sum(0)


def _joined(tensors: list[Tensor]) -> Tensor:
    return tensors[0] if len(tensors) == 1 else torch.cat(tensors)


def _added(tensors: list[Tensor]) -> Tensor:
    """The sum of tensors of one shape, in float32 if they have half precision."""
    if len(tensors) == 1:
        return tensors[0]
    return wide(torch.cat(tensors)).view(len(tensors), *tensors[0].shape).sum(0)
