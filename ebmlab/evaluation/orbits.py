"""Counts of the roles of a graph's nodes in its small subgraphs (Przulj, 2007)."""

from __future__ import annotations

from functools import cache
from itertools import combinations

import torch
from torch import Tensor

from ebmlab.errors import UserError

NUM_ORBITS = 15
CHUNK = 2**20  # nodes, in sets of four, at a time
PAIRS = tuple(combinations(range(4), 2))
# For each connected graph of 4 nodes, identified by its sorted degrees: the orbit of a node by its degree.
FOURS: dict[tuple[int, ...], dict[int, int]] = {
    (1, 1, 2, 2): {1: 4, 2: 5},  # path
    (1, 1, 1, 3): {1: 6, 3: 7},  # star
    (2, 2, 2, 2): {2: 8},  # cycle
    (1, 2, 2, 3): {1: 9, 2: 10, 3: 11},  # paw: a triangle with a tail
    (2, 2, 3, 3): {2: 12, 3: 13},  # diamond: a cycle with a chord
    (3, 3, 3, 3): {3: 14},  # complete
}


@torch.no_grad()
def orbit_counts(adjacency: Tensor) -> Tensor:
    """The number of connected induced subgraphs of 2 to 4 nodes in which a node takes each orbit, `(B, n, 15)`, int64.

    An orbit is a set of nodes of a small graph that its automorphisms map onto each other. They are numbered as by
    Przulj (Biological network comparison using graphlet degree distribution, 2007, Fig. 1) and in the program ORCA
    (Hocevar & Demsar, 2014).

    - 0: a node with an edge.
    - 1, 2: end and middle of a path of 3.
    - 3: triangle.
    - 4, 5: end and middle of a path of 4.
    - 6, 7: leaf and centre of a star of 4.
    - 8: cycle of 4.
    - 9, 10, 11: tail, base and joint of a paw.
    - 12, 13: degree 2 and 3 in a diamond.
    - 14: complete graph of 4.

    All sets of four nodes are enumerated (3,060 in a graph of 18) and looked up by the edges among their six pairs.
    Counts for smaller subgraphs follow from degrees and triangles.

    Args:
        adjacency: `(B, n, n)`, 0 and 1, symmetric with a zero diagonal.

    Raises:
        UserError: the matrices are not of this kind.

    Example:
        >>> path = torch.tensor([[[0, 1, 0], [1, 0, 1], [0, 1, 0]]])
        >>> orbit_counts(path)[0, :, :4].tolist()  # edges, ends and middles of paths, triangles
        [[1, 1, 0, 0], [2, 0, 1, 0], [1, 1, 0, 0]]
    """
    _check(adjacency)
    edges = adjacency.double()
    degree = edges.sum(2)
    triangles = ((edges @ edges) * edges).sum(2) / 2  # whole numbers, exact in float64
    middles = degree * (degree - 1) / 2 - triangles
    ends = (edges @ (degree - 1).unsqueeze(2)).squeeze(2) - 2 * triangles
    small = torch.stack([degree, ends, middles, triangles], 2).long()
    return torch.cat([small, _four_counts(adjacency != 0)], 2)


def _four_counts(edges: Tensor) -> Tensor:
    """Orbits 4 to 14, `(B, n, 11)`, of adjacency matrices `(B, n, n)`, bool."""
    batch, n, _ = edges.shape
    device = edges.device
    sets = torch.combinations(torch.arange(n, device=device), 4)  # (S, 4)
    table = _orbit_table().to(device)
    connected = table[:, 0] > 0
    counts = torch.zeros(batch, n, NUM_ORBITS, dtype=torch.int64, device=device)
    chunk = max(1, CHUNK // max(1, 4 * len(sets)))
    for part, total in zip(torch.split(edges, chunk), torch.split(counts, chunk), strict=True):
        pairs = part.flatten(1).T.contiguous().byte()  # (n^2, b), so that one pair of all graphs is contiguous
        code = torch.zeros(len(sets), len(part), dtype=torch.uint8, device=device)
        for bit, (i, j) in enumerate(PAIRS):
            code += pairs[sets[:, i] * n + sets[:, j]] << bit
        chosen, graph = connected[code.int()].nonzero(as_tuple=True)
        orbit = table[code[chosen, graph].int()]  # (C, 4)
        place = (graph.unsqueeze(1) * n + sets[chosen]) * NUM_ORBITS + orbit
        total += torch.bincount(place.flatten(), minlength=total.numel()).view_as(total)
    return counts[..., 4:]


@cache
def _orbit_table() -> Tensor:
    """The orbits of four nodes for each set of edges among them, `(64, 4)`; 0 if they are not connected."""
    table = torch.zeros(64, 4, dtype=torch.int64)
    for code in range(64):
        degree = [0] * 4
        for bit, pair in enumerate(PAIRS):
            for node in pair:
                degree[node] += code >> bit & 1
        orbits = FOURS.get(tuple(sorted(degree)))
        if orbits is not None:
            table[code] = torch.tensor([orbits[d] for d in degree])
    return table


def _check(adjacency: Tensor) -> None:
    if adjacency.dim() != 3 or adjacency.shape[1] != adjacency.shape[2]:
        raise UserError(f"orbit_counts: adjacency has shape {tuple(adjacency.shape)}, but must be (B, n, n)")
    if not ((adjacency == 0) | (adjacency == 1)).all():
        raise UserError("orbit_counts: adjacency has entries other than 0 and 1")
    if not torch.equal(adjacency, adjacency.mT) or adjacency.diagonal(dim1=1, dim2=2).any():
        raise UserError(
            "orbit_counts: adjacency must be symmetric with a zero diagonal: graphs without direction or loops"
        )
