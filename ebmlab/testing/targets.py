"""Targets on which wrong kernels cannot hide."""

from __future__ import annotations

import math
from typing import Literal, get_args

import torch
from torch import Tensor

from ebmlab.domains import Categorical, Finite, Spin
from ebmlab.energies import Energy
from ebmlab.settings import require_choice

Kind = Literal["quadratic", "cubic", "flat"]


class Rugged(Energy):
    """An energy without symmetries on a small finite domain, by autograd alone.

    On a quadratic energy gradients predict differences exactly, which hides mistakes; a symmetric one hides signs.

    Args:
        domain: where it lives.
        kind: `quadratic`; `cubic`, with all third-order terms; `flat`, whose gradient is zero at every state.
        scale: multiplies the energy.

    Example:
        >>> from ebmlab.domains import Binary
        >>> from ebmlab.testing import Rugged
        >>> energy = Rugged(Binary(4))
        >>> energy(energy.domain.enumerate()).shape
        torch.Size([16])
    """

    quadratic: Tensor
    linear: Tensor
    cubic: Tensor

    def __init__(self, domain: Finite, kind: Kind = "cubic", *, scale: float = 1.0) -> None:
        super().__init__()
        require_choice("Rugged", get_args(Kind), kind=kind)
        self.domain, self.kind, self.scale = domain, kind, scale
        n = math.prod(domain.event_shape)
        generator = torch.Generator().manual_seed(3)
        a = torch.randn(n, n, dtype=torch.float64, generator=generator)
        ordinal = not isinstance(domain, Categorical)
        spread = 1 / (1 + ordinal * (max(domain.num_values, 2) - 2))  # smaller where x is larger
        self.register_buffer("quadratic", 0.5 * (a + a.T) * spread)
        self.register_buffer("linear", 0.7 * torch.randn(n, dtype=torch.float64, generator=generator))
        self.register_buffer("cubic", 0.15 * spread * torch.randn(n, n, n, dtype=torch.float64, generator=generator))

    def forward(self, x: Tensor) -> Tensor:
        e = x.flatten(1).to(self.linear)
        if self.kind == "flat":  # x enters through functions whose slope is 0 at every state
            e = torch.sin(math.pi / 2 * e) if isinstance(self.domain, Spin) else torch.cos(math.pi * e)
        energy = (e @ self.quadratic * e).sum(1) / 2 + e @ self.linear
        if self.kind == "cubic":
            n = e.shape[1]
            pairs = (e @ self.cubic.reshape(n, n * n)).view(-1, n, n)
            energy = energy + ((pairs @ e[:, :, None])[:, :, 0] * e).sum(1)
        return (self.scale * energy).to(x.dtype)

    def as_states(self, x: Tensor) -> Tensor:
        """States as they are, whatever the type of the buffers: kernels are tried in both precisions on one target."""
        return x
