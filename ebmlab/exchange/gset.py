"""Graphs for max-cut as `rudy` writes them and the G-set holds them: `n m`, then m lines `i j w`, counted from 1.

J = -w, so that the spins of low energy are the sides of a large cut, whose weight is (sum w - E) / 2.
"""

from __future__ import annotations

import re
from pathlib import Path

from ebmlab.errors import UserError, how_many
from ebmlab.exchange.foreign import Foreign
from ebmlab.exchange.format import Format, looks_like_text, lost_names, lost_offset, text_of
from ebmlab.exchange.weighted_graph import Edge, edges_of, graph, number, numbered
from ebmlab.io.files import write_whole

_FIRST = re.compile(r"\s*\d+\s+\d+\s*")


def read(path: Path, vartype: str | None) -> Foreign:
    """Reads a graph; `value` of the result is the weight of the cut. An edge without a weight has 1.

    Raises:
        UserError: there are more or fewer edges than the first line says, an index is out of range, or an edge is given
            twice.
    """
    size, count = -1, -1
    edges: list[Edge] = []
    for place, line in enumerate(text_of(path).splitlines(), 1):
        words = line.split()
        if not words:
            continue
        try:
            if size < 0:
                size, count = map(int, words)
            else:
                i, j, *weight = words
                edges.append((int(i), int(j), float(*weight or (1,)), " ".join(words)))
        except (ValueError, TypeError) as error:
            form = "nodes edges" if size < 0 else "i j weight"
            raise UserError(f"line {place} is {line.strip()[:60]!r}, and must be: {form}") from error
    if len(edges) != count:
        raise UserError(
            f"its first line says {how_many(count, 'edge')}, and {len(edges)} follow: it is cut short or damaged"
        )
    return graph("gset", numbered(size), edges, f"from 1 to {size}")


def write(foreign: Foreign, path: Path) -> list[str]:
    """Writes couplings as the weights of edges."""
    lines = [f"{i + 1} {j + 1} {number(weight)}\n" for i, j, weight in edges_of(foreign, "gset")]
    size = foreign.energy.domain.size
    write_whole(path, f"{size} {len(lines)}\n{''.join(lines)}")
    plain = foreign.names in ((), tuple(range(1, size + 1)))
    return ([] if plain else lost_names(foreign)) + lost_offset(foreign)


def _holds(path: Path, head: bytes) -> bool:
    return looks_like_text(head) and bool(_FIRST.fullmatch(head.decode(errors="ignore").lstrip().split("\n")[0]))


FORMAT = Format("gset", "graphs for max-cut (G-set, rudy)", (".rud", ".gset", ".mc"), _holds, read, write=write)
