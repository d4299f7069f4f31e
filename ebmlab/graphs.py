"""Coupling matrices of lattices and random graphs, graph colourings, and graphs stored as states."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from ebmlab.errors import UserError
from ebmlab.io.rebuilding import Recorded
from ebmlab.numerics.means import as_floats
from ebmlab.settings import require_count


class Edges(Recorded):
    """The couplings of a graph: the entries of a symmetric matrix J `(d, d)` that are not 0, row by row.

    Args:
        size: d, the number of sites.
        rows: the row of each entry, int64 and ascending; every edge has two entries. A config gives lists.
        columns: its column, ascending within a row.
        values: the entry, J_ij; whole numbers become torch's default floating type.

    Example:
        >>> Edges.of(torch.tensor([[0.0, 0.5], [0.5, 0.0]])).columns
        tensor([1, 0])
    """

    _is_right = False  # whether the entries are known to be as they must be

    def __init__(
        self,
        size: int,
        rows: Tensor | Sequence[int],
        columns: Tensor | Sequence[int],
        values: Tensor | Sequence[float],
    ) -> None:
        self.size = size
        self.rows, self.columns = (torch.as_tensor(ends, dtype=torch.int64) for ends in (rows, columns))
        values = values if isinstance(values, Tensor) else torch.tensor(values, dtype=torch.get_default_dtype())
        self.values = as_floats(values)

    @classmethod
    def of(cls, matrix: Tensor) -> Edges:
        """The entries of a matrix `(d, d)`."""
        rows, columns = matrix.nonzero(as_tuple=True)
        return cls(len(matrix), rows, columns, matrix[rows, columns])

    @classmethod
    def joining(cls, size: int, a: Tensor, b: Tensor, coupling: float) -> Edges:
        """Joins sites a and b `(n,)` by one edge each. Pairs given twice have one edge, and no site joins itself."""
        a, b = a[a != b], b[a != b]
        entries = torch.cat([a * size + b, b * size + a]).unique()  # type: ignore[no-untyped-call]
        entries = entries if coupling else entries[:0]
        made = cls(size, entries // size, entries % size, torch.full((len(entries),), float(coupling)))
        made._is_right = True
        return made

    def with_values(self, values: Tensor) -> Edges:
        """The same entries with other values, which must be symmetric, too."""
        made = Edges(self.size, self.rows, self.columns, values)
        made._is_right = self._is_right
        return made

    def checked(self, who: str, *, diagonal: bool = False) -> Edges:
        """The entries row by row, ascending; each of them has been looked at, unless `joining` made them.

        Args:
            who: takes them, in errors.
            diagonal: whether entries may stand on the diagonal.

        Raises:
            UserError: lists differ in length, an index is out of range, or a value is not finite. Or an entry stands on
                the diagonal, is given twice, or differs from that of the other direction.

        Example:
            >>> Edges(3, [1, 2, 0, 1], [2, 1, 1, 0], [0.5, 0.5, 2.0, 2.0]).checked("Ising").rows
            tensor([0, 1, 1, 2])
        """
        if self._is_right:
            return self
        size, rows, columns, values = self.size, self.rows, self.columns, self.values
        if any(part.dim() != 1 or len(part) != len(rows) for part in (rows, columns, values)):
            shapes = ", ".join(str(tuple(part.shape)) for part in (rows, columns, values))
            raise UserError(f"{who}: rows, columns and values of edges have the shapes {shapes}, but must be (n,) each")

        def refuse(wrong: Tensor, what: str) -> None:
            if bool(wrong.any()):
                k = int(wrong.int().argmax())
                i, j, value = int(rows[k]), int(columns[k]), float(values[k])
                raise UserError(f"{who}: the entry ({i}, {j}) {what.format(i=i, j=j, value=f'{value:.9g}')}")

        least, most = torch.minimum(rows, columns), torch.maximum(rows, columns)
        refuse((least < 0) | (most >= size), f"names a site beyond the {size}, which count from 0")
        loops = least == most
        refuse(loops & (not diagonal), "is on the diagonal: no site interacts with itself")
        refuse(~values.isfinite(), "must be finite")
        keys = rows * size + columns
        if not bool((keys[1:] > keys[:-1]).all()):
            keys, order = keys.sort()
            rows, columns, values = rows[order], columns[order], values[order]
            refuse(keys[1:] == keys[:-1], "is given twice: give one entry, the sum of both")
        back = columns * size + rows
        ordered, place = back.sort()  # a quarter of the time of looking up each entry
        if not torch.equal(ordered, keys):
            missing = ~torch.isin(back, keys)
            refuse(missing, "is {value}, but ({j}, {i}) is missing: give every edge in both directions")
        refuse(values[place] != values, "is {value}, but ({j}, {i}) is not: give both directions the same value")
        made = Edges(size, rows, columns, values)
        made._is_right = not bool(loops.any())
        return made

    def matrix(self) -> Tensor:
        """J, `(d, d)`."""
        matrix = self.values.new_zeros(self.size, self.size)
        matrix[self.rows, self.columns] = self.values
        return matrix


def lattice(side: int, coupling: float, *, periodic: bool = True) -> Tensor:
    """J `(d, d)` of a square grid of d = side * side sites, numbered row by row.

    Every pair of neighbours has one edge. A periodic lattice has 2 d edges if `side` is at least 3. With side 2, a
    site's left and right neighbours are the same site, and the periodic boundary adds no edge.

    Example:
        >>> lattice(2, coupling=0.5).tolist()
        [[0.0, 0.5, 0.5, 0.0], [0.5, 0.0, 0.0, 0.5], [0.5, 0.0, 0.0, 0.5], [0.0, 0.5, 0.5, 0.0]]
    """
    return lattice_edges(side, coupling, periodic=periodic).matrix()


def lattice_edges(side: int, coupling: float, *, periodic: bool = True) -> Edges:
    """The couplings of `lattice`, in memory that grows with the number of sites and not with its square.

    Example:
        >>> len(lattice_edges(100, coupling=0.5).values)
        40000
    """
    require_count("lattice", side=side)
    sites = torch.arange(side * side).view(side, side)
    last = side if periodic else side - 1
    pairs = [(sites.narrow(axis, 0, last), sites.roll(-1, axis).narrow(axis, 0, last)) for axis in (0, 1)]
    a, b = (torch.cat([ends.flatten() for ends in column]) for column in zip(*pairs, strict=True))
    return Edges.joining(side * side, a, b, coupling)


def barabasi_albert(num_nodes: int, num_edges: int, *, coupling: float, seed: int = 0) -> Tensor:
    """J `(d, d)` of a random graph grown by preferential attachment (Barabasi & Albert, 1999).

    The graph starts as a star of `num_edges` + 1 nodes. Each new node is joined to `num_edges` distinct older ones,
    chosen with probabilities proportional to their degrees. It has (num_nodes - num_edges) * num_edges edges in all.

    Example:
        >>> J = barabasi_albert(num_nodes=10, num_edges=2, coupling=1.0)
        >>> int(J.triu().sum())
        16
    """
    return barabasi_albert_edges(num_nodes, num_edges, coupling=coupling, seed=seed).matrix()


def barabasi_albert_edges(num_nodes: int, num_edges: int, *, coupling: float, seed: int = 0) -> Edges:
    """The couplings of `barabasi_albert`, in memory that grows with the number of edges.

    Example:
        >>> len(barabasi_albert_edges(num_nodes=10, num_edges=2, coupling=1.0).values)
        32
    """
    if not 1 <= num_edges < num_nodes:
        raise UserError(
            f"barabasi_albert: num_edges is {num_edges}, but must be from 1 to num_nodes - 1 = {num_nodes - 1}"
        )
    generator = np.random.default_rng(seed)  # the graph belongs to the model: it leaves torch's global generator alone
    ends = [end for leaf in range(1, num_edges + 1) for end in (0, leaf)]  # each node appears as often as its degree
    for node in range(num_edges + 1, num_nodes):
        chosen: set[int] = set()
        while len(chosen) < num_edges:
            chosen.add(ends[generator.integers(len(ends))])
        for other in sorted(chosen):
            ends += [node, other]
    return Edges.joining(num_nodes, torch.tensor(ends[::2]), torch.tensor(ends[1::2]), coupling)


def colour(coupling: Tensor | Edges) -> list[Tensor]:
    """Site numbers, one int64 tensor per colour, such that no two sites of one colour interact.

    DSATUR (Brelaz, 1979) colours sites greedily. The site whose neighbours have the most different colours comes next,
    and of several such the one with the most neighbours. Every bipartite graph gets two colours, which a
    breadth-first search finds in less time.

    Args:
        coupling: J `(d, d)`, or its entries in any order. Those on the diagonal and values do not count.

    Raises:
        UserError: an entry has none in the other direction, or is given twice, or names a site beyond the last.

    Example:
        >>> [sites.tolist() for sites in colour(lattice(2, coupling=0.5))]
        [[0, 3], [1, 2]]
    """
    edges = Edges.of(coupling) if isinstance(coupling, Tensor) else coupling
    edges = edges.with_values(torch.ones_like(edges.values)).checked("colour", diagonal=True)
    degrees = torch.bincount(edges.rows, minlength=edges.size)
    order = degrees.argsort(descending=True, stable=True)
    place = order.argsort()
    by_row = place[edges.rows].argsort(stable=True)
    columns, ends = place[edges.columns[by_row]].tolist(), [0, *degrees[order].cumsum(0).tolist()]
    neighbours = [columns[begin:end] for begin, end in itertools.pairwise(ends)]
    colours = _halves(neighbours) or _by_saturation(neighbours)
    found = torch.tensor(colours, dtype=torch.int64)[place]
    return [(found == c).nonzero().squeeze(1) for c in range(max(colours, default=-1) + 1)]


def _halves(neighbours: list[list[int]]) -> list[int] | None:
    """The colour of each site of a bipartite graph, as by DSATUR; None of another graph. Degrees must not rise."""
    colours = [-1] * len(neighbours)
    for first in range(len(neighbours)):
        if colours[first] >= 0:
            continue
        colours[first], reached = 0, [first]
        for site in reached:  # which grows
            other = 1 - colours[site]
            for near in neighbours[site]:
                if colours[near] < 0:
                    colours[near] = other
                    reached.append(near)
                elif colours[near] != other:
                    return None
    return colours


def _by_saturation(neighbours: list[list[int]]) -> list[int]:
    """The colour of each site, by DSATUR. Degrees must not rise, so that the first of several sites has the most."""
    taken = [0] * len(neighbours)  # bit c: whether a neighbour has colour c
    colours = [-1] * len(neighbours)
    queues = [list(range(len(neighbours)))]  # a heap of sites for each number of different colours around them
    most = 0
    while most >= 0:
        if not queues[most]:
            most -= 1
            continue
        site = heapq.heappop(queues[most])
        if colours[site] >= 0:  # queued again since, and coloured
            continue
        first = ~taken[site] & (taken[site] + 1)  # the lowest bit that is not taken
        colours[site] = first.bit_length() - 1
        for near in neighbours[site]:
            if not taken[near] & first and colours[near] < 0:
                taken[near] |= first
                count = taken[near].bit_count()
                if count == len(queues):
                    queues.append([])
                heapq.heappush(queues[count], near)
                most = max(most, count)
    return colours


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
