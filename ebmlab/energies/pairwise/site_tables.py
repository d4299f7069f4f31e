"""What the sites of a Potts model feel, as rows to gather: the tables behind a fast Gibbs sweep."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

LINE = 16  # numbers that a processor reads at once: rows of several sites are as long as whole lines


class SiteTable(NamedTuple):
    """Logits of one site, or of a few neighbouring ones, as sums of rows: one for each other site j, chosen by x_j.

    Attributes:
        begin: the first of the k sites whose logits they are.
        sites: the sites j in order, the k sites themselves among them, `(n,)`; None if they are all sites.
        rows: `(n q, k q)`. Row m q + b holds J_ij(a, b) of all k sites i and all a, where j is the m-th of `sites`. The
            rows of one of the k sites hold its own h_i(a), and 0 for the others. More columns are 0.
        within: J_ij(a, b) among the k sites, `(k, k q, q)`, the first axis being i; None if k is 1.
    """

    begin: int
    sites: Tensor | None
    rows: Tensor
    within: Tensor | None


def site_tables(pairs: Tensor, coupling: Tensor, field: Tensor) -> list[SiteTable]:
    """The table of each site; memory grows with the number of pairs.

    Args:
        pairs: `(P, 2)`, the smaller site first.
        coupling: J of each pair, `(P, q, q)`.
        field: h, `(d, q)`.
    """
    (d, q), (i, j) = field.shape, pairs.T
    each = torch.arange(d, device=field.device)
    site, neighbour = torch.cat([i, j, each]), torch.cat([j, i, each])
    blocks = torch.cat([coupling.mT, coupling, field.unsqueeze(1).expand(d, q, q)])
    order = (site * d + neighbour).argsort()
    counts = torch.bincount(site, minlength=d).tolist()
    lists, rows = torch.split(neighbour[order], counts), torch.split(blocks[order], counts)
    return [
        SiteTable(i, None if len(sites) == d else sites, own.flatten(0, 1), None)
        for i, (sites, own) in enumerate(zip(lists, rows, strict=True))
    ]


def joint_tables(pairs: Tensor, coupling: Tensor, field: Tensor, size: int) -> list[SiteTable]:
    """Tables of `size` sites each, the last one of the rest: longer rows are gathered faster.

    Args:
        pairs: as in `site_tables`; other pairs take memory too.
        coupling: as in `site_tables`.
        field: as in `site_tables`.
        size: k.
    """
    (d, q), (i, j) = field.shape, pairs.T
    smaller, larger = (torch.split(s.argsort(), torch.bincount(s, minlength=d).tolist()) for s in (i, j))
    tables = []
    for begin in range(0, d, size):
        k = min(size, d - begin)
        rows = coupling.new_zeros(d * q, -(-k * q // LINE) * LINE)
        blocks = rows[:, : k * q].view(d, q, k, q)  # (j, b, i, a)
        for m in range(k):
            after, before = smaller[begin + m], larger[begin + m]
            blocks[j[after], :, m] = coupling[after].mT
            blocks[i[before], :, m] = coupling[before]
        own = blocks[begin : begin + k]
        within = own.permute(2, 0, 1, 3).flatten(1, 2).clone() if k > 1 else None
        own.zero_().diagonal(dim1=0, dim2=2).copy_(field[begin : begin + k].T.expand(q, q, k))
        tables.append(SiteTable(begin, None, rows, within))
    return tables
