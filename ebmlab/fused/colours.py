"""A sweep of chromatic Gibbs over an Ising model with float couplings: one kernel a colour, on any sparse graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
import triton
import triton.language as tl
from torch import Tensor

from ebmlab.energies import Energy, Ising
from ebmlab.fused.interpreter import tile_of_sites
from ebmlab.fused.tiles import coins, seed
from ebmlab.samplers import Info, Kernel, Sampler, State
from ebmlab.samplers.numbers import Number


@triton.jit
def colour_kernel(
    table, sites, offsets, neighbours, weights, field, seed, num_sites, size, entries, chains,
    SITES: tl.constexpr, CHAINS: tl.constexpr,
):  # fmt: skip
    """Redraws the sites of one colour in place. The table is `(size, chains)`; no site reads one of its colour."""
    number = tl.program_id(0) * SITES + tl.arange(0, SITES)
    chain = tl.program_id(1) * CHAINS + tl.arange(0, CHAINS)
    inside, along = number < num_sites, chain < chains
    site = tl.load(sites + number, mask=inside, other=0)
    begin = tl.load(offsets + site, mask=inside, other=0)
    end = tl.load(offsets + site + 1, mask=inside & (site + 1 < size), other=entries)
    end = tl.where(inside, end, begin)
    pull = tl.zeros((SITES, CHAINS), tl.float32) + tl.load(field + site, mask=inside, other=0.0)[:, None]
    for n in range(0, tl.max(end - begin, 0)):
        at, some = begin + n, begin + n < end
        other = tl.load(neighbours + at, mask=some, other=0)
        weight = tl.load(weights + at, mask=some, other=0.0)
        spins = tl.load(
            table + other[:, None] * chains + chain[None, :], mask=some[:, None] & along[None, :], other=0.0
        )
        pull += weight[:, None] * spins
    place = site[:, None] * chains + chain[None, :]
    spins = 2.0 * coins(tl.sigmoid(2.0 * pull), tl.load(seed), place) - 1.0
    tl.store(table + place, spins, mask=inside[:, None] & along[None, :])


def start(energy: Energy, x: Tensor, settings: Sequence[Number], *lists: Tensor) -> State:
    """The state x."""
    return State(x=x)


def step(
    energy: Energy, state: State, settings: Sequence[Number], offsets: Tensor, neighbours: Tensor, weights: Tensor
) -> tuple[State, Info]:
    """A sweep over all sites in a copy of x, of which each site is a row. A NaN of J or h reaches x and the report."""
    ising = cast(Ising, energy)
    table = state.x.T.clone(memory_format=torch.contiguous_format)
    (size, chains), key = table.shape, seed(table.device)
    for sites in ising.colours:
        tall, wide = tile_of_sites(len(sites), chains)
        colour_kernel[triton.cdiv(len(sites), tall), triton.cdiv(chains, wide)](
            table, sites, offsets, neighbours, weights, ising.field, key, len(sites), size, len(weights), chains,
            SITES=tall, CHAINS=wide,
        )  # fmt: skip
    x = table.T
    return State(x=x), Info(lambda: x.sum(1).clamp(1, 1), lambda: energy.domain.hops(x, state.x))


def kernel(sampler: Sampler, energy: Energy) -> Kernel:
    """The steps as functions, and lists of neighbours: of all sites, where couplings are kept as a matrix."""
    ising = cast(Ising, energy)
    if ising.sparse:
        lists = ising.neighbours
        return Kernel(start, step, options=(lists.offsets, lists.sites, lists.weights))
    each = torch.arange(len(ising.field), device=ising.field.device)
    return Kernel(start, step, options=(each * len(each), each.repeat(len(each)), ising.coupling.flatten()))
