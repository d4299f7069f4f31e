"""Graphs for max-cut as `rudy` writes them and the G-set holds them: `n m`, then m lines `i j w`, counted from 1.

J = -w, so that the spins of low energy are the sides of a large cut, whose weight is (sum w - E) / 2.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np

from ebmlab.energies import Ising
from ebmlab.errors import UserError
from ebmlab.exchange.foreign import Foreign, spins
from ebmlab.exchange.format import Format, looks_like_text, only, text_of
from ebmlab.io.files import whole

_FIRST = re.compile(r"\s*\d+\s+\d+\s*")


def read(path: Path, vartype: str | None) -> Foreign:
    """Reads a graph; `value` of the result is the weight of the cut. An edge without a weight has 1.

    Raises:
        UserError: there are more or fewer edges than the first line says, an index is out of range, or an edge is given
            twice.
    """
    lines = [line.split() for line in text_of(path).splitlines() if line.strip()]
    try:
        size, count = map(int, lines[0])
        rows, columns = ([int(line[end]) - 1 for line in lines[1:]] for end in (0, 1))
        weights = [float(line[2]) if len(line) > 2 else 1.0 for line in lines[1:]]
    except (ValueError, IndexError) as error:
        raise UserError(f"its lines must be: nodes edges, then: i j weight ({error})") from error
    if len(rows) != count:
        raise UserError(f"its first line says {count} edges, and {len(rows)} follow: it is cut short or damaged")
    seen: dict[tuple[int, int], int] = {}
    for number, (i, j, weight) in enumerate(zip(rows, columns, weights, strict=True), 1):
        what = f"edge {number} is '{' '.join(lines[number])}'"
        if not (0 <= i < size and 0 <= j < size):
            raise UserError(f"{what}: nodes must be from 1 to {size}")
        if i == j:
            raise UserError(f"{what}: it joins a node to itself")
        if not math.isfinite(weight):
            raise UserError(f"{what}: its weight must be finite")
        if (first := seen.setdefault((min(i, j), max(i, j)), number)) != number:
            raise UserError(f"{what}: edge {first} joins the same nodes")
    energy = spins(rows, columns, -np.asarray(weights, float), np.zeros(size))
    names = tuple(range(1, size + 1))
    return Foreign(energy, "gset", offset=sum(weights) / 2, scale=-0.5, names=names, facts={"edges": count})


def write(foreign: Foreign, path: Path) -> list[str]:
    """Writes couplings as the weights of edges."""
    energy = only(foreign, Ising, "gset")
    if bool((energy.field != 0).any()):
        raise UserError("gset holds no fields: add a spin that is joined to all others, by their fields")
    edges = energy.edges()
    ends = zip(edges.rows.tolist(), edges.columns.tolist(), edges.values.tolist(), strict=True)
    lines = [f"{i + 1} {j + 1} {_number(-J)}\n" for i, j, J in ends if i < j]
    with whole(path) as temporary:
        temporary.write_text(f"{energy.domain.size} {len(lines)}\n{''.join(lines)}")
    numbered = foreign.names in ((), tuple(range(1, energy.domain.size + 1)))
    lost = [] if numbered else ["the names of the variables, which became numbers"]
    return lost + ([f"the offset {foreign.offset:.9g}"] if foreign.offset and foreign.scale == 1 else [])


def _number(weight: float) -> str:
    return str(int(weight)) if weight.is_integer() else np.format_float_positional(weight, trim="0")


def _holds(path: Path, head: bytes) -> bool:
    return looks_like_text(head) and bool(_FIRST.fullmatch(head.decode(errors="ignore").lstrip().split("\n")[0]))


FORMAT = Format("gset", "graphs for max-cut (G-set, rudy)", (".rud", ".gset", ".mc"), _holds, read, write=write)
