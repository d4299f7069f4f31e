"""Means and covariances of the sites of weighted states, which is all that a pairwise model sees of its data."""

from __future__ import annotations

import torch
from torch import Tensor

from ebmlab.energies.energy import Energy
from ebmlab.energies.weighted_sum import WeightedSum

COLUMNS = 512  # of a block of the product: half of a symmetric product need not be computed


def add_products(total: Tensor, x: Tensor, weights: Tensor | float = 1.0) -> None:
    """Adds the sum over n of weight_n x_n x_n' to `total` `(m, m)`, of which only blocks from the diagonal on are kept.

    Args:
        total: is changed in place. Entries more than `COLUMNS` below the diagonal stay what they are.
        x: `(N, m)`.
        weights: `(N,)`, or one for all.
    """
    weighted = x * (weights.unsqueeze(1) if isinstance(weights, Tensor) else weights)
    for begin in range(0, x.shape[1], COLUMNS):
        rows = slice(begin, begin + COLUMNS)
        total[rows, begin:].addmm_(weighted[:, rows].T, x[:, begin:])


def moments(x: Tensor, weights: Tensor | None = None, pseudo_count: float = 0.0) -> tuple[Tensor, Tensor]:
    """The weighted mean f_i(a) and the weighted mean f_ij(a, b) of products, of one-hot states or of spins.

    A pseudo-count of lambda mixes in the uniform law: (1 - lambda) f + lambda u (Morcos et al. 2011, Eq. S1 and S2).
    Their lambda is a number of sequences. Here it is a share, as in adabmDCA.

    Args:
        x: one-hot states `(N, d, q)`, or numbers `(N, d)` on a Spin domain.
        weights: `(N,)`; all alike when None. They need not be normalised.
        pseudo_count: lambda, from 0 to 1.

    Returns:
        `(d q,)` and `(d q, d q)`, or `(d,)` and `(d, d)`; a site with itself included.
    """
    flat = x.flatten(1)
    share = torch.full_like(flat[:, 0], 1 / len(x)) if weights is None else (weights / weights.sum()).to(flat)
    two = flat.new_zeros(flat.shape[1], flat.shape[1])
    add_products(two, flat, share)
    two = two.triu() + two.triu(1).T
    one = share @ flat
    if not pseudo_count:
        return one, two
    q = x.shape[2] if x.dim() == 3 else 1
    uniform, itself = (1 / q, torch.eye(q).to(two) / q) if q > 1 else (0.0, torch.eye(1).to(two))
    mixed = (1 - pseudo_count) * two + pseudo_count * uniform**2
    sites = torch.arange(x.shape[1])
    own = (1 - pseudo_count) * two.view(-1, q, x.shape[1], q)[sites, :, sites] + pseudo_count * itself
    mixed.view(-1, q, x.shape[1], q)[sites, :, sites] = own
    return (1 - pseudo_count) * one + pseudo_count * uniform, mixed


def connected(x: Tensor, weights: Tensor | None = None, pseudo_count: float = 0.0) -> Tensor:
    """C_ij(a, b) = f_ij(a, b) - f_i(a) f_j(b) of all pairs i < j and all values, `(n,)`; arguments as in `moments`."""
    return between_sites(*moments(x, weights, pseudo_count), x.shape[1])


def between_sites(one: Tensor, two: Tensor, sites: int) -> Tensor:
    """`connected`, from what `moments` gives of so many sites."""
    i, j = torch.triu_indices(sites, sites, 1, device=one.device)
    covariance = (two - torch.outer(one, one)).view(sites, -1, sites, len(one) // sites)
    return covariance[i, :, j].flatten()


class PottsSum(WeightedSum):
    """The weighted sum of energies of a Potts model, from the sums of [x_i = a] and of [x_i = a][x_j = b] alone."""

    def __init__(self, energy: Energy, pairs: Tensor, coupling: Tensor, field: Tensor, dense: bool) -> None:
        self._energy, self._pairs, self._coupling, self._field = energy, pairs, coupling, field
        self._one = torch.zeros_like(field, requires_grad=False)
        size = (field.numel(), field.numel()) if dense else coupling.shape
        self._two, self._dense = field.new_zeros(size), dense

    @torch.no_grad()
    def add(
        self, x: Tensor, hidden: Tensor | None = None, inputs: Tensor | None = None, weight: float | Tensor = 1.0
    ) -> None:
        if hidden is not None:
            raise TypeError(f"{type(self._energy).__name__} has no hidden units")
        x = x.to(self._field)
        factor = weight.to(x).view(-1, 1, 1) if isinstance(weight, Tensor) else weight
        self._one += (x * factor).sum(0)
        if self._dense:
            add_products(self._two, x.flatten(1), weight.to(x) if isinstance(weight, Tensor) else weight)
            return
        each, weighted = x.transpose(0, 1), (x * factor).transpose(0, 1)
        at_once = max(1, 2**24 // max(1, each[0].numel()))
        for pairs, two in zip(torch.split(self._pairs, at_once), torch.split(self._two, at_once), strict=True):
            two += weighted[pairs[:, 0]].mT @ each[pairs[:, 1]]

    def value(self) -> Tensor:
        (d, q), (i, j) = self._field.shape, self._pairs.T
        two = self._two.view(d, q, d, q)[i, :, j] if self._dense else self._two
        return -(self._coupling * two).sum() - (self._field * self._one).sum()
