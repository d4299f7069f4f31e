"""A weighted sum of the energies -v'W h - b_v'v - b_h'h of many states, with its gradient in closed form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from ebmlab.energies.weighted_sum import WeightedSum
from ebmlab.native import add_product
from ebmlab.numerics.noise import wide


class BilinearEnergy(Protocol):
    """E(v, h) = -v'W h - b_v'v - b_h'h, where h are bits."""

    @property
    def W(self) -> Tensor:  # noqa: N802
        """Weights `(V, H)`."""

    @property
    def b_v(self) -> Tensor:
        """Visible bias `(V,)`."""

    @property
    def b_h(self) -> Tensor:
        """Hidden bias `(H,)`."""

    def hidden_given_visible(self, v: Tensor) -> Tensor:
        """Inputs W'v + b_h of the hidden units, `(B, H)`."""


class BilinearSum(WeightedSum):
    """The sum of weight * E(v, h) and its gradient, whose parts are minus the sums of v h', v and h.

    With E[h | v] in place of h, the gradient is that of the marginal energy.
    """

    def __init__(self, energy: BilinearEnergy) -> None:
        self._model = energy
        self._parameters = energy.W, energy.b_v, energy.b_h
        self._number = wide(energy.W.new_zeros(()))
        self._grads: list[Tensor] = []  # in W, b_v and b_h

    @torch.no_grad()
    def add(
        self, x: Tensor, hidden: Tensor | None = None, inputs: Tensor | None = None, weight: float | Tensor = 1.0
    ) -> None:
        W, b_v, _ = self._parameters
        inputs = self._model.hidden_given_visible(x) if inputs is None else inputs
        v, h = x.to(W), (torch.sigmoid(inputs) if hidden is None else hidden).to(W)  # not in half precision
        factor, visible = -1.0, v
        if isinstance(weight, Tensor):
            weights = weight.to(v).unsqueeze(1)
            h, visible = h * weights, v * weights
        else:
            factor = -weight
        by_v, by_h = visible.sum(0).mul_(factor), h.sum(0).mul_(factor)
        pull = (wide(h) * wide(inputs.to(h))).sum()  # E(v, h) = -h'(W'v + b_h) - b_v'v; a dot product takes longer
        self._number = torch.add(self._number, pull, alpha=factor).add_(torch.dot(b_v, by_v))
        if first := not self._grads:
            self._grads = [torch.empty_like(W), by_v, by_h]  # not filled: the product overwrites it
        else:
            self._grads[1] += by_v
            self._grads[2] += by_h
        add_product(self._grads[0], v.T, h, alpha=factor, overwrite=first)  # autocast does not round it in place

    def number(self) -> Tensor:
        return self._number.to(self._parameters[0])

    def value(self) -> Tensor:
        """As in `WeightedSum`. There can be one backward pass, which hands the gradients over without a copy."""
        if not self._grads:
            self._grads = [torch.zeros_like(p) for p in self._parameters]
        total: Tensor = _Closed.apply(self.number(), self._grads, *self._parameters)
        return total


class _Closed(torch.autograd.Function):
    """A number whose gradients in the parameters are known."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, grads: Sequence[Tensor], *parameters: Tensor) -> Tensor:
        ctx.grads = grads
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Tensor | None, ...]:
        grads, factor, ctx.grads = ctx.grads, outputs[0], None
        if factor.device.type == "cpu" and factor.item() == 1:
            return None, None, *grads
        return None, None, *(g.mul_(factor) for g in grads)
