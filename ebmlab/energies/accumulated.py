"""A sum of many terms as a differentiable number, in memory that does not grow with the number of terms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ebmlab.numerics.unrounded import no_autocast


class Accumulated:
    """Adds up scalars and their gradients. Each term is differentiated when it is added, which frees its graph.

    Args:
        parameters: the terms are differentiated with respect to these, except frozen ones.
        shared: tensors that all terms depend on. They are differentiated once, at the end.

    Attributes:
        shared: detached copies of the argument; the terms must be computed from these.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], shared: Sequence[Tensor] = ()) -> None:
        self._parameters = [p for p in parameters if p.requires_grad]
        self.shared = tuple(s.detach().requires_grad_(s.requires_grad) for s in shared)
        self._roots = [s for s in shared if s.requires_grad]
        self._leaves: list[Tensor] = [*self._parameters, *(s for s in self.shared if s.requires_grad)]
        self._grads: list[Tensor | None] = [None] * len(self._leaves)
        self._total: Tensor | float = 0.0

    def add(self, term: Tensor) -> None:
        """Adds a scalar, and its gradient if it has one."""
        if term.requires_grad and self._leaves:
            with no_autocast(term.device):
                self._collect(torch.autograd.grad(term, self._leaves, allow_unused=True))
        self._total = self._total + term.detach()

    def value(self) -> Tensor:
        """The sum, whose gradient in the parameters is the sum of the terms' gradients. It may be called once only."""
        roots = [
            (r, g) for r, g in zip(self._roots, self._grads[len(self._parameters) :], strict=True) if g is not None
        ]
        if roots and self._parameters:
            outputs, grads = zip(*roots, strict=True)
            with no_autocast(outputs[0].device):
                self._collect(torch.autograd.grad(outputs, self._parameters, grads, allow_unused=True))
        return known(torch.as_tensor(self._total), self._grads, self._parameters)

    def _collect(self, grads: Iterable[Tensor | None]) -> None:
        for i, grad in enumerate(grads):
            if grad is not None:
                old = self._grads[i]
                self._grads[i] = grad if old is None else old + grad


def known(value: Tensor, grads: Sequence[Tensor | None], parameters: Sequence[Tensor]) -> Tensor:
    """A number whose gradients in the parameters have been computed already."""
    result: Tensor = _Known.apply(value, grads, *parameters)
    return result


class _Known(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, total: Tensor, grads: Sequence[Tensor | None], *parameters: Tensor) -> Tensor:
        ctx.save_for_backward(*grads[: len(parameters)])  # which frees them after a backward pass
        return total.clone()

    @staticmethod
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Tensor | None, ...]:
        grads = [g for g in ctx.saved_tensors if g is not None]
        scaled = iter(torch._foreach_mul(grads, outputs[0]) if grads else ())  # one kernel on a GPU
        return None, None, *(None if g is None else next(scaled) for g in ctx.saved_tensors)
