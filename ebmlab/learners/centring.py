"""The centred gradient of RBMs (Montavon & Mueller 2012; Melchior, Fischer & Wiskott 2016, Sec. 3)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ebmlab.energies import GRBM, RBM

Offsets = tuple[Tensor, Tensor]
"""Those of u `(V,)` and of h `(H,)`, where u is v for an RBM and v / sigma^2 for a GRBM."""


@torch.no_grad()
def mean_units(energy: RBM | GRBM, v: Tensor, weights: Tensor | None = None) -> Offsets:
    """The means over states `(B, V)`, by their weights `(B,)` if there are any, of u and of E[h | v]."""
    h = energy.units.mean(energy.hidden_given_visible(v))
    mean_v, mean_h = (x.mean(0) if weights is None else weights.to(x) @ x / len(x) for x in (v, h))
    return mean_v * energy.precision if isinstance(energy, GRBM) else mean_v, mean_h


@torch.no_grad()
def centre_gradient(energy: RBM | GRBM, offsets: Offsets) -> None:
    """Replaces the gradient of a loss, which must not change if a constant is added to E, by the centred one.

    E(v, h) = -u'W h - a'u - b'h - ... has the law of -(u - m)'W (h - l) - c'u - d'h - ... for any offsets m and l. Here
    a = c - W l and b = d - W'm. Gradient descent in W, c and d changes W, a and b as descent in W, a and b along the
    centred gradient does. A flip of all units from v to 1 - v, m with them, does not change its steps.
    """
    a, b = _biases(energy)
    W = energy.W.grad
    if W is None or a.grad is None or b.grad is None:
        return
    u, h = offsets
    W -= torch.outer(u, b.grad) + torch.outer(a.grad, h)
    a.grad -= W @ h
    b.grad -= u @ W


def _biases(energy: RBM | GRBM) -> tuple[nn.Parameter, nn.Parameter]:
    return (energy.mu, energy.b) if isinstance(energy, GRBM) else (energy.b_v, energy.b_h)
