"""Moves chains along a path of energies, eight temperatures at a time, each time by one compiled program."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from ebmlab.energies import Bridge, PerChain
from ebmlab.engine.compiled import UNROLLED, compiling
from ebmlab.engine.protocol import Kernel


@torch.no_grad()
def temperatures(
    kernel: Kernel, path: Bridge, x: Tensor, betas: Tensor, settings: Tensor, caller: str
) -> Iterator[tuple[Tensor, Tensor]]:
    """Takes one step at each temperature of the path but the first.

    Inverse temperatures are rounded to the precision of x, at least float32. The weights are those of the rounded ones.

    Args:
        kernel: makes the steps.
        path: from a base to an energy.
        x: chains at the first temperature, `(B, *event)`.
        betas: the inverse temperatures, `(1 + T,)`.
        settings: those of each step, `(T, numbers)`.
        caller: what the user called, for errors.

    Yields:
        The increments of the log-weights at the next temperatures, `(n, B)`, and x at the last of them.

    Raises:
        UserError: the energy cannot be compiled.

    Example:
        >>> from ebmlab.energies import RBM, reference
        >>> from ebmlab.samplers import DMALA
        >>> rbm = RBM(6, 3)
        >>> path, kernel = Bridge(reference(rbm.domain), rbm), DMALA(0.2).kernel_on(rbm)
        >>> walk = temperatures(
        ...     kernel, path, rbm.random(5), torch.linspace(0, 1, 4), kernel.settings.expand(3, 2), "mine"
        ... )
        >>> [tuple(increments.shape) for increments, x in walk]
        [(3, 5)]
    """
    rows = torch.cat([betas[:-1, None], betas[1:, None], settings.cpu().to(betas)], 1)
    rows = rows.to(x.device, torch.promote_types(x.dtype, torch.float32))
    own: Any = path.at(rows[0, 0])  # whose beta the program sets
    known = kernel.start(own, x, rows[0, 2:].unbind(), *kernel.options).known
    with compiling(_several, path.energy, x, caller) as program:
        for block in torch.split(rows, UNROLLED):
            own.beta = block[0, 0]
            several = program if len(block) == UNROLLED else _several
            increments, x, known = several(kernel.start, kernel.step, kernel.options, own, x, known, block)
            yield increments, x


def _several(
    start: Callable[..., Any],
    step: Callable[..., tuple[Any, Any]],
    options: tuple[Any, ...],
    path: Any,
    x: Tensor,
    known: PerChain | None,
    rows: Tensor,
) -> tuple[Tensor, Tensor, PerChain | None]:
    """Weighs and moves the chains at each temperature: `(old beta, new beta, *settings)` a row."""
    increments = []
    for row in rows.unbind():
        path.beta, beta, *settings = row.unbind()
        increments.append(path.increment(x, beta, known))
        path.beta = beta
        at = {} if known is None else {"known": known}
        state, _ = step(path, start(path, x, settings, *options, **at), settings, *options)
        x, known = state.x, state.known
    return torch.stack(increments), x, known
