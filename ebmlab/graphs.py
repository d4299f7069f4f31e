"""Which sites interact: coupling matrices of lattices and random graphs, colourings, and graphs that are states."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from ebmlab.errors import UserError


def lattice(side: int, coupling: float, periodic: bool = True) -> Tensor:
    """J `(d, d)` of a square grid of d = side * side sites, numbered row by row.

    Every pair of neighbours has one edge: a periodic lattice has 2 d of them if `side` is at least 3, and with side 2,
    where a site's left and right neighbours are the same site, as many as without the periodic boundary.
    """
    if side < 1:
        raise UserError(f"lattice: side is {side}, but must be at least 1")
    sites = torch.arange(side * side).view(side, side)
    matrix = torch.zeros(side * side, side * side)
    for axis in (0, 1):
        neighbours = sites.roll(-1, axis)
        last = side if periodic else side - 1
        a, b = sites.narrow(axis, 0, last).flatten(), neighbours.narrow(axis, 0, last).flatten()
        matrix[a, b] = matrix[b, a] = coupling
    return matrix.fill_diagonal_(0)  # of a periodic lattice of one site


def barabasi_albert(num_nodes: int, num_edges: int, coupling: float, seed: int = 0) -> Tensor:
    """J `(d, d)` of a random graph grown by preferential attachment (Barabasi & Albert, 1999).

    From a star of `num_edges` + 1 nodes on, each new node joins `num_edges` distinct ones, chosen with probabilities
    proportional to their degrees: (num_nodes - num_edges) * num_edges edges in all.
    """
    if not 1 <= num_edges < num_nodes:
        raise UserError(
            f"barabasi_albert: num_edges is {num_edges}, but must be from 1 to num_nodes - 1 = {num_nodes - 1}"
        )
    generator = np.random.default_rng(seed)  # the graph belongs to the model: it leaves torch's global generator alone
    ends = [end for leaf in range(1, num_edges + 1) for end in (0, leaf)]  # every node as often as its degree
    matrix = torch.zeros(num_nodes, num_nodes)
    matrix[0, 1 : num_edges + 1] = matrix[1 : num_edges + 1, 0] = coupling
    for node in range(num_edges + 1, num_nodes):
        chosen: set[int] = set()
        while len(chosen) < num_edges:
            chosen.add(ends[generator.integers(len(ends))])
        for other in sorted(chosen):
            matrix[node, other] = matrix[other, node] = coupling
            ends += [node, other]
    return matrix


def colour(coupling: Tensor) -> list[Tensor]:
    """Site numbers, one int64 tensor per colour, such that no two sites of one colour interact.

    Greedy in the order of DSATUR (Brelaz, 1979): next comes a site whose neighbours have most colours already. Two
    colours for every bipartite graph.
    """
    adjacent = (coupling != 0).cpu().numpy()
    degree = adjacent.sum(1)
    colours = np.full(len(adjacent), -1)
    taken = np.zeros((len(adjacent), degree.max() + 1), dtype=bool)  # by a neighbour
    priority = degree.copy()
    for _ in range(len(adjacent)):
        site = np.where(colours < 0, priority, -1).argmax()
        colours[site] = first = taken[site].argmin()
        news = adjacent[site] & ~taken[:, first]
        taken[news, first] = True
        priority[news] += len(adjacent)  # degrees, all smaller, break ties
    return [torch.from_numpy(np.flatnonzero(colours == c)) for c in range(colours.max() + 1)]


def adjacency(x: Tensor, num_nodes: int) -> Tensor:
    """Adjacency matrices `(B, n, n)` of graphs given by their upper triangles, row by row, `(B, n (n - 1) / 2)`.

    Symmetric with a zero diagonal; of x's dtype, and differentiable in x.
    """
    size = num_nodes * (num_nodes - 1) // 2
    if x.dim() != 2 or x.shape[1] != size:
        raise UserError(
            f"adjacency: x has shape {tuple(x.shape)}; the upper triangle of {num_nodes} nodes takes (B, {size})"
        )
    rows, columns = torch.triu_indices(num_nodes, num_nodes, 1, device=x.device)
    place = torch.full((num_nodes, num_nodes), size, device=x.device)  # the diagonal reads the padding
    place[rows, columns] = place[columns, rows] = torch.arange(size, device=x.device)
    return pad(x, (0, 1)).index_select(1, place.flatten()).view(-1, num_nodes, num_nodes)


def triangle(matrices: Tensor) -> Tensor:
    """The inverse of `adjacency`: symmetric matrices `(B, n, n)` to their upper triangles `(B, n (n - 1) / 2)`.

    Example:
        >>> triangle(adjacency(torch.tensor([[1, 0, 1]]), 3)).tolist()
        [[1, 0, 1]]
    """
    rows, columns = torch.triu_indices(matrices.shape[-1], matrices.shape[-1], 1, device=matrices.device)
    return matrices[..., rows, columns]
