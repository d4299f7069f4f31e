"""Blocks of coordinates: choosing them, reading their values, and redrawing them near a centre.

The values of a block together are one configuration. Adding a shift to its index form, modulo `num_values`, gives
another configuration.
"""

from __future__ import annotations

import itertools
import math
from functools import cache
from typing import cast

import torch
from torch import Tensor

from ebmlab.domains import Binary, Finite, Spin
from ebmlab.energies import Energy, materialised
from ebmlab.native import bernoulli, uniform
from ebmlab.numerics.noise import categorical
from ebmlab.samplers.state import Info

MAX_CONFIGURATIONS = 2**16
CHUNK = 2**22  # largest number of entries of neighbours that are in memory at once
MANY = 1000  # from this many coordinates of all chains per block member, a CPU draws the members one by one


def ball_size(num_values: int, width: int, radius: int) -> int:
    """Number of configurations of `width` coordinates that differ from a given one in at most `radius` of them."""
    return sum(math.comb(width, k) * (num_values - 1) ** k for k in range(min(radius, width) + 1))


@cache
def ball(num_values: int, width: int, radius: int, device: torch.device) -> Tensor:
    """The shifts `(K, width)` that change at most `radius` of `width` coordinates, ordered by the number of changes."""
    shifts = []
    for distance in range(min(radius, width) + 1):
        for places in itertools.combinations(range(width), distance):
            for values in itertools.product(range(1, num_values), repeat=distance):
                at = dict(zip(places, values, strict=True))
                shifts.append([at.get(i, 0) for i in range(width)])
    with torch.inference_mode(False):
        return torch.tensor(shifts, device=device)


def uniform_index(like: Tensor, n: int | Tensor) -> Tensor:
    """Uniform draws from 0, ..., n - 1 (0 where n is 0), int64, in the shape of `like`."""
    return uniform(like).mul_(n).long()


def random_block(domain: Finite, x: Tensor, width: int) -> Tensor:
    """Draws `width` different coordinates for each chain, uniformly, `(B, width)`."""
    if width == 1:
        return uniform_index(x.new_empty(len(x), 1), domain.size)
    if x.device.type != "cpu" or len(x) * domain.size < MANY * width:
        return uniform(x.new_empty(len(x), domain.size)).topk(width, sorted=False).indices
    tops = range(domain.size - width, domain.size)  # Floyd's method draws one number per member of the block
    drawn = uniform(x.new_empty(len(x), width))
    block = torch.empty_like(drawn, dtype=torch.int64)
    for k, top in enumerate(tops):
        member = drawn[:, k].mul(top + 1).long()
        taken = (block[:, :k] == member.unsqueeze(1)).any(1)
        block[:, k] = member.masked_fill_(taken, top)
    return block


def values_at(domain: Finite, x: Tensor, block: Tensor) -> Tensor:
    """Index form of the coordinates `block` `(B, X)` of x, `(B, X)`."""
    flat = domain.flat(x)
    return domain.to_index(torch.take_along_dim(flat, block.view(*block.shape, *[1] * (flat.dim() - 2)), 1))


def place(domain: Finite, x: Tensor, block: Tensor, configurations: Tensor) -> Tensor:
    """Copies of x whose coordinates `block` `(B, X)` take the values `configurations` `(B, K, X)`, in index form.

    Returns:
        `(B * K, *event)`; the K configurations of one chain are consecutive.
    """
    flat = domain.flat(x).unsqueeze(1)
    values = domain.from_index(configurations).to(x.dtype)
    index = block.view(len(x), 1, -1, *[1] * (values.dim() - 3)).expand_as(values)
    copies = flat.repeat(1, configurations.shape[1], *[1] * (flat.dim() - 2))
    return copies.scatter_(2, index, values).view(-1, *x.shape[1:])


def change_differences(energy: Energy, x: Tensor, index: Tensor | None = None, *, here: Tensor | None = None) -> Tensor:
    """E(x with one coordinate changed) - E(x), for every other value of that coordinate.

    Args:
        energy: an energy on a finite domain.
        x: states, `(B, *event)`.
        index: the coordinates to change, `(B, k)`; None for all.
        here: E(x) `(B,)`, if it is known: energies without a closed form of the differences do not evaluate it again.

    Returns:
        `(B, k, num_values - 1)`, one difference for each of the shifts 1, ..., num_values - 1.
    """
    domain, kind = energy.domain, type(energy)
    if isinstance(domain, Binary | Spin):
        if here is not None and kind.flip_differences is Energy.flip_differences:
            return energy.flip_differences(x, index, (here,)).unsqueeze(-1)
        return energy.flip_differences(x, index).unsqueeze(-1)
    assert isinstance(domain, Finite)
    values = domain.to_index(x).flatten(1) if index is None else values_at(domain, x, index)
    others = (values.unsqueeze(-1) + torch.arange(1, domain.num_values, device=x.device)) % domain.num_values
    if here is not None and kind.value_differences is Energy.value_differences:
        return materialised.value_differences(energy, x, index, here=here).gather(-1, others)
    return energy.value_differences(x, index).gather(-1, others)


def draw(energies: Tensor) -> Tensor:
    """Draws an index of the last axis with probability proportional to exp(-energies), int64."""
    if energies.shape[-1] == 2:
        return bernoulli(energies[..., 0] - energies[..., 1]).long()
    return categorical((-energies).log_softmax(-1))


def redraw(energy: Energy, x: Tensor, block: Tensor, shifts: Tensor, away: Tensor | None = None) -> tuple[Tensor, Info]:
    """Draws the coordinates `block` from p( . | all others), restricted to the given shifts from a centre.

    If the shifts change at most one coordinate, `energy.value_differences` compares them. Otherwise, and where the
    energy of a centre is infinite, the energy is evaluated at every configuration.

    Args:
        energy: an energy on a finite domain.
        x: states, `(B, *event)`.
        block: coordinates, `(B, X)`.
        shifts: a `ball`, `(K, X)`.
        away: shift of the centre from x_block, `(B, X)`; None if the centre is x_block itself.

    Returns:
        The new x, and its `Info`. The acceptance of a chain is 1. It is NaN, and x does not change, if one of its
        energies is NaN or -infinity, or if all are infinite. A centre at an x of infinite energy has the same effect on
        a GPU.
    """
    domain = cast(Finite, energy.domain)
    centre = old = values_at(domain, x, block)
    at = x
    if away is not None:
        centre = (old + away) % domain.num_values
        at = place(domain, x, block, centre.unsqueeze(1))
    configurations = (centre.unsqueeze(1) + shifts) % domain.num_values
    by_differences = len(shifts) == ball_size(domain.num_values, block.shape[1], 1)
    if by_differences:
        changes = change_differences(energy, at, block).flatten(1)
        energies = torch.cat([changes.new_zeros(len(x), 1), changes], 1)
        # A centre of infinite energy has no differences. A GPU would wait for the search, so Gibbs leaves it out.
        looks = away is not None or x.device.type == "cpu"
        by_differences = not looks or bool((changes > -torch.inf).all())
    if not by_differences:
        chunks = configurations.chunk(max(1, -(-len(shifts) * x.numel() // CHUNK)), 1)
        energies = torch.cat([energy(place(domain, x, block, part)).view(len(x), -1) for part in chunks], 1)
    chosen = torch.take_along_dim(configurations, draw(energies).view(-1, 1, 1), 1)
    broken = ~(energies > -torch.inf).all(1, keepdim=True) | (energies == torch.inf).all(1, keepdim=True)
    new = torch.where(broken, old, chosen.squeeze(1))
    acceptance = x.new_ones(len(x)).masked_fill_(broken.squeeze(1), torch.nan)
    hops = (new != old).sum(1).to(x.dtype)
    return place(domain, x, block, new.unsqueeze(1)), Info(acceptance, hops, evaluations=float(len(shifts)))
