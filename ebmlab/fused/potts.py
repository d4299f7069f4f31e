"""A Gibbs sweep over a Potts model as one kernel: a program redraws all sites of its chains, one after the other."""

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
    values, rows, field, order, seed, masses, sites, chains, q, CHAINS: tl.constexpr, VALUES: tl.constexpr
):  # fmt: skip
    """Redraws values `(sites, chains)` in place. Row (i, j, b) of `rows` `(sites, sites, q, q)` is J_ij( . , b)."""
    chain = tl.program_id(0) * CHAINS + tl.arange(0, CHAINS)
    a = tl.arange(0, VALUES)
    inside, real, key = chain < chains, a < q, tl.load(seed)
    mass = tl.zeros((CHAINS,), tl.float32)
    for turn in range(0, sites):
        i = tl.load(order + turn)
        own = tl.load(field + i * q + a, mask=real, other=-float("inf"))
        logits = tl.zeros((CHAINS, VALUES), tl.float32) + own[None, :]
        for j in range(0, sites):  # the row of i itself is 0
            b = tl.load(values + j * chains + chain, mask=inside, other=0)
            at = ((i * sites + j) * q + b)[:, None] * q + a[None, :]
            logits += tl.load(rows + at, mask=real[None, :], other=0.0)
        weights = tl.exp(logits - tl.max(logits, 1)[:, None])
        cdf = tl.cumsum(weights, 1)
        total = tl.sum(weights, 1)
        level = tl.rand(key, turn * chains + chain.to(tl.int64)) * total
        drawn = tl.sum(((cdf <= level[:, None]) & real[None, :]).to(tl.int64), 1)
        tl.debug_barrier()  # all threads have read the values of the last turn
        tl.store(values + i * chains + chain, tl.minimum(drawn, q - 1), mask=inside)
        tl.debug_barrier()  # and see this one in the next turn
        mass += total
    tl.store(masses + chain, mass, mask=inside)


@dataclass(kw_only=True)
class ValuesState(State):
    """x, and its values as numbers.

    Attributes:
        values: `(d, B)`, int64.
    """

    values: Tensor


def start(energy: Energy, x: Tensor, settings: Sequence[Number], rows: Tensor, scan: str) -> ValuesState:
    """The state at one-hot x."""
    return ValuesState(x=x, values=cast(Categorical, energy.domain).to_index(x).T.contiguous())


def step(
    energy: Energy, state: ValuesState, settings: Sequence[Number], rows: Tensor, scan: str
) -> tuple[ValuesState, Info]:
    """A sweep over all sites; a chain with a site that has no law reports NaN."""
    values, (sites, q) = state.values.clone(), cast(Potts, energy).field.shape
    chains, device = values.shape[1], values.device
    order = torch.randperm(sites, device=device) if scan == "random" else torch.arange(sites, device=device)
    masses, wide = state.x.new_empty(chains), tile_of_chains(chains)
    sweep_kernel[(triton.cdiv(chains, wide),)](
        values, rows, cast(Potts, energy).field.detach(), order, seed(device), masses, sites, chains, q,
        CHAINS=wide, VALUES=triton.next_power_of_2(q),
    )  # fmt: skip
    new = ValuesState(x=one_hot(values.T, state.x), values=values)
    return new, Info(lambda: masses.clamp(1, 1), lambda: (values != state.values).sum(0).to(state.x.dtype))


def kernel(sampler: Sampler, energy: Energy) -> Kernel:
    """The steps as functions, and the couplings as rows; memory grows with the square of the number of sites."""
    rows = cast(Potts, energy).couplings().detach().transpose(2, 3).contiguous()
    return Kernel(start, step, options=(rows, cast(GibbsSweep, sampler).scan))
