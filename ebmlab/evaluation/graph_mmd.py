"""Maximum mean discrepancy between sets of graphs by their degrees, clustering and orbits (You et al., 2018, GraphRNN).

The published numbers on Ego-small refer to GraphRNN's evaluation. They are those of You et al. (2018), GNF (Liu et al.,
2019), EDP-GNN (Niu et al., 2020) and RMwGGIS (Liu et al., 2023, Table 2). Its program (JiaxuanYou/graph-generation,
eval/) has the constants below. So have those of GDSS and, since April 2021, of EDP-GNN, whose earlier kernel was a
Gaussian of the histograms.

- degree: histogram of the degrees, kernel exp(-EMD^2 / (2 sigma^2)), bins 1 apart, sigma 1;
- clustering: histogram of the local clustering coefficients in 100 bins on [0, 1], the same kernel, bins 1/100 apart,
  sigma 0.1;
- orbit: the 15 orbit counts of `orbit_counts`, averaged over the nodes, kernel exp(-|a - b|^2 / (2 sigma^2)), sigma 30.

All are the V-statistic of the squared discrepancy, mean k(x, x') + mean k(y, y') - 2 mean k(x, y) over all pairs. For
independent draws from one law it is above 0 on average, and larger for smaller sets. The kernel of the earth mover's
distance (EMD) is not positive definite (O'Bray et al., 2022, Evaluation Metrics for Graph Generative Models). Values
below 0 are therefore possible, and are not clamped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from ebmlab.errors import UserError
from ebmlab.evaluation.orbits import orbit_counts
from ebmlab.graphs import adjacency
from ebmlab.settings import require_choice

BINS = 100
CHUNK = 2**22  # kernel values at a time


@torch.no_grad()
def graph_mmd(x: Tensor, y: Tensor, *, num_nodes: int, statistic: str = "degree") -> Tensor:
    """Squared MMD between two sets of graphs, as defined at the top of this file; a scalar, float64.

    A slot without edges is not a node. A graph without edges is scored as one isolated node, as in EDP-GNN, with degree
    0, clustering 0 and no orbits.

    Args:
        x: upper triangles of adjacency matrices, row by row, `(N, n (n - 1) / 2)`, 0 and 1.
        y: the other set, `(M, n (n - 1) / 2)`.
        num_nodes: n, the number of slots.
        statistic: `degree`, `clustering` or `orbit`.

    Example:
        >>> triangles, paths = torch.ones(5, 3), torch.tensor([[1.0, 1.0, 0.0]]).repeat(5, 1)
        >>> graph_mmd(triangles, triangles, num_nodes=3).item()
        0.0
        >>> graph_mmd(triangles, paths, num_nodes=3, statistic="clustering").item() > 1
        True
    """
    require_choice("graph_mmd", STATISTICS, statistic=statistic)
    return _mmd(matrices(x, num_nodes), matrices(y, num_nodes), statistic)


@torch.no_grad()
def graph_mmds(x: Tensor, y: Tensor, *, num_nodes: int) -> dict[str, Tensor]:
    """`graph_mmd` by `degree`, `clustering` and `orbit`, and their mean, `average`; arguments as in `graph_mmd`.

    Example:
        >>> values = graph_mmds(torch.ones(5, 3), torch.ones(5, 3), num_nodes=3)
        >>> {name: value.item() for name, value in values.items()}
        {'degree': 0.0, 'clustering': 0.0, 'orbit': 0.0, 'average': 0.0}
    """
    x, y = matrices(x, num_nodes), matrices(y, num_nodes)
    values = {statistic: _mmd(x, y, statistic) for statistic in STATISTICS}
    return {**values, "average": torch.stack(list(values.values())).mean()}


class Statistic(NamedTuple):
    """Features `(N, F)` of graphs `(N, n, n)`, and their kernel exp(-d^2 / (2 sigma^2)), where d is a p-norm."""

    features: Callable[[Tensor], Tensor]
    norm: float
    sigma: float


def _degree_steps(adjacent: Tensor) -> Tensor:
    """Distribution functions of the degrees, `(N, n)`. The EMD of two laws on a line is the area between theirs."""
    return _histograms(adjacent.sum(2).long(), adjacent.shape[1], adjacent).cumsum(1)


def _clustering_steps(adjacent: Tensor) -> Tensor:
    """Distribution functions of the clustering coefficients, times the bins' width, `(N, BINS)`.

    The coefficient of a node is the share of the pairs of its neighbours that have an edge. Bins are found in integer
    arithmetic: 0.7 is in the bin that starts there, where floating point may put it into the bin below.
    """
    degree = adjacent.sum(2)
    closed = ((adjacent @ adjacent) * adjacent).sum(2).long()  # counts each pair of neighbours in both orders
    pairs = (degree * (degree - 1)).long()
    bins = (BINS * closed).div(pairs.clamp(min=1), rounding_mode="floor").clamp(max=BINS - 1)
    return _histograms(bins, BINS, adjacent).cumsum(1) / BINS


def _mean_orbits(adjacent: Tensor) -> Tensor:
    """Orbit counts averaged over the nodes, `(N, 15)`."""
    nodes = adjacent.any(2).sum(1, keepdim=True)
    return orbit_counts(adjacent).sum(1) / nodes.clamp(min=1).double()


STATISTICS = {
    "degree": Statistic(_degree_steps, norm=1.0, sigma=1.0),
    "clustering": Statistic(_clustering_steps, norm=1.0, sigma=0.1),
    "orbit": Statistic(_mean_orbits, norm=2.0, sigma=30.0),
}


def _histograms(values: Tensor, size: int, adjacent: Tensor) -> Tensor:
    """Shares of a graph's nodes with each value, `(N, size)`, float64; values are integers below `size`, `(N, n)`."""
    present = adjacent.any(2).double()
    present[:, 0] += present.sum(1) == 0  # one isolated node
    counts = present.new_zeros(len(values), size).scatter_add(1, values, present)
    return counts / counts.sum(1, keepdim=True)


def _mmd(x: Tensor, y: Tensor, statistic: str) -> Tensor:
    if min(len(x), len(y)) < 1:
        raise UserError(f"graph_mmd compares two sets of 1 or more graphs, got {len(x)} and {len(y)}")
    features, norm, sigma = STATISTICS[statistic]
    a, b = features(x), features(y)

    def mean_kernel(u: Tensor, v: Tensor) -> Tensor:
        total = u.new_zeros(())
        for rows in torch.split(u, max(1, CHUNK // len(v))):
            distance = torch.cdist(rows, v, p=norm, compute_mode="donot_use_mm_for_euclid_dist")
            total += (-distance.square() / (2 * sigma**2)).exp().sum()
        return total / (len(u) * len(v))

    return mean_kernel(a, a) + mean_kernel(b, b) - 2 * mean_kernel(a, b)


def matrices(x: Tensor, num_nodes: int) -> Tensor:
    """Adjacency matrices `(N, n, n)`, float64, of upper triangles; raises `UserError` unless they hold 0 and 1."""
    if not ((x == 0) | (x == 1)).all():
        raise UserError("graph_mmd compares graphs given by bits, 0 or 1, but some of these numbers are not")
    return adjacency(x, num_nodes).double()
