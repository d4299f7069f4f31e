"""What one site of a Potts model feels, as rows to gather: the table behind a fast Gibbs sweep."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class SiteTable(NamedTuple):
    """Logits of a site given the others are sums of rows: one for each neighbour j, chosen by the value of x_j.

    Attributes:
        sites: the neighbours in order, the site itself among them, `(n,)`; None if they are all sites.
        rows: `(n q, q)`. Row k q + b holds J_ij(a, b) for all a, where j is neighbour k; the rows of i itself hold h_i.

    Example:
        >>> tables = site_tables(torch.tensor([[0, 1]]), torch.ones(1, 2, 2), torch.zeros(2, 2))
        >>> tables[0].sites is None, tables[0].rows.tolist()
        (True, [[0.0, 0.0], [0.0, 0.0], [1.0, 1.0], [1.0, 1.0]])
    """

    sites: Tensor | None
    rows: Tensor


def site_tables(pairs: Tensor, coupling: Tensor, field: Tensor) -> list[SiteTable]:
    """The tables of all sites; memory grows with the number of pairs.

    Args:
        pairs: `(P, 2)`, the smaller site first.
        coupling: J of each pair, `(P, q, q)`.
        field: h, `(d, q)`.

    Example:
        >>> site_tables(torch.zeros(0, 2).long(), torch.zeros(0, 2, 2), torch.tensor([[0.0, 3.0]]))[0].rows
        tensor([[0., 3.],
                [0., 3.]])
    """
    (d, q), (i, j) = field.shape, pairs.T
    each = torch.arange(d, device=field.device)
    site, neighbour = torch.cat([i, j, each]), torch.cat([j, i, each])
    blocks = torch.cat([coupling.mT, coupling, field.unsqueeze(1).expand(d, q, q)])
    order = (site * d + neighbour).argsort()
    counts = torch.bincount(site, minlength=d).tolist()
    lists, rows = torch.split(neighbour[order], counts), torch.split(blocks[order], counts)
    return [
        SiteTable(None if len(sites) == d else sites, own.flatten(0, 1)) for sites, own in zip(lists, rows, strict=True)
    ]
