"""Sparse couplings as a list of neighbours for each site."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ebmlab.graphs import Edges


class Neighbours(nn.Module):
    """The neighbours of some sites, one site after the other.

    Args:
        sites: numbers of the neighbours, int64.
        weights: the couplings to them, as many.
        degrees: how many belong to each site, `(k,)`.
    """

    sites: Tensor
    weights: Tensor
    offsets: Tensor

    def __init__(self, sites: Tensor, weights: Tensor, degrees: Tensor) -> None:
        super().__init__()
        self.register_buffer("sites", sites)
        self.register_buffer("weights", weights)
        self.register_buffer("offsets", degrees.cumsum(0) - degrees)

    @classmethod
    def given_by(cls, edges: Edges) -> Neighbours:
        """The lists of all sites."""
        return cls(edges.columns, edges.values, torch.bincount(edges.rows, minlength=edges.size))

    @property
    def degrees(self) -> Tensor:
        """How many neighbours each site has, `(k,)`."""
        return torch.cat([self.offsets[1:], self.offsets.new_tensor([len(self.sites)])]) - self.offsets

    def edges(self) -> Edges:
        """The lists as entries of a matrix, if these are the lists of all sites."""
        size = len(self.offsets)
        rows = torch.arange(size, device=self.sites.device).repeat_interleave(self.degrees)
        return Edges(size, rows, self.sites, self.weights)

    def of(self, chosen: Tensor) -> Neighbours:
        """The lists of the `chosen` sites alone, in their order."""
        degrees = self.degrees[chosen]
        entries = torch.arange(int(degrees.sum()), device=chosen.device)
        entries += (self.offsets[chosen] - degrees.cumsum(0) + degrees).repeat_interleave(degrees)
        return Neighbours(self.sites[entries], self.weights[entries], degrees)
