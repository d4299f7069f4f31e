"""A kernel as two pure functions, which the engine runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Kernel(NamedTuple):
    """Two functions without side effects, and the settings that they take.

    `start(energy, x, settings, *options)` makes the state at x. It takes `known=`, too, if states keep `known`: what an
    energy has computed at x, and what annealing and swaps need not compute again. `step(energy, state, settings,
    *options)` returns the next state and its `Info`. Both may call anything that is made of tensors. They neither read
    values off tensors nor count steps: the engine does. It so runs them one by one, as compiled programs, as CUDA
    graphs, and along a path of energies.

    Args:
        start: as above.
        step: as above.
        settings: the numbers that both take, `(period, numbers)`. Step k takes row k, again and again from the first.
        options: what else both take.

    Example:
        >>> from ebmlab.energies import RBM
        >>> from ebmlab.samplers import DMALA
        >>> rbm = RBM(4, 3)
        >>> start, step, settings, options = DMALA(0.2).kernel_on(rbm)
        >>> state, info = step(rbm, start(rbm, rbm.random(5), settings[0], *options), settings[0], *options)
        >>> state.x.shape
        torch.Size([5, 4])
    """

    start: Callable[..., Any]
    step: Callable[..., tuple[Any, Any]]
    settings: Tensor = torch.empty(1, 0)
    options: tuple[Any, ...] = ()


class UnevenKernel(NamedTuple):
    """A kernel whose chains need unequal numbers of `tick`s for a step; `ebmlab.engine.UnevenKernel` says what each is.

    Example:
        >>> from ebmlab.energies import RealMLP
        >>> from ebmlab.samplers import NUTS
        >>> NUTS(0.5, max_depth=4).uneven_on(RealMLP(2)).width
        14
    """

    start: Callable[..., Any]
    drawn: Callable[..., Any]
    begun: Callable[..., Any]
    tick: Callable[..., Any]
    settings: Tensor
    options: Any
    width: int
