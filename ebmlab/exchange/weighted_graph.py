"""Graphs of other packages: what is checked of their edges, and the max-cut problem as which a graph is read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ebmlab.energies import Ising
from ebmlab.errors import UserError
from ebmlab.exchange.foreign import Foreign, Label, spins
from ebmlab.exchange.format import only

LARGEST = 10_000_000  # nodes; a damaged header says more
Edge = tuple[Label, Label, float, str]  # two nodes, the weight, and the line that says so


def graph(kind: str, names: Sequence[Label], edges: Iterable[Edge], nodes: str, *, both_ways: bool = False) -> Foreign:
    """The graph whose spins are the sides of a cut, with J = -w; its value is the weight of the cut, (sum w - E) / 2.

    Args:
        kind: the format.
        names: of all nodes, in the order of the spins.
        edges: each with its line, for errors.
        nodes: which names there are, in words.
        both_ways: whether an edge may come in its other direction, too, as the same edge.

    Raises:
        UserError: a node has no such name, is joined to itself or twice to another, or a weight is not finite.
    """
    edges = list(edges)
    place = {name: k for k, name in enumerate(names)}
    a, b = (np.array([place.get(edge[end], -1) for edge in edges], np.int64) for end in (0, 1))
    weights = np.array([edge[2] for edge in edges], float)
    pairs = np.minimum(a, b) * len(names) + np.maximum(a, b)
    kept = np.zeros(len(edges), bool)  # the first edge of each pair
    _, firsts, inverse = np.unique(pairs, return_index=True, return_inverse=True)
    kept[firsts] = True
    new = kept.copy()  # the first edge of each pair and direction
    if both_ways:
        new[np.unique(a * len(names) + b, return_index=True)[1]] = True
    unknown, loops, endless = (a < 0) | (b < 0), a == b, ~np.isfinite(weights)
    if (wrong := unknown | loops | endless | ~new).any():
        k = int(wrong.argmax())
        reasons = [
            (unknown[k], f"nodes must be {nodes}"),
            (loops[k], "it joins a node to itself"),
            (endless[k], "its weight must be finite"),
            (True, f"edge {firsts[inverse[k]] + 1} joins the same nodes"),
        ]
        reason = next(reason for holds, reason in reasons if holds)
        raise UserError(f"edge {k + 1} is '{edges[k][3][:60]}': {reason}")
    weights = weights[kept]
    energy = spins(a[kept], b[kept], -weights, np.zeros(len(names)))
    offset = sum(weights.tolist()) / 2
    return Foreign(energy, kind, offset=offset, scale=-0.5, names=tuple(names), facts={"edges": len(weights)})


def numbered(size: int) -> range:
    """The names 1, ..., size of nodes; raises `UserError` if a header says more of them than a graph can have."""
    if size > LARGEST:
        raise UserError(f"it has {size:,} nodes, and can have {LARGEST:,} at most")
    return range(1, size + 1)


def edges_of(foreign: Foreign, kind: str) -> list[tuple[int, int, float]]:
    """Each edge of a graph once, with its weight; raises `UserError` if there are fields, which no graph has."""
    energy = only(foreign, Ising, kind)
    if bool((energy.field != 0).any()):
        raise UserError(f"{kind} holds no fields: add a spin that is joined to all others, by their fields")
    entries = energy.edges()
    ends = zip(entries.rows.tolist(), entries.columns.tolist(), entries.values.tolist(), strict=True)
    return [(i, j, -J) for i, j, J in ends if i < j]


def number(weight: float) -> str:
    """A weight with all its digits and without an exponent."""
    return str(int(weight)) if weight.is_integer() else np.format_float_positional(weight, trim="0")
