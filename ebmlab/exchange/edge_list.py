"""Edge lists: lines `i j` or `i j weight`, with comments after `#`, or in lines that begin with `%`.

Nodes are named, so that none is first.

A file is known by its suffix, since `3 3` may be an edge or the first line of a G-set graph.
"""

from __future__ import annotations

from pathlib import Path

from ebmlab.errors import UserError, how_many
from ebmlab.exchange.foreign import Foreign, Label
from ebmlab.exchange.format import Format, lost_offset, text_of
from ebmlab.exchange.weighted_graph import Edge, edges_of, graph, number
from ebmlab.io.files import write_whole

SUFFIXES = (".edges", ".edgelist")


def read(path: Path, vartype: str | None) -> Foreign:
    """Reads a graph. An edge without a weight has 1; a node without an edge has no line, and is not there.

    Raises:
        UserError: a line is not of this form, joins a node to itself, or joins two nodes again.
    """
    rows: list[list[str]] = []
    for place, line in enumerate(text_of(path).splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words or words[0].startswith("%"):
            continue
        try:
            _, _, *weight = words
            float(*weight or (1,))
        except (ValueError, TypeError) as error:
            raise UserError(f"line {place} is {line.strip()[:60]!r}, and must be: i j, or: i j weight") from error
        rows.append(words)
    numbers = all(word.isdecimal() for words in rows for word in words[:2])

    def name(word: str) -> Label:
        return int(word) if numbers else word

    edges: list[Edge] = [
        (name(i), name(j), float(*weight or (1,)), " ".join((i, j, *weight))) for i, j, *weight in rows
    ]
    names: list[Label] = list(dict.fromkeys(end for edge in edges for end in edge[:2]))
    return graph("edges", sorted(names) if numbers else names, edges, "named")  # type: ignore[type-var]


def write(foreign: Foreign, path: Path) -> list[str]:
    """Writes the edges, with their weights unless all are 1."""
    edges, names = edges_of(foreign, "edges"), foreign.names or tuple(range(foreign.energy.domain.size))
    if any(len(str(name).split()) != 1 or "#" in str(name) or str(name)[0] == "%" for name in names):
        raise UserError("edges holds no names with spaces, '#' or a '%' in front: write a .rud file, which has numbers")
    plain = all(weight == 1 for _, _, weight in edges)
    rows = (f"{names[i]} {names[j]}{'' if plain else f' {number(weight)}'}\n" for i, j, weight in edges)
    write_whole(path, "".join(rows))
    left_out = len(names) - len({end for edge in edges for end in edge[:2]})
    return ([f"{how_many(left_out, 'node')} without an edge"] if left_out else []) + lost_offset(foreign)


def _holds(path: Path, head: bytes) -> bool:
    return path.suffix in SUFFIXES


FORMAT = Format("edges", "edge lists, by their suffix", SUFFIXES, _holds, read, write=write)
