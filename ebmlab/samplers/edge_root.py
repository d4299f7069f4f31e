"""A root of a sparse symmetric matrix that diagonal dominance has made positive semi-definite."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding_bag

from ebmlab.graphs import Edges


class EdgeRoot(nn.Module):
    """R `(m, d)` with R'R = W + D, of a symmetric W with m edges: entries above its diagonal that are not 0.

    D_ii is the sum of |W_ij| over j != i, minus W_ii. So W + D is the sum of |W_ij| (e_i + s e_j)(e_i + s e_j)' over
    the edges, with s the sign of W_ij. The root of each term is a row of R. Time and memory grow with the edges, where
    a symmetric root would have d^2 entries.

    Args:
        edges: W.

    Attributes:
        diagonal: D, `(d,)`.
        size: m.
    """

    diagonal: Tensor
    lower: Tensor
    upper: Tensor
    scale: Tensor
    sign: Tensor
    members: Tensor
    offsets: Tensor
    weights: Tensor

    def __init__(self, edges: Edges) -> None:
        super().__init__()
        off = edges.rows != edges.columns
        rows, columns, values = edges.rows[off], edges.columns[off], edges.values[off]
        above, key = rows < columns, torch.minimum(rows, columns) * edges.size + torch.maximum(rows, columns)
        degrees = torch.bincount(rows, minlength=edges.size)
        buffers = {
            "diagonal": values.new_zeros(edges.size)
            .index_add(0, rows, values.abs())
            .index_add(0, edges.rows[~off], -edges.values[~off]),
            "lower": rows[above],
            "upper": columns[above],
            "scale": values[above].abs().sqrt(),
            "sign": values[above].sign(),
            "members": torch.searchsorted(key[above], key),  # the edges of each site, one site after the other
            "offsets": degrees.cumsum(0) - degrees,
            "weights": values.abs().sqrt() * torch.where(above, 1, values.sign()),
        }
        for name, buffer in buffers.items():
            self.register_buffer(name, buffer, persistent=False)
        self.size = len(self.scale)

    def forward(self, z: Tensor) -> Tensor:
        """R z `(B, m)` of z `(B, d)`."""
        sites = z.T.contiguous()
        ends = sites[self.upper].mul_(self.sign.to(z).unsqueeze(1)).add_(sites[self.lower])
        return ends.mul_(self.scale.to(z).unsqueeze(1)).T

    def transposed(self, z: Tensor) -> Tensor:
        """R' z `(B, d)` of z `(B, m)`."""
        table, weights = z.T.contiguous(), self.weights.to(z)
        return embedding_bag(self.members, table, self.offsets, mode="sum", per_sample_weights=weights).T
