"""The sum of the reports of a chain's steps."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor

from ebmlab.domains import Domain, Finite
from ebmlab.numerics.noise import wide
from ebmlab.samplers.by_chain import Moved, Sure
from ebmlab.samplers.state import Info, State

TOGETHER = 2**17  # numbers whose lengths are taken at once, about: an operation on fewer takes as long
MOST = 64  # steps whose lengths are taken at once


def steps_together(size: int) -> int:
    """How many steps to take the lengths of at once, if a step moves `size` numbers.

    Example:
        >>> steps_together(100), steps_together(2**14), steps_together(10**6)
        (64, 8, 1)
    """
    return min(MOST, max(1, TOGETHER // max(1, size)))


def tallied(domain: Domain, x: Tensor, chain: Iterable[tuple[State, Info]]) -> tuple[Tensor, Info]:
    """The last x of a chain, and the sum of its reports.

    Every operation on few numbers takes a microsecond or two. So changes of a finite domain are added up coordinate by
    coordinate, and once along the coordinates; lengths of moves are taken of several small steps at once.

    Args:
        domain: of the states.
        x: where the chains begin, `(B, *event)`.
        chain: its steps.

    Example:
        >>> import torch
        >>> from ebmlab.domains import Real
        >>> x = torch.zeros(2, 3)
        >>> steps = [(State(x=x + 1), Info(Sure(x), Moved(Real(3), x + 1, x)))] * 4
        >>> tallied(Real(3), x, steps)[1].hops
        tensor([6.9282, 6.9282])
    """
    counted = isinstance(domain, Finite)
    numbers = wide(x.new_empty(0))  # half precision would stop at 256 or 2,048 steps
    acceptance, hops = numbers.new_zeros(len(x)), numbers.new_zeros(len(x))
    counts = numbers.new_zeros(x.shape if counted else 0)
    law, sure, evaluations = None, 0, 0.0
    moves, waiting = numbers.new_empty(1 if counted else steps_together(x.numel()), *x.shape), 0
    rows = moves.unbind()
    for state, info in chain:
        x, evaluations = state.x, evaluations + info.evaluations
        accepted, moved = info.later()
        if isinstance(accepted, Sure):
            sure += 1
            if accepted.law is not None:  # NaN stays in the sum
                law = wide(accepted.law).clone() if law is None else law.add_(accepted.law)
        else:
            acceptance.add_(accepted if isinstance(accepted, Tensor) else accepted())
        if isinstance(moved, Moved) and not (moved.new.requires_grad or moved.old.requires_grad):
            domain.difference(moved.new, moved.old, out=rows[waiting])
            if counted:
                counts.add_(rows[0])
            elif (waiting := waiting + 1) == len(rows):
                hops.add_(_lengths(domain, moves))
                waiting = 0
        else:
            hops.add_(moved if isinstance(moved, Tensor) else moved())
        del info, accepted, moved  # they hold the state before, whose memory the next step can take
    hops.add_(domain.lengths(counts) if counted else _lengths(domain, moves[:waiting]))
    acceptance.add_(sure if law is None else Sure(x, law)() * sure)
    return x, Info(acceptance, hops, evaluations=evaluations)


def _lengths(domain: Domain, moves: Tensor) -> Tensor:
    """The lengths of moves `(steps, B, *event)`, added up over the steps."""
    lengths = domain.lengths(moves.flatten(0, 1))
    return lengths if len(moves) == 1 else lengths.view(moves.shape[:2]).sum(0)
