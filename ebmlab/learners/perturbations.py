"""Symmetric noise on states of any domain: where energy discrepancy looks for what the data are compared with."""

from __future__ import annotations

import torch
from torch import Tensor

from ebmlab.domains import Binary, Domain, Finite, Ordinal, Real, Spin
from ebmlab.native import normal, uniform
from ebmlab.product import Product


def perturbed(domain: Domain, x: Tensor, *, flip_probability: float, noise_level: float) -> Tensor:
    """Draws from a kernel q with q(y | x) = q(x | y), for each coordinate by itself (Schroeder et al., 2024, Sec. 3).

    With the probability p, bits and spins flip, and categories become one of the others. Ordinal numbers take a step up
    or down with it, but none beyond the ends. Real numbers get normal noise. On a `Product`, each part has its own
    noise.

    Args:
        domain: of the states.
        x: states, `(B, *event)`.
        flip_probability: p.
        noise_level: standard deviation of the normal noise.
    """
    if isinstance(domain, Product):
        settings = {"flip_probability": flip_probability, "noise_level": noise_level}
        parts = domain.split(x)
        return domain.join({name: perturbed(part, parts[name], **settings) for name, part in domain.parts.items()})
    if isinstance(domain, Real):
        return x + noise_level * normal(x)
    assert isinstance(domain, Finite)
    if isinstance(domain, Binary | Spin):
        return x - minus_flipped(domain, x) * (uniform(x) < flip_probability)
    index, last = domain.to_index(x), domain.num_values - 1
    changes = uniform(index.to(x.dtype)) < flip_probability
    if isinstance(domain, Ordinal):
        new = (index + (2 * torch.randint_like(index, 2) - 1) * changes).clamp(0, last)
    else:
        new = (index + torch.randint_like(index, max(1, last)).add(1) * changes) % domain.num_values
    return domain.from_index(new).to(x)


def minus_flipped(domain: Finite, x: Tensor) -> Tensor:
    """The difference x - y of bits or spins, where y has the other value of every coordinate."""
    return torch.add(-domain.values_like(x).sum(), x, alpha=2)
