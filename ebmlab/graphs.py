"""Coupling matrices of lattices and random graphs, graph colourings, and graphs stored as states."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from ebmlab.errors import UserError


def lattice(side: int, coupling: float, periodic: bool = True) -> Tensor:
    """J `(d, d)` of a square grid of d = side * side sites, numbered row by row.

    Every pair of neighbours has one edge. A periodic lattice has 2 d edges if `side` is at least 3. With side 2, a
    site's left and right neighbours are the same site, and the periodic boundary adds no edge.

    Example:
        >>> lattice(2, coupling=0.5).tolist()
        [[0.0, 0.5, 0.5, 0.0], [0.5, 0.0, 0.0, 0.5], [0.5, 0.0, 0.0, 0.5], [0.0, 0.5, 0.5, 0.0]]
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
    return matrix.fill_diagonal_(0)  # the one site of a periodic lattice of side 1 is its own neighbour


def barabasi_albert(num_nodes: int, num_edges: int, coupling: float, seed: int = 0) -> Tensor:
    """J `(d, d)` of a random graph grown by preferential attachment (Barabasi & Albert, 1999).

    The graph starts as a star of `num_edges` + 1 nodes. Each new node is joined to `num_edges` distinct older ones,
    chosen with probabilities proportional to their degrees. It has (num_nodes - num_edges) * num_edges edges in all.

    Example:
        >>> J = barabasi_albert(num_nodes=10, num_edges=2, coupling=1.0)
        >>> int(J.triu().sum())
        16
    """
    if not 1 <= num_edges < num_nodes:
        raise UserError(
            f"barabasi_albert: num_edges is {num_edges}, but must be from 1 to num_nodes - 1 = {num_nodes - 1}"
        )
    generator = np.random.default_rng(seed)  # the graph belongs to the model: it leaves torch's global generator alone
    ends = [end for leaf in range(1, num_edges + 1) for end in (0, leaf)]  # each node appears as often as its degree
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

    DSATUR (Brelaz, 1979): sites are coloured greedily, first those whose neighbours have the most different colours
    already. Every bipartite graph gets two colours.

    Example:
        >>> [sites.tolist() for sites in colour(lattice(2, coupling=0.5))]
        [[0, 3], [1, 2]]
    """
    adjacent = (coupling != 0).cpu().numpy()
    degree = adjacent.sum(1)
    colours = np.full(len(adjacent), -1)
    taken = np.zeros((len(adjacent), degree.max() + 1), dtype=bool)  # a neighbour of the site has the colour
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

    The matrices are symmetric with a zero diagonal, have the dtype of x, and are differentiable in x.

    Raises:
        UserError: the shape of x is not that of upper triangles of `num_nodes` nodes.

    Example:
        >>> adjacency(torch.tensor([[1, 0, 1]]), num_nodes=3).tolist()
        [[[0, 1, 0], [1, 0, 1], [0, 1, 0]]]
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
    """Upper triangles `(B, n (n - 1) / 2)` of symmetric matrices `(B, n, n)`: the inverse of `adjacency`.

    Example:
        >>> triangle(adjacency(torch.tensor([[1, 0, 1]]), 3)).tolist()
        [[1, 0, 1]]
    """
    rows, columns = torch.triu_indices(matrices.shape[-1], matrices.shape[-1], 1, device=matrices.device)
    return matrices[..., rows, columns]
