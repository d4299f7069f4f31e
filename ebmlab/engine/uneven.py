"""Runs steps that are made of ticks as one compiled loop: in NUTS no chain waits, and HMC calls no program a step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor
from torch._higher_order_ops import while_loop

from ebmlab.energies import Energy
from ebmlab.engine.compiled import Ran, compiling

NUMBERS = 2**22  # random numbers that are drawn ahead
AHEAD = 256  # steps for which they are drawn, at most


class UnevenKernel(Protocol):
    """A kernel whose steps consist of ticks, such as leapfrog steps. Chains may need different numbers of them.

    Attributes:
        start: the state at x, of an energy and x.
        drawn: the random numbers of some steps, of x, how many steps, and for how many there is room.
        begun: chains before their first tick, of the state, the numbers and `options`. `taken` is how many steps each
            has taken, and `outcome` the state and sums over the steps: `acceptance`, `hops` and `evaluations`.
        tick: the chains after another tick, of the energy, the chains, the numbers, `settings` and `options`.
        settings: numbers that ticks take, `(n,)`.
        options: what else they take.
        width: how many random numbers a step of a chain takes.

    Example:
        >>> from ebmlab.energies import RealMLP
        >>> from ebmlab.samplers import NUTS
        >>> NUTS(0.5).uneven_on(RealMLP(2)).settings
        tensor([0.5000])
    """

    @property
    def start(self) -> Callable[..., Any]:
        """As above."""

    @property
    def drawn(self) -> Callable[..., Any]:
        """As above."""

    @property
    def begun(self) -> Callable[..., Any]:
        """As above."""

    @property
    def tick(self) -> Callable[..., Any]:
        """As above."""

    @property
    def settings(self) -> Tensor:
        """As above."""

    @property
    def options(self) -> Any:
        """As above."""

    @property
    def width(self) -> int:
        """As above."""


@torch.no_grad()
def run_uneven(kernel: UnevenKernel, energy: Energy, x: Tensor, num_steps: int, caller: str) -> Ran:
    """Takes `num_steps` steps from x, up to `AHEAD` of them in one loop, after which chains wait for the last one.

    Args:
        kernel: makes the steps.
        energy: what they sample.
        x: where they begin, `(B, *event)`.
        num_steps: how many.
        caller: what the user called, for errors.

    Raises:
        UserError: as `compiling`.

    Example:
        >>> from ebmlab.energies import RealMLP
        >>> from ebmlab.samplers import NUTS
        >>> energy = RealMLP(2, hidden_dim=4)
        >>> run_uneven(NUTS(0.1).uneven_on(energy), energy, torch.zeros(3, 2), 0, "mine").x.shape  # no step, no program
        torch.Size([3, 2])
    """
    ahead = max(1, min(AHEAD, NUMBERS // (kernel.width * len(x))))
    settings = kernel.settings.to(x.device, torch.promote_types(x.dtype, torch.float32)).unbind()
    state, sums = kernel.start(energy, x), x.new_zeros(3, len(x))
    with compiling(_to_the_end, energy, x, caller, loops=True) as program:
        for first in range(0, num_steps, ahead):
            numbers = kernel.drawn(x, min(ahead, num_steps - first), ahead)
            walk = kernel.begun(state, numbers, kernel.options)
            done = program(kernel.tick, energy, walk, numbers, settings, kernel.options)
            state = done.state
            sums += torch.stack([done.acceptance, done.hops, done.evaluations])
    return Ran(state.x.contiguous(), sums[0], sums[1], float(sums[2].mean()))


def _to_the_end(
    tick: Callable[..., Any],
    energy: Energy,
    walk: Any,
    numbers: Any,
    settings: tuple[Tensor, ...],
    options: Any,
) -> Any:
    """Ticks until all chains have taken their steps: a loop within the program, which compiles one turn of it.

    Tensors of one shape and type are one tensor between the turns. To make tensors took most of a turn's time.
    """
    alike: dict[tuple[torch.dtype, torch.Size], list[int]] = {}
    for place, tensor in enumerate(walk.tensors()):
        alike.setdefault((tensor.dtype, tensor.shape), []).append(place)
    order = [place for places in alike.values() for place in places]

    def held(walk: Any) -> tuple[Tensor, ...]:
        tensors = walk.tensors()
        return tuple(torch.stack([tensors[place] for place in places]) for places in alike.values())

    def of(held: tuple[Tensor, ...]) -> Any:
        tensors = dict(zip(order, (part for stack in held for part in stack.unbind()), strict=True))
        return walk.with_tensors(tensors[place] for place in sorted(order))

    def going(*tensors: Tensor) -> Tensor:
        left: Tensor = of(tensors).taken < numbers.steps
        return left.any()

    def once(*tensors: Tensor) -> tuple[Tensor, ...]:
        return held(tick(energy, of(tensors), numbers, settings, options))

    end = while_loop(going, once, held(walk))  # type: ignore[no-untyped-call]  # torch gives it no types
    return of(end).outcome
