"""Runs a kernel one step after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from ebmlab.energies import Energy, PerChain
from ebmlab.engine.protocol import Kernel

Numbers = Sequence[float] | Sequence[Tensor]


@torch.no_grad()
def steps(
    kernel: Kernel, energy: Energy, x: Tensor, num_steps: int, first: int = 0, known: PerChain | None = None
) -> Iterator[tuple[Any, Any]]:
    """Yields the state and the report of each step.

    Args:
        kernel: makes the steps.
        energy: what they sample.
        x: where they begin, `(B, *event)`.
        num_steps: how many.
        first: how many steps the chains have taken before.
        known: `state.known` of an earlier state at x, so that x is not evaluated again.

    Example:
        >>> from ebmlab.energies import RBM
        >>> from ebmlab.samplers import DMALA
        >>> rbm = RBM(6, 3)
        >>> [state.step for state, _ in steps(DMALA(0.2).kernel_on(rbm), rbm, rbm.domain.random(4), num_steps=2)]
        [1, 2]
    """
    rows, step, options = numbers(kernel, x), kernel.step, kernel.options
    state, period = _start(kernel, energy, x, rows[first % len(rows)], known), len(rows)
    for k in range(first, first + num_steps):
        state, report = step(energy, state, rows[k % period], *options)
        state.step = k + 1
        yield state, report
        del report  # it holds the state before, whose memory the next step can take


@torch.no_grad()
def start(kernel: Kernel, energy: Energy, x: Tensor, known: PerChain | None = None) -> Any:
    """The state before the first step of a chain that others take one by one, with `step`.

    Example:
        >>> from ebmlab.energies import RBM
        >>> from ebmlab.samplers import DMALA
        >>> rbm = RBM(6, 3)
        >>> start(DMALA(0.2).kernel_on(rbm), rbm, rbm.domain.random(4)).step
        0
    """
    return _start(kernel, energy, x, numbers(kernel, x)[0], known)


@torch.no_grad()
def step(kernel: Kernel, energy: Energy, state: Any) -> tuple[Any, Any]:
    """The step that follows a state, whose number is `state.step`.

    Example:
        >>> from ebmlab.energies import RBM
        >>> from ebmlab.samplers import DMALA
        >>> rbm = RBM(6, 3)
        >>> kernel = DMALA(0.2).kernel_on(rbm)
        >>> state, info = step(kernel, rbm, start(kernel, rbm, rbm.domain.random(4)))
        >>> state.step
        1
    """
    rows = numbers(kernel, state.x)
    new, report = kernel.step(energy, state, rows[state.step % len(rows)], *kernel.options)
    new.step = state.step + 1
    return new, report


def numbers(kernel: Kernel, x: Tensor) -> Sequence[Numbers]:
    """The settings of each step of a period: floats on a CPU; on a GPU tensors, as reading floats would wait for it."""
    settings = kernel.settings
    if settings.device.type == "cpu":
        rows: list[list[float]] = settings.tolist()
        return rows
    return [row.unbind() for row in settings.to(torch.promote_types(x.dtype, torch.float32)).unbind()]


def _start(kernel: Kernel, energy: Energy, x: Tensor, row: Numbers, known: PerChain | None) -> Any:
    if known is None:
        return kernel.start(energy, x, row, *kernel.options)
    return kernel.start(energy, x, row, *kernel.options, known=known)
