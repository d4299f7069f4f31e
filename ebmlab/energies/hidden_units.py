"""Kinds of hidden units: bits, Gaussian and rectified ones (Tubiana, Cocco & Monasson, 2019, Sec. 2.2)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, Literal

import torch
from torch import Tensor

from ebmlab.domains import Binary, Domain, Real
from ebmlab.native import bernoulli, normal, sum_softplus, sum_softplus_and_sigmoid
from ebmlab.settings import require_choice

Kind = Literal["bits", "gaussian", "rectified"]

FAR = -8.0  # inputs below which a rectified unit is drawn by Newton's method


class HiddenUnits(ABC):
    """Units with p(h) proportional to exp(I h - U(h)), where I is the input that a unit gets from the visible ones.

    Its scale needs no parameter: it is that of the weights.
    """

    domain: type[Domain] = Real

    @abstractmethod
    def log_sum(self, inputs: Tensor) -> Tensor:
        """Log of the integral (for bits, the sum) of exp(I h - U(h)) over h, added up over units: `(...)`."""

    @abstractmethod
    def mean(self, inputs: Tensor) -> Tensor:
        """E[h] at inputs `(..., H)`, the derivative of `log_sum`."""

    def log_sum_and_mean(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Both of the above, of inputs `(B, H)`."""
        return self.log_sum(inputs), self.mean(inputs)

    @abstractmethod
    def sample(self, inputs: Tensor) -> Tensor:
        """Draws h at inputs `(..., H)`."""

    @abstractmethod
    def potential(self, h: Tensor) -> Tensor:
        """U(h), added up over units, `(..., H)` to `(...)`."""


class BinaryUnits(HiddenUnits):
    """h in {0, 1}, U = 0: inputs are the logits of 1."""

    domain = Binary

    def log_sum(self, inputs: Tensor) -> Tensor:
        return sum_softplus(inputs)

    def mean(self, inputs: Tensor) -> Tensor:
        return torch.sigmoid(inputs)

    def log_sum_and_mean(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        return sum_softplus_and_sigmoid(inputs)

    def sample(self, inputs: Tensor) -> Tensor:
        return bernoulli(inputs)

    def potential(self, h: Tensor) -> Tensor:
        return h.new_zeros(h.shape[:-1])


class GaussianUnits(HiddenUnits):
    """h real, U(h) = h^2 / 2. With these units an RBM is a pairwise model, whose couplings have rank H."""

    def log_sum(self, inputs: Tensor) -> Tensor:
        return (0.5 * inputs.square() + 0.5 * math.log(2 * math.pi)).sum(-1)

    def mean(self, inputs: Tensor) -> Tensor:
        return inputs

    def sample(self, inputs: Tensor) -> Tensor:
        return inputs + normal(inputs)

    def potential(self, h: Tensor) -> Tensor:
        return 0.5 * h.square().sum(-1)


class RectifiedUnits(GaussianUnits):
    """h at least 0, U(h) = h^2 / 2: a normal variable of mean I that is cut off below 0."""

    def log_sum(self, inputs: Tensor) -> Tensor:
        """I^2 / 2 + log Phi(I) + log(2 pi) / 2."""
        each: Tensor = _LogSum.apply(inputs)
        return each.sum(-1)

    def mean(self, inputs: Tensor) -> Tensor:
        """I + phi(I) / Phi(I)."""
        wide = inputs.double()
        return (wide + _hazard(wide)).to(inputs.dtype)

    def sample(self, inputs: Tensor) -> Tensor:
        """The h above which a unit lies with a probability u, uniform: Phi(I - h) = u Phi(I)."""
        wide = inputs.double()
        u = 1 - torch.rand_like(wide, dtype=torch.float64)  # never 0
        h = wide - torch.special.ndtri(u * torch.special.ndtr(wide))
        target, far = u.log() + torch.special.log_ndtr(wide), -u.log() / -wide.clamp(max=FAR)
        for _ in range(4):  # Newton's method on logarithms, from the exponential law that the tail is close to
            rest = wide.clamp(max=FAR) - far
            far = far + (torch.special.log_ndtr(rest) - target) / _hazard(rest)
        return torch.where(wide < FAR, far, h).clamp(min=0).to(inputs.dtype)


class _LogSum(torch.autograd.Function):
    """`RectifiedUnits.log_sum` of single units, below 0 without its difference of large numbers."""

    @staticmethod
    def forward(inputs: Tensor) -> Tensor:
        above, below = inputs.clamp(min=0), inputs.clamp(max=0)
        positive = 0.5 * above.square() + torch.special.log_ndtr(above)
        negative = torch.special.erfcx(-below / math.sqrt(2)).log() - math.log(2)
        return torch.where(inputs > 0, positive, negative) + 0.5 * math.log(2 * math.pi)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        slope: Tensor = RECTIFIED.mean(*ctx.saved_tensors)
        return grads[0] * slope

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor) -> Tensor:
        slope: Tensor = RECTIFIED.mean(*ctx.saved_tensors)
        return tangents[0] * slope

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int], inputs: Tensor) -> tuple[Tensor, int]:
        each: Tensor = _LogSum.apply(inputs)
        return each, in_dims[0]


def _hazard(x: Tensor) -> Tensor:
    """phi(x) / Phi(x), with derivatives that are finite: above 30 it is too small to count."""
    hazard: Tensor = math.sqrt(2 / math.pi) / torch.special.erfcx(-x.clamp(max=30) / math.sqrt(2))
    return hazard


BITS, GAUSSIAN, RECTIFIED = BinaryUnits(), GaussianUnits(), RectifiedUnits()
KINDS: dict[str, HiddenUnits] = {"bits": BITS, "gaussian": GAUSSIAN, "rectified": RECTIFIED}


def units_of(name: str, kind: str) -> HiddenUnits:
    """The units of a kind, for an energy of this name."""
    require_choice(name, KINDS, hidden=kind)
    return KINDS[kind]
