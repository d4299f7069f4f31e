"""Gibbs sweeps: every coordinate is redrawn once, the same one in all chains at a time (Geman & Geman, 1984)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from ebmlab.domains import Binary, Categorical, Finite, Ordinal, Spin
from ebmlab.energies import Energy, PerChain, Potts
from ebmlab.energies.evaluation import Merge
from ebmlab.energies.pairwise.site_tables import SiteTable
from ebmlab.errors import UserError
from ebmlab.numerics.noise import drawn_by_column, wide
from ebmlab.samplers.blocks import ball, redraw
from ebmlab.samplers.sampler import Sampler
from ebmlab.samplers.state import Info, State


@dataclass(kw_only=True)
class SweepState(State):
    """x, and on a `Potts` model what a sweep reads.

    Attributes:
        places: where the ones of x are in memory, j q + x_j for site j, `(B, d)`; None on other energies.
        tables: `Potts.site_tables()`; None on other energies.

    Example:
        >>> from ebmlab.energies import Potts
        >>> energy = Potts(2, 3)
        >>> x = energy.domain.from_index(torch.tensor([[2, 1]]))
        >>> GibbsSweep().init(energy, x).places
        tensor([[2, 4]])
    """

    places: Tensor | None = None
    tables: Sequence[SiteTable] | None = None


class GibbsSweep(Sampler):
    """One step redraws each coordinate once from p(x_i | all others), the same one in all chains at a time.

    On a `Potts` model the logits of a site are the sum of one row for each of its neighbours. Rows are gathered by the
    values of x, which stay integers for the length of a sweep. Three sites in order share their rows where most pairs
    interact. A sweep then reads as much as one gradient does, and counts as one evaluation. On any other energy, each
    value of each coordinate counts as one, as in `Gibbs`.

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
        if scan not in ("systematic", "random"):
            raise UserError(f"GibbsSweep: scan is {scan!r}, but must be systematic or random")
        self.scan = scan

    @torch.no_grad()
    def init(self, energy: Energy, x: Tensor, horizon: int | None = None, known: PerChain | None = None) -> SweepState:
        if not isinstance(energy, Potts) or type(energy).forward is not Potts.forward:
            return SweepState(x=x)
        d, q = energy.field.shape
        places = cast(Finite, energy.domain).to_index(x) + torch.arange(0, d * q, q, device=x.device)
        return SweepState(x=x, places=places, tables=energy.site_tables(joint=self.scan == "systematic"))

    @torch.no_grad()
    def step(self, energy: Energy, state: SweepState) -> tuple[SweepState, Info]:
        if not state.tables:
            return _one_by_one(energy, state, self._order(cast(Finite, energy.domain).size))
        assert state.places is not None
        places = state.places.clone()
        valid = ~_sweep(places, state.tables, self._order(len(state.tables)), state.x).isnan()
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
        if not at.tables:
            return None
        assert at.places is not None
        total = x.new_zeros(len(x))
        for _ in range(num_steps):
            before = None if hops is None else at.places.clone()
            total += _sweep(at.places, at.tables, self._order(len(at.tables)), x)
            if hops is not None and before is not None:
                hops += (at.places != before).sum(1)
        return None if total.isnan().any() else _states(at.places, x)

    def _order(self, parts: int) -> Sequence[int]:
        return torch.randperm(parts).tolist() if self.scan == "random" else range(parts)


def _sweep(places: Tensor, tables: Sequence[SiteTable], order: Sequence[int], x: Tensor) -> Tensor:
    """Redraws the sites of all tables in place.

    Returns:
        A number for each chain, NaN if a law was not valid.
    """
    q, total = x.shape[2], x.new_zeros(len(x))
    for table in map(tables.__getitem__, order):
        near = places if table.sites is None else places[:, table.sites] + _moves(table.sites, q)
        pull = embedding_bag(near, table.rows, mode="sum").view(len(x), -1, q)
        first, k = table.begin * q, pull.shape[1]
        own = places[:, table.begin : table.begin + k] - first  # places in rows of `within`
        for i in range(k):
            logits = pull[:, i]
            if table.within is not None:
                logits = embedding_bag(own, table.within[i], mode="sum").add_(logits)
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


def _one_by_one(energy: Energy, state: SweepState, order: Sequence[int]) -> tuple[SweepState, Info]:
    """Steps of `Gibbs` on single coordinates."""
    domain, x = cast(Finite, energy.domain), state.x
    shifts, acceptance = ball(domain.num_values, 1, 1, x.device), x.new_ones(len(x))
    for i in order:
        x, info = redraw(energy, x, torch.tensor([[i]], device=x.device).expand(len(x), 1), shifts)
        acceptance = acceptance * info.acceptance
    hops = lambda: domain.hops(x, state.x)  # noqa: E731
    return replace(state, x=x, step=state.step + 1), Info(
        acceptance, hops, evaluations=float(domain.size * domain.num_values)
    )
