"""Energies of neighbours that are made one by one, for energies without a closed form of them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ebmlab.energies.laws import num_laws, of_chains

MANY = 2048  # states per evaluation when there are many


def value_differences(energy: Any, x: Tensor, index: Tensor | None, *, here: Tensor | None = None) -> Tensor:
    """`Energy.value_differences` on a domain of integers or classes, where `here` is E(x) `(B,)`, if it is known."""
    domain = energy.domain
    flat = domain.flat(x)
    if index is None:
        index = torch.arange(domain.size, device=x.device).expand(len(x), domain.size)
    batch, k = index.shape
    if domain.num_values == 1:
        return x.new_zeros(batch, k, 1)  # there are no neighbours
    rows, columns, shifts = (torch.arange(n, device=x.device) for n in (batch, k, domain.num_values - 1))
    present = domain.to_index(flat).gather(1, index).unsqueeze(2)
    others = (present + shifts + 1) % domain.num_values
    neighbours = flat[:, None, None].repeat(1, k, len(shifts), *[1] * (flat.dim() - 1))
    neighbours[rows.view(-1, 1, 1), columns.view(-1, 1), shifts, index.unsqueeze(2)] = domain.values_like(x)[others]
    here = energy(x) if here is None else here
    changes = energies_of(energy, neighbours.view(-1, *x.shape[1:])).view(others.shape) - here.view(-1, 1, 1)
    return changes.new_zeros(batch, k, domain.num_values).scatter(2, others, changes)


def energies_of(energy: Any, x: Tensor) -> Tensor:
    """Energies of many states, `(n,)`, computed in parts: a network's activations take more memory than x.

    If chains have laws of their own, a part holds the states of some of these laws.
    """
    laws = num_laws(energy)
    if laws == 1:
        return torch.cat([energy(part) for part in torch.split(x, MANY)])
    if len(x) <= MANY or torch.compiler.is_compiling():
        energies: Tensor = energy(x)
        return energies
    own = torch.split(torch.arange(laws, device=x.device), max(1, MANY * laws // len(x)))
    parts = torch.split(x, [len(part) * (len(x) // laws) for part in own])
    return torch.cat([of_chains(energy, index, laws)(part) for index, part in zip(own, parts, strict=True)])
