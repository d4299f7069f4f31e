"""Cluster sampling of Ising and Potts models (Swendsen & Wang, 1987)."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import torch
from torch import Tensor

from ebmlab.domains import Categorical, Finite, Spin
from ebmlab.energies import Energy, Ising, ScalarPotts
from ebmlab.energies.evaluation import Merge
from ebmlab.energies.pairwise.pairwise import Pairwise
from ebmlab.errors import UserError
from ebmlab.native import bernoulli, uniform
from ebmlab.native.cluster_steps import Bonds, is_possible, moved
from ebmlab.numerics.noise import categorical
from ebmlab.samplers.by_chain import Moved
from ebmlab.samplers.sampler import Sampler
from ebmlab.samplers.state import Info, State


class SwendsenWang(Sampler):
    """Redraws whole clusters of sites (Swendsen & Wang, 1987).

    The paper is "Nonuniversal critical dynamics in Monte Carlo simulations".

    A step first draws bonds. An edge that is satisfied, x_i J_ij x_j > 0 or x_i = x_j, is bonded with probability 1 -
    exp(-w). Here w is how much its energy would rise if it were not: 2 |J_ij| for spins and J_ij for classes. Then the
    sites that bonds connect take one new value together, with logits that are the sums of their fields. Near and below
    the critical temperature of a lattice this mixes in a few steps, where single sites take forever. It is a ground
    truth for the other samplers. Frustrated couplings are exact too, but their clusters are of little use.

    Example:
        >>> from ebmlab.energies import Ising
        >>> from ebmlab.samplers import SwendsenWang
        >>> ising = Ising.lattice(4, coupling=0.7)
        >>> x, info = SwendsenWang().sample(ising, torch.ones(100, 16), num_steps=10)
        >>> bool(x.mean().abs() < 0.5)
        True
    """

    domains = (Spin, Categorical)
    keeps_values = False
    exact = True
    _single = False

    def check(self, energy: Energy) -> None:
        name = type(self).__name__
        if not isinstance(energy, Ising | ScalarPotts) or type(energy).forward is not Pairwise.forward:
            raise UserError(
                f"{name} draws bonds between sites: it needs an Ising or Potts model, {type(energy).__name__} is "
                "neither, or overrides forward; Gibbs works on any finite domain"
            )
        if isinstance(energy, ScalarPotts) and (energy.edges().values < 0).any():
            raise UserError(
                f"{name} needs Potts couplings of at least 0, and some are below: take ChromaticGibbs or Gibbs"
            )

    @torch.no_grad()
    def step(self, energy: Energy, state: State) -> tuple[State, Info]:
        model, x = cast(Ising | ScalarPotts, energy), state.x
        label, rise = self._bonded(model, x)
        y, probability = self._redrawn(model, x, label)
        valid = ~(rise + probability).isnan()  # as in `Gibbs`: no valid law, so x stays
        new = replace(state, x=Merge(valid)(y, x), step=state.step + 1)
        return new, Info(lambda: probability.masked_fill(~valid, torch.nan), Moved(energy.domain, new.x, x))

    def _run(self, energy: Energy, x: Tensor, num_steps: int) -> Tensor:
        found = self._in_cpp(energy, x, num_steps)
        return super()._run(energy, x, num_steps) if found is None else found[0]

    def _reported(self, energy: Energy, x: Tensor, num_steps: int) -> tuple[Tensor, Info]:
        if (found := self._in_cpp(energy, x, num_steps)) is None:
            return super()._reported(energy, x, num_steps)
        last, acceptance, changes = found
        return last, Info(acceptance, changes.to(acceptance), evaluations=num_steps) / max(num_steps, 1)

    @torch.no_grad()
    def _in_cpp(self, energy: Energy, x: Tensor, num_steps: int) -> tuple[Tensor, Tensor, Tensor] | None:
        """The last states, and sums of acceptances and changes; None where torch must take the steps."""
        if "_single" not in vars(type(self)) or self._watched:  # a subclass may do otherwise
            return None
        model = cast(Ising | ScalarPotts, energy)
        if not is_possible(bonds := _bonds(model)):
            return None
        domain = cast(Finite, energy.domain)
        values = domain.to_index(x).int().contiguous()
        found = moved(values, domain.num_values, bonds, num_steps=num_steps, wolff=self._single)
        return domain.from_index(values.long()).to(x.dtype), *found

    def _bonded(self, model: Ising | ScalarPotts, x: Tensor) -> tuple[Tensor, Tensor]:
        """The cluster of each site of each chain, `(B * d,)`, and the sum of w over all edges of a chain, `(B,)`."""
        edges = model.edges()
        upper = edges.rows < edges.columns
        a, b, coupling = edges.rows[upper], edges.columns[upper], edges.values[upper].to(x.dtype)
        spins = isinstance(model, Ising)
        alike = x[:, a] * x[:, b] if spins else (x[:, a] * x[:, b]).sum(2)  # 1 or -1 for spins, 1 or 0 for classes
        rise = coupling * alike + (coupling.abs() if spins else 0)
        chain, edge = (uniform(rise) < -torch.expm1(-rise)).nonzero(as_tuple=True)
        size = x.shape[1]
        return clusters(x.shape[0] * size, chain * size + a[edge], chain * size + b[edge]), rise.sum(1)

    def _redrawn(self, model: Ising | ScalarPotts, x: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
        """The next states, given the clusters, and 1 for each chain, or NaN where the clusters' values have no law."""
        field, spins = model.field.to(x.dtype), isinstance(model, Ising)
        pull = (2 * field * x if spins else field.expand_as(x)).flatten(0, 1)
        logits = torch.zeros_like(pull).index_add_(0, label, pull)
        if spins:
            y = x * (2 * bernoulli(logits) - 1)[label].view_as(x)
        else:
            drawn = categorical(logits.log_softmax(1))[label].view(x.shape[:2])
            y = cast(Categorical, model.domain).from_index(drawn).to(x.dtype)
        return y, x.new_ones(len(x)).masked_fill_(logits.view(len(x), -1).sum(1).isnan(), torch.nan)


def _bonds(model: Ising | ScalarPotts) -> Bonds:
    edges, field, spins = model.edges(), model.field.detach(), isinstance(model, Ising)
    degrees = torch.bincount(edges.rows, minlength=edges.size)
    offsets = torch.cat([degrees.new_zeros(1), degrees.cumsum(0)])
    fields = torch.stack([-field, field], 1) if spins else field.contiguous()
    others, couplings = edges.columns.contiguous(), edges.values.detach().contiguous()
    return Bonds(offsets, others, couplings, fields if fields.any() else None, spins)


def clusters(size: int, a: Tensor, b: Tensor) -> Tensor:
    """Labels the connected parts of a graph by the smallest number of a node in each, `(size,)`, int64.

    In each round the labels of bonded nodes become the smaller of both, for all nodes that had the larger one.

    Args:
        size: number of nodes.
        a: a node of each bond, `(n,)`.
        b: the other one.
    """
    label = torch.arange(size, device=a.device)
    while True:
        one, other = label[a], label[b]
        apart = one != other
        if not apart.any():
            return label
        a, b, one, other = a[apart], b[apart], one[apart], other[apart]
        label.scatter_reduce_(0, torch.maximum(one, other), torch.minimum(one, other), "amin")
        while not torch.equal(jumped := label[label], label):
            label = jumped
