"""What the engine knows of a kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from torch import Tensor

from ebmlab.energies import PerChain


class State(Protocol):
    """The chains between two steps.

    Attributes:
        x: `(B, *event)`.
        step: how many steps the chains have taken; the engine counts.
        known: what a `Bridge` has computed at x, which does not depend on its beta; None for other energies.

    Example:
        >>> import torch
        >>> from ebmlab import samplers
        >>> samplers.State(x=torch.zeros(2, 3)).step
        0
    """

    x: Tensor
    step: int
    known: PerChain | None


class Report(Protocol):
    """What a step says about itself.

    Example:
        >>> import torch
        >>> from ebmlab import samplers
        >>> samplers.Info(torch.ones(2), torch.zeros(2)).hops
        tensor([0., 0.])
    """

    @property
    def acceptance(self) -> Tensor:
        """The probability with which the proposal was accepted, `(B,)`."""

    @property
    def hops(self) -> Tensor:
        """How far the chains moved, `(B,)`."""


class Kernel(Protocol):
    """A sampler as two functions without side effects. It says nothing about how they are run.

    `start(energy, x, settings, *options)` makes the first state, and `step(energy, state, settings, *options)` the next
    one and its report. If states keep `known`, `start` also takes it: `start(..., known=known)`.

    Attributes:
        start: as above.
        step: as above.
        settings: the numbers that both take, `(period, numbers)`. Step k takes row k, again and again from the first. A
            CPU gives them as floats, a GPU and a compiled program as tensors without axes.
        options: whatever else both take.

    Example:
        >>> from ebmlab import samplers
        >>> from ebmlab.energies import RBM
        >>> samplers.DMALA(0.2).kernel_on(RBM(4, 3)).settings
        tensor([[0.2000, 0.5000]])
    """

    @property
    def start(self) -> Callable[..., Any]:
        """As above."""

    @property
    def step(self) -> Callable[..., tuple[Any, Any]]:
        """As above."""

    @property
    def settings(self) -> Tensor:
        """As above."""

    @property
    def options(self) -> tuple[Any, ...]:
        """As above."""
