"""The states that differ from x in one coordinate, which ratio matching compares with x."""

from __future__ import annotations

import torch
from torch import Tensor

from ebmlab.domains import Binary, Categorical, Finite, Spin
from ebmlab.energies import Energy
from ebmlab.energies.energy import Around
from ebmlab.learners.perturbations import minus_flipped

# Neighbour i (q - 1) + s of x has the value x_i + 1 + s, modulo q, at the coordinate i. For bits it is the flip of i.


def number_of_neighbours(domain: Finite) -> int:
    """D (q - 1)."""
    return domain.size * (domain.num_values - 1)


def rises(energy: Energy, x: Tensor, index: Tensor, around: Around | None = None) -> Tensor:
    """E(y) - E(x) `(B, K)` of the neighbours y with these numbers `(B, K)`; `around` as in `flip_differences`."""
    domain = energy.domain
    assert isinstance(domain, Finite)
    if isinstance(domain, Binary | Spin):
        return energy.flip_differences(x, index, around)
    sites, shift = index // (domain.num_values - 1), index % (domain.num_values - 1)
    value = (domain.to_index(domain.flat(x)).gather(1, sites) + 1 + shift) % domain.num_values
    if index.stride(0) == 0:  # the same numbers in each row: no site is computed twice
        distinct, place = torch.unique(sites[0], return_inverse=True)
        table = energy.value_differences(x, distinct.expand(len(x), -1))[:, place]
    else:
        table = energy.value_differences(x, sites)
    return table.gather(2, value.unsqueeze(2)).squeeze(2)


def estimated_falls(domain: Finite, x: Tensor, grad: Tensor) -> Tensor:
    """E(x) - E(y) of all neighbours y, to first order in y - x, `(B, D (q - 1))`, from dE/dx `(B, *event)`."""
    if isinstance(domain, Binary | Spin):
        return minus_flipped(domain, x).mul_(grad).flatten(1)
    flat, slope = domain.flat(x), domain.flat(grad)
    if isinstance(domain, Categorical):
        falls = (slope * flat).sum(-1, keepdim=True) - slope
    else:
        falls = slope.unsqueeze(-1) * (flat.unsqueeze(-1) - domain.values_like(x))
    shift = torch.arange(domain.num_values - 1, device=x.device)
    value = (domain.to_index(flat).unsqueeze(-1) + 1 + shift) % domain.num_values
    return falls.gather(2, value).flatten(1)
