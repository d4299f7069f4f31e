"""Metropolis flips of all sites of a colour at once, one colour after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import torch
from torch import Tensor

from ebmlab.domains import Binary, Spin
from ebmlab.energies import Energy
from ebmlab.native import coins
from ebmlab.samplers.chromatic_gibbs import ChromaticGibbs, Coloured, start, swept
from ebmlab.samplers.kernel import Kernel
from ebmlab.samplers.numbers import Number
from ebmlab.samplers.spin_rules import TIES, Rule, metropolis
from ebmlab.samplers.state import Info, State


def flip_probability(cost: Tensor) -> Tensor:
    """min(1, exp(-cost)) of flips with an energy difference; `TIES` where it is 0.

    Any probability leaves the law invariant there, as both ends are equally likely.
    """
    return torch.where(cost == 0, TIES, (-cost).exp().clamp(max=1.0))


def sweep(energy: Energy, table: Tensor, x: Tensor) -> Tensor:
    """Flips the sites of one colour after the other, each with its own probability; as `chromatic_gibbs.sweep`."""
    graph, total = cast(Coloured, energy), x.new_zeros(len(x))
    for sites in graph.colours:
        logits, now = graph.conditional(x, sites).T, table[sites]
        p = flip_probability(torch.where(now > 0, logits, -logits))
        total += p.sum(0)  # NaN if a logit is
        flips: Tensor = coins(p)
        table[sites] = torch.where(flips > 0, (1 if isinstance(energy.domain, Binary) else 0) - now, now)
    return total


def step(energy: Energy, state: State, settings: Sequence[Number]) -> tuple[State, Info]:
    """A sweep over all sites; the acceptance is the share of them that have flipped."""
    new, valid = swept(energy, state, sweep, TIES)
    hops: Callable[[], Tensor] = lambda: energy.domain.hops(new.x, state.x)  # noqa: E731
    return new, Info(lambda: (hops() / energy.domain.size).masked_fill(~valid, torch.nan), hops)


class ChromaticMetropolis(ChromaticGibbs):
    """One step is a sweep over all sites, one colour after the other, of Metropolis flips (Metropolis et al., 1953).

    Each site flips with probability min(1, exp(-(E(flipped) - E(x)))), and a flip that costs nothing with probability
    15/16. On graphs of two colours, flips that cost nothing and are certain would carry domain walls along for ever. A
    cold ring of spins would never find its ground state. Cold chains move more than those of `ChromaticGibbs`, so that
    an annealing needs fewer sweeps.

    Example:
        >>> from ebmlab.energies import Ising
        >>> from ebmlab.samplers import ChromaticMetropolis
        >>> ising = Ising.lattice(3, 0.2)
        >>> x, info = ChromaticMetropolis().sample(ising, ising.domain.random(4), num_steps=10)
        >>> x.shape
        torch.Size([4, 9])
    """

    domains = (Binary, Spin)

    @property
    def _rule(self) -> Rule:
        return metropolis

    def _sweep(self, energy: Energy, table: Tensor, x: Tensor) -> Tensor:
        return sweep(energy, table, x)

    @property
    def _ties(self) -> float | None:
        return TIES if type(self)._sweep is ChromaticMetropolis._sweep else None

    def kernel_on(self, energy: Energy) -> Kernel:
        return Kernel(start, step)

    def _reported(self, energy: Energy, x: Tensor, num_steps: int) -> tuple[Tensor, Info]:
        last, info = super()._reported(energy, x, num_steps)
        share = (info.hops / energy.domain.size).masked_fill(info.acceptance.isnan(), torch.nan)
        return last, Info(share, info.hops, evaluations=info.evaluations)

    def _report(self, energy: Energy, hops: Tensor) -> Info:
        return Info(hops / energy.domain.size, hops)
