"""A Gibbs sweep over a Potts model as one kernel: a program redraws all sites of a chain, one after the other.

It keeps the chain's values, and reads a row of the couplings for each of them at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
import triton
import triton.language as tl
from torch import Tensor

from ebmlab.domains import Categorical
from ebmlab.energies import Energy, Potts
from ebmlab.energies.bipartite import one_hot
from ebmlab.fused.interpreter import tile_of_chains
from ebmlab.fused.tiles import seed
from ebmlab.samplers import GibbsSweep, Info, Kernel, Sampler, State
from ebmlab.samplers.numbers import Number


@triton.jit
def sweep_kernel(
    values, rows, field, order, seed, masses, sites, chains, q,
    CHAINS: tl.constexpr, SITES: tl.constexpr, VALUES: tl.constexpr,
):  # fmt: skip
    """Redraws values `(chains, sites)` in place. Row (i, j, b) of `rows` `(sites, sites, q, q)` is J_ij( . , b)."""
    chain = (tl.program_id(0) * CHAINS + tl.arange(0, CHAINS)).to(tl.int64)
    j, a = tl.arange(0, SITES), tl.arange(0, VALUES)
    inside, here, real, key = chain < chains, j < sites, a < q, tl.load(seed)
    at, mask = chain[:, None] * sites + j[None, :], inside[:, None] & here[None, :]
    b = tl.load(values + at, mask=mask, other=0).to(tl.int32)
    mass = tl.zeros((CHAINS,), tl.float32)
    for turn in range(0, sites):
        i = tl.load(order + turn)
        row = (j[None, :] * q + b) * q  # that of i itself is 0
        pulls = tl.load(
            rows + i * sites * q * q + (row[:, :, None] + a[None, None, :]),
            mask=(here[:, None] & real[None, :])[None, :, :],
            other=0.0,
        )
        own = tl.load(field + i * q + a, mask=real, other=-float("inf"))
        logits = own[None, :] + tl.sum(pulls, 1)
        weights = tl.exp(logits - tl.max(logits, 1)[:, None])
        cdf = tl.cumsum(weights, 1)
        total = tl.sum(weights, 1)
        level = tl.rand(key, turn * chains + chain) * total
        drawn = tl.sum(((cdf <= level[:, None]) & real[None, :]).to(tl.int32), 1)
        b = tl.where(j[None, :] == i, tl.minimum(drawn, q - 1)[:, None], b)
        mass += total
    tl.store(values + at, b, mask=mask)
    tl.store(masses + chain, mass, mask=inside)


@dataclass(kw_only=True)
class ValuesState(State):
    """x, and its values as numbers.

    Attributes:
        values: `(B, d)`, int64.
    """

    values: Tensor


def start(energy: Energy, x: Tensor, settings: Sequence[Number], rows: Tensor, scan: str) -> ValuesState:
    """The state at one-hot x."""
    return ValuesState(x=x, values=cast(Categorical, energy.domain).to_index(x))


def step(
    energy: Energy, state: ValuesState, settings: Sequence[Number], rows: Tensor, scan: str
) -> tuple[ValuesState, Info]:
    """A sweep over all sites; a chain with a site that has no law reports NaN."""
    values, (sites, q) = state.values.clone(memory_format=torch.contiguous_format), cast(Potts, energy).field.shape
    chains, device = len(values), values.device
    order = torch.randperm(sites, device=device) if scan == "random" else torch.arange(sites, device=device)
    masses, tall = state.x.new_empty(chains), tile_of_chains(chains)
    long, wide = triton.next_power_of_2(sites), triton.next_power_of_2(q)
    sweep_kernel[(triton.cdiv(chains, tall),)](
        values, rows, cast(Potts, energy).field.detach(), order, seed(device), masses, sites, chains, q,
        CHAINS=tall, SITES=long, VALUES=wide, num_warps=min(16, max(4, long * wide // 2048)),
    )  # fmt: skip
    new = ValuesState(x=one_hot(values, state.x), values=values)
    return new, Info(lambda: masses.clamp(1, 1), lambda: (values != state.values).sum(1).to(state.x.dtype))


def kernel(sampler: Sampler, energy: Energy) -> Kernel:
    """The steps as functions, and the couplings as rows; memory grows with the square of the number of sites."""
    rows = cast(Potts, energy).couplings().detach().transpose(2, 3).contiguous()
    return Kernel(start, step, options=(rows, cast(GibbsSweep, sampler).scan))
