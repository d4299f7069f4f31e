"""Maximum mean discrepancy between sets of graphs by their degrees, clustering and orbits (You et al., 2018, GraphRNN).

The published numbers on Ego-small (You et al., 2018; Liu et al., 2019, GNF; Niu et al., 2020, EDP-GNN; Liu et al.,
2023, RMwGGIS, Table 2) refer to GraphRNN's evaluation, whose program (JiaxuanYou/graph-generation, eval/) has these
constants; so have those of EDP-GNN (since a correction of April 2021: a plain Gaussian of the histograms before) and
of GDSS.

- degree: histogram of the degrees, kernel exp(-EMD^2 / (2 sigma^2)), bins 1 apart, sigma 1;
- clustering: histogram of the local clustering coefficients in 100 bins on [0, 1], the same kernel, bins 1/100 apart,
  sigma 0.1;
- orbit: the 15 orbit counts of `orbit_counts`, averaged over the nodes, kernel exp(-|a - b|^2 / (2 sigma^2)), sigma 30.

All are the V-statistic of the squared discrepancy, mean k(x, x') + mean k(y, y') - 2 mean k(x, y) over all pairs. Its
value for independent draws from one law is above 0, and larger for smaller sets. The kernel of the earth mover's
distance (EMD) is not positive definite (O'Bray et al., 2022, Evaluation Metrics for Graph Generative Models): a value
below 0 is possible, and left as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from ebmlab.errors import UserError
from ebmlab.evaluation.orbits import orbit_counts
from ebmlab.graphs import adjacency

BINS = 100
CHUNK = 2**22  # kernel values at a time


@torch.no_grad()
def graph_mmd(x: Tensor, y: Tensor, num_nodes: int, statistic: str = "degree") -> Tensor:
    """Squared MMD between two sets of graphs, as in the head of this file; a scalar, float64.

    A slot without edges is not a node. A graph without edges is scored as one isolated node (as by EDP-GNN): all its
    mass at degree 0 and clustering 0, and no orbits.

    Args:
        x: upper triangles of adjacency matrices, row by row, `(N, n (n - 1) / 2)`, 0 and 1.
        y: likewise, `(M, n (n - 1) / 2)`.
        num_nodes: n, the number of slots.
        statistic: `degree`, `clustering` or `orbit`.
    """
    if statistic not in STATISTICS:
        raise UserError(f'graph_mmd: statistic is "{statistic}"; it must be one of {", ".join(STATISTICS)}')
    return _mmd(matrices(x, num_nodes), matrices(y, num_nodes), statistic)


@torch.no_grad()
def graph_mmds(x: Tensor, y: Tensor, num_nodes: int) -> dict[str, Tensor]:
    """`graph_mmd` by `degree`, `clustering` and `orbit`, and their mean, `average`; arguments as there."""
    x, y = matrices(x, num_nodes), matrices(y, num_nodes)
    values = {statistic: _mmd(x, y, statistic) for statistic in STATISTICS}
    return {**values, "average": torch.stack(list(values.values())).mean()}


class Statistic(NamedTuple):
    """What is compared: `features` of graphs `(N, n, n)`, `(N, F)`, by exp(-d^2 / (2 sigma^2)), d their p-norm."""

    features: Callable[[Tensor], Tensor]
    norm: float
    sigma: float


def _degree_steps(adjacent: Tensor) -> Tensor:
    """Distribution functions of the degrees, `(N, n)`: the EMD of two laws on a line is the area between them."""
    return _histograms(adjacent.sum(2).long(), adjacent.shape[1], adjacent).cumsum(1)


def _clustering_steps(adjacent: Tensor) -> Tensor:
    """Distribution functions of the clustering coefficients, times the bins' width, `(N, BINS)`.

    The coefficient of a node is the share of the pairs of its neighbours that have an edge. Bins are exact: 0.7 is in
    the one that starts there, where a program in floating point may have it in the one below.
    """
    degree = adjacent.sum(2)
    closed = ((adjacent @ adjacent) * adjacent).sum(2).long()  # pairs of neighbours in either order
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
    """Shares of a graph's nodes by their values `(N, n)`, whole numbers below `size`; `(N, size)`, float64."""
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
    """Adjacency matrices `(N, n, n)`, float64, of upper triangles of bits; raises `UserError` for anything else."""
    if not ((x == 0) | (x == 1)).all():
        raise UserError("graph_mmd compares graphs given by bits, 0 or 1; here are other numbers")
    return adjacency(x, num_nodes).double()
