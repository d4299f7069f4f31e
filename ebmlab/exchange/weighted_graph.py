"""Graphs of other packages: what is checked of their edges, and the max-cut problem as which a graph is read."""

from __future__ import annotations

import math
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
    place = {name: k for k, name in enumerate(names)}
    seen: dict[tuple[int, int], int] = {}
    back: set[tuple[int, int]] = set()
    weights: list[float] = []
    for number, (i, j, weight, line) in enumerate(edges, 1):
        what = f"edge {number} is '{line[:60]}'"
        if i not in place or j not in place:
            raise UserError(f"{what}: nodes must be {nodes}")
        if i == j:
            raise UserError(f"{what}: it joins a node to itself")
        if not math.isfinite(weight):
            raise UserError(f"{what}: its weight must be finite")
        a, b = place[i], place[j]
        if both_ways and (b, a) in seen and (a, b) not in back:
            back.add((a, b))
            continue
        if (first := seen.get((a, b), seen.get((b, a)))) is not None:
            raise UserError(f"{what}: edge {first} joins the same nodes")
        seen[a, b] = number
        weights.append(weight)
    rows, columns = ([pair[end] for pair in seen] for end in (0, 1))
    energy = spins(rows, columns, -np.asarray(weights, float), np.zeros(len(names)))
    return Foreign(energy, kind, offset=sum(weights) / 2, scale=-0.5, names=tuple(names), facts={"edges": len(weights)})


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
