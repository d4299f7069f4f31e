"""Gibbs sweeps: every coordinate is redrawn once, the same one in all chains at a time (Geman & Geman, 1984)."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, cast

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from ebmlab.domains import Binary, Categorical, Finite, Ordinal, Spin
from ebmlab.energies import Bridge, Clamped, Energy, Frequencies, PerChain, Potts, TemperedEnergy, Uniform
from ebmlab.energies.evaluation import Merge
from ebmlab.energies.laws import of_states
from ebmlab.energies.pairwise.given_sites import given_sites
from ebmlab.energies.pairwise.site_tables import SiteTable
from ebmlab.native.site_sweeps import SiteRows, is_possible
from ebmlab.numerics.noise import drawn_by_column, wide
from ebmlab.samplers.blocks import ball, redraw
from ebmlab.samplers.by_chain import Moved
from ebmlab.samplers.chromatic_gibbs import sites_first, sweep
from ebmlab.samplers.sampler import Sampler
from ebmlab.samplers.state import Info, State
from ebmlab.samplers.sweeps_in_cpp import pairwise, swept
from ebmlab.settings import require_choice


class SiteLaws(NamedTuple):
    """The logits of all sites: those of a `Potts` model times a factor, plus others that do not depend on x.

    Attributes:
        tables: `Potts.site_tables()`.
        factor: a number, or one for each chain, `(B, 1)`.
        others: `(d, q)`, or those of each chain, `(B, d, q)`; None for 0.
        rows: the tables for the kernel in C++; None where there is none.
    """

    tables: Sequence[SiteTable]
    factor: float | Tensor = 1.0
    others: Tensor | None = None
    rows: SiteRows | None = None


@dataclass(kw_only=True)
class SweepState(State):
    """x, and on a `Potts` model what a sweep reads.

    Attributes:
        places: where the ones of x are in memory, j q + x_j for site j, `(B, d)`; None on other energies.
        laws: of its sites; None on other energies.
    """

    places: Tensor | None = None
    laws: SiteLaws | None = None


class GibbsSweep(Sampler):
    """One step redraws each coordinate once from p(x_i | all others), the same one in all chains at a time.

    On a `Potts` model the logits of a site are the sum of one row for each of its neighbours. Rows are gathered by the
    values of x, which stay integers for the length of a sweep. Three sites in order share their rows where most pairs
    interact. A sweep then reads as much as one gradient does, and counts as one evaluation. So does one on an `Ising`
    or `ScalarPotts` model, learnt couplings included. On any other energy, each value of each coordinate counts as one,
    as in `Gibbs`. Kernels in C++ make the sweeps of these models on a CPU, where a compiler is at hand.

    Args:
        scan: `systematic` takes the coordinates in order; `random` in an order that is drawn for each sweep.

    Example:
        >>> from ebmlab.energies import Potts
        >>> energy = Potts(num_coordinates=5, num_values=4)
        >>> x, info = GibbsSweep().sample(energy, energy.random(10), num_steps=3)
        >>> x.shape, info.evaluations
        (torch.Size([10, 5, 4]), 1.0)
    """

    domains = (Binary, Spin, Ordinal, Categorical)
    keeps_values = False
    exact = True

    def __init__(self, scan: Literal["systematic", "random"] = "systematic") -> None:
        super().__init__()
        require_choice("GibbsSweep", ("systematic", "random"), scan=scan)
        self.scan = scan

    @torch.no_grad()
    def init(self, energy: Energy, x: Tensor, horizon: int | None = None, known: PerChain | None = None) -> SweepState:
        laws = _laws(energy, len(x), joint=self.scan == "systematic")
        if laws is None:
            return SweepState(x=x)
        domain = cast(Categorical, energy.domain)
        firsts = torch.arange(domain.size, device=x.device) * domain.num_values
        return SweepState(x=x, places=domain.to_index(x) + firsts, laws=laws)

    @torch.no_grad()
    def step(self, energy: Energy, state: SweepState) -> tuple[SweepState, Info]:
        if state.laws is None and pairwise(energy)[0] is not None:
            x, total = _by_site(energy, state.x, [self._order(cast(Finite, energy.domain).size)])
            valid = ~total.isnan()
            new = replace(state, x=Merge(valid)(x, state.x), step=state.step + 1)
            acceptance = lambda: total.new_ones(len(x)).masked_fill(~valid, torch.nan)  # noqa: E731
            return new, Info(acceptance, Moved(energy.domain, new.x, state.x))
        if state.laws is None:
            return _one_by_one(energy, state, self._order(cast(Finite, energy.domain).size))
        assert state.places is not None
        places = state.places.clone()
        valid = ~_sweep(places, state.laws, self._order(len(state.laws.tables)), state.x).isnan()
        places = Merge(valid)(places, state.places)  # a chain with a site that has no law stays where it was
        acceptance = lambda: state.x.new_ones(len(places)).masked_fill(~valid, torch.nan)  # noqa: E731
        hops = lambda: (places != state.places).sum(1).to(state.x.dtype)  # noqa: E731
        new = replace(state, x=_states(places, state.x), places=places, step=state.step + 1)
        return new, Info(acceptance, hops)

    @torch.no_grad()
    def _in_place(self, energy: Energy, x: Tensor, num_steps: int, hops: Tensor | None = None) -> Tensor | None:
        """Sweeps over the places alone: states are made at the end."""
        if self._watched or (type(self).init, type(self).step) != (GibbsSweep.init, GibbsSweep.step):
            return None
        at = self.init(energy, x)
        if at.laws is None:
            if pairwise(energy)[0] is None:
                return None
            orders = (self._order(cast(Finite, energy.domain).size) for _ in range(num_steps))
            last, total = _by_site(energy, x, orders, hops)
            return None if total.isnan().any() else last
        assert at.places is not None
        total = x.new_zeros(len(x))
        for _ in range(num_steps):
            before = None if hops is None else at.places.clone()
            total += _sweep(at.places, at.laws, self._order(len(at.laws.tables)), x)
            if hops is not None and before is not None:
                hops += (at.places != before).sum(1)
        return None if total.isnan().any() else _states(at.places, x)

    def _order(self, parts: int) -> Sequence[int]:
        return torch.randperm(parts).tolist() if self.scan == "random" else range(parts)


def _laws(energy: Energy, num_chains: int, joint: bool) -> SiteLaws | None:
    """What a sweep reads of a `Potts` model, by itself, clamped, tempered, or on a path from independent sites."""
    if isinstance(energy, Potts) and type(energy).forward is Potts.forward:
        return _laws_of(energy, joint)
    if type(energy) is Clamped and isinstance(potts := energy.energy, Potts) and type(potts).forward is Potts.forward:
        return _laws_given(potts, energy, num_chains, joint)
    factor: float | Tensor
    if type(energy) is Bridge and isinstance(base := energy.base, Uniform | Frequencies):
        factor, others = energy.beta, (1 - energy.beta) * base.logits if isinstance(base, Frequencies) else None
    elif isinstance(energy, TemperedEnergy) and energy.beta.numel() in (1, num_chains):
        factor, others = energy.beta.view(-1, 1), None
    else:
        return None
    inner = _laws(energy.energy, num_chains, joint)
    if inner is None or inner.others is not None:
        return None
    return inner._replace(factor=factor * inner.factor, others=others)


def _laws_given(energy: Potts, clamped: Clamped, num_chains: int, joint: bool) -> SiteLaws:
    """Those of the free sites. Chains for which others are given have fields of their own."""
    given = clamped.given.view(-1, *energy.field.shape)
    rest, fields = given_sites(energy, given, clamped.free)
    if len(given) == 1:
        rest.field.copy_(fields[0])
        return _laws_of(rest, joint)
    laws = _laws_of(rest, joint)
    return laws._replace(others=of_states(fields, num_chains), rows=laws.rows if is_possible(fields) else None)


def _laws_of(energy: Potts, joint: bool) -> SiteLaws:
    tables = energy.site_tables(joint=joint)
    if not is_possible(energy.field, energy.coupling):
        return SiteLaws(tables)
    rows = SiteRows(energy.field.shape[1])
    for table in tables:
        rows.append(table.rows, within=table.within, neighbours=table.sites)
    return SiteLaws(tables, rows=rows)


def _sweep(places: Tensor, laws: SiteLaws, order: Sequence[int], x: Tensor) -> Tensor:
    """Redraws all sites in place, those of one table after those of another.

    Returns:
        A number for each chain, NaN if a law was not valid.
    """
    if laws.rows is not None and is_possible(x):
        return laws.rows.redraw(places, order, factor=laws.factor, others=laws.others)
    q, total = x.shape[2], x.new_zeros(len(x))
    scaled = isinstance(laws.factor, Tensor) or laws.factor != 1
    for table in map(laws.tables.__getitem__, order):
        near = places if table.sites is None else places[:, table.sites] + _moves(table.sites, q)
        pull = embedding_bag(near, table.rows, mode="sum")
        first, k = table.begin * q, 1 if table.within is None else len(table.within)
        own = places[:, table.begin : table.begin + k] - first  # places in rows of `within`
        for i in range(k):
            logits = pull[:, i * q : (i + 1) * q]
            if table.within is not None:
                logits = embedding_bag(own, table.within[i], mode="sum").add_(logits)
            if scaled:
                logits = logits * laws.factor
            if laws.others is not None:
                logits = logits + laws.others[..., table.begin + i, :]
            weights = wide(logits).T.contiguous()
            value, mass = drawn_by_column(weights.sub_(weights.amax(0)).exp_())
            total += mass
            torch.add(value, i * q, out=own[:, i])
        torch.add(own, first, out=places[:, table.begin : table.begin + k])
    return total


def _states(places: Tensor, like: Tensor) -> Tensor:
    """One-hot states in the shape and type of `like`."""
    x = torch.zeros_like(like, memory_format=torch.contiguous_format)
    return x.flatten(1).scatter_(1, places, 1).view_as(like)


def _moves(sites: Tensor, q: int) -> Tensor:
    """From places in x to rows of the table of a site with these neighbours."""
    return (torch.arange(len(sites), device=sites.device) - sites) * q


def _by_site(
    energy: Energy, x: Tensor, orders: Iterable[Sequence[int]], hops: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """States of an Ising or scalar Potts model after sweeps in these orders, and numbers that are NaN without a law."""
    table, y = sites_first(energy, x)
    total = wide(x.new_zeros(len(x)))
    for order, sweeps in itertools.groupby(orders):
        betas, sites = [1.0] * len(list(sweeps)), torch.tensor(order, device=x.device)
        if (found := swept(energy, table, betas=betas, order=sites, hops=hops)) is not None:
            total += found
            continue
        for _ in betas:
            before = None if hops is None else table.clone()
            total += sweep(energy, table, y, groups=sites.split(1))  # type: ignore[no-untyped-call]
            if hops is not None and before is not None:
                hops += energy.domain.hops(y, before.transpose(0, 1).view(x.shape))
    return y, total


def _one_by_one(energy: Energy, state: SweepState, order: Sequence[int]) -> tuple[SweepState, Info]:
    """Steps of `Gibbs` on single coordinates."""
    domain, x = cast(Finite, energy.domain), state.x
    shifts, acceptance = ball(domain.num_values, 1, 1, x.device), x.new_ones(len(x))
    for site in torch.tensor([[i] for i in order], device=x.device):
        x, info = redraw(energy, x, site.expand(len(x), 1), shifts)
        acceptance = acceptance * info.acceptance
    hops = lambda: domain.hops(x, state.x)  # noqa: E731
    return replace(state, x=x, step=state.step + 1), Info(
        acceptance, hops, evaluations=float(domain.size * domain.num_values)
    )
