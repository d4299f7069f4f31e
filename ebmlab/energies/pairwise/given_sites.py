"""The law of some sites of a Potts model given the others, which is a Potts model."""

from __future__ import annotations

import torch
from torch import Tensor

from ebmlab.energies.pairwise.potts import Potts


@torch.no_grad()
def given_sites(energy: Potts, x: Tensor, free: Tensor) -> tuple[Potts, Tensor]:
    """The couplings between free sites, as a model without fields, and these: what free sites feel of all others.

    Args:
        energy: the model of all sites.
        x: states `(B, d, q)`; their values at free sites are not used.
        free: the sites that are free, in ascending order, `(k,)`.

    Returns:
        The model of k sites, and its fields given each of the states, `(B, k, q)`.

    Example:
        >>> energy = Potts.of(torch.zeros(3, 3, 2, 2), torch.tensor([[1.0, 2], [3, 4], [5, 6]]))
        >>> given_sites(energy, torch.eye(2)[torch.tensor([[0, 0, 1]])], torch.tensor([0, 2]))[1].tolist()
        [[[1.0, 2.0], [5.0, 6.0]]]
    """
    d, q = energy.field.shape
    place = torch.full((d,), -1, device=free.device)
    place[free] = torch.arange(len(free), device=free.device)
    inside = (place[energy.pairs] >= 0).all(1)
    rest = Potts(len(free), q, pairs=place[energy.pairs[inside]]).to(energy.field)
    rest.coupling.copy_(energy.coupling[inside])
    return rest, energy.local_field(x.index_fill(1, free, 0), free)
