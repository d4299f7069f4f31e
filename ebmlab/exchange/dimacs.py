"""Graphs in DIMACS' text: `c` comments, `p edge NODES EDGES` or `p col ...`, then `e i j`, counted from 1.

Instances of graph colouring have each edge in both directions, and lines `n i value`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ebmlab.errors import UserError, how_many
from ebmlab.exchange.foreign import Foreign
from ebmlab.exchange.format import Format, looks_like_text, lost_names, lost_offset, text_of
from ebmlab.exchange.weighted_graph import Edge, edges_of, graph, numbered
from ebmlab.io.files import write_whole


def read(path: Path, vartype: str | None) -> Foreign:
    """Reads a graph, all of whose edges have the weight 1. Values of nodes are left out.

    The header counts edges or lines, where each edge comes in both directions.

    Raises:
        UserError: header and body disagree, a line is of another kind, an index is out of range, or an edge is given
            twice in one direction.
    """
    size, count = -1, -1
    lost: tuple[str, ...] = ()
    edges: list[Edge] = []
    for place, line in enumerate(text_of(path).splitlines(), 1):
        kind, *words = line.split() or ["c"]
        if kind == "c":
            continue
        try:
            if kind == "p" and size < 0 and words[0] in ("edge", "col"):
                size, count = map(int, words[1:])
                if size < 0:
                    raise ValueError
            elif kind == "e" and size >= 0:
                i, j = map(int, words)
                edges.append((i, j, 1.0, line.strip()))
            elif kind == "n" and size >= 0:
                node, value = words
                int(node), float(value)
                lost = ("the values of nodes, lines n",)
            else:
                raise ValueError
        except (ValueError, IndexError) as error:
            form = "p edge NODES EDGES, once" if size < 0 or kind == "p" else "e i j, or n i value"
            raise UserError(f"line {place} is {line.strip()[:60]!r}, and must be: {form}") from error
    if size < 0:
        raise UserError("it has no line: p edge NODES EDGES")
    if count not in (len(edges), len({frozenset(edge[:2]) for edge in edges})):
        raise UserError(
            f"its line p says {how_many(count, 'edge')}, and {len(edges)} follow: it is cut short or damaged"
        )
    return replace(graph("dimacs", numbered(size), edges, f"from 1 to {size}", both_ways=True), lost=lost)


def write(foreign: Foreign, path: Path) -> list[str]:
    """Writes a graph whose weights are all 1."""
    edges, size = edges_of(foreign, "dimacs"), foreign.energy.domain.size
    if any(weight != 1 for _, _, weight in edges):
        raise UserError("dimacs holds no weights, and this graph has others than 1: write a .rud file")
    write_whole(path, f"p edge {size} {len(edges)}\n" + "".join(f"e {i + 1} {j + 1}\n" for i, j, _ in edges))
    plain = foreign.names in ((), tuple(range(1, size + 1)))
    return ([] if plain else lost_names(foreign)) + lost_offset(foreign)


def _holds(path: Path, head: bytes) -> bool:
    lines = [line.split() for line in head.decode(errors="ignore").splitlines() if line.strip()]
    first = next((words for words in lines if words[0] != "c"), [])
    return looks_like_text(head) and (first[:2] in (["p", "edge"], ["p", "col"]))


FORMAT = Format("dimacs", "graphs of DIMACS", (".clq", ".col", ".dimacs"), _holds, read, write=write)
