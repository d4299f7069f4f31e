"""Text in coordinates, as dimod writes it: `i j bias`, with i = j for linear biases.

dimod's own reader skips lines whose number has an exponent or ends in a dot, and its writer rounds to six decimals.
Here every line counts, and numbers are written with all their digits and without an exponent. The format has neither
an offset nor variables without a bias; a variable that no line names, below one that a line names, has none.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from ebmlab.energies import Ising
from ebmlab.errors import UserError
from ebmlab.exchange.foreign import Foreign, from_bits, labels, spins
from ebmlab.exchange.format import Format, first_line, looks_like_text, lost_names, lost_offset, only, text_of
from ebmlab.io.files import whole

_HEADER = re.compile(r"#.*?vartype[:=]\s*(\w+)")
_LINE = re.compile(r"\s*\d+\s+\d+\s+[-+.\w]+\s*")


def read(path: Path, vartype: str | None) -> Foreign:
    """Reads all lines; a number is whatever Python takes for a finite float.

    Raises:
        UserError: a line is not of this form, a pair is given twice, or nothing says whether the variables are spins.
    """
    linear: dict[int, float] = {}
    pairs: dict[tuple[int, int], float] = {}
    for number, line in enumerate(text_of(path).splitlines(), 1):
        if found := _HEADER.match(line.strip()):
            if vartype not in (None, found[1]):
                raise UserError(f"its header says {found[1]}, not {vartype}")
            vartype = found[1]
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            first, second, text = line.split()
            i, j, bias = int(first), int(second), float(text)
        except ValueError as error:
            raise UserError(f"line {number} is {line.strip()[:60]!r}, and must be: i j bias") from error
        if i < 0 or j < 0 or not np.isfinite(bias):
            raise UserError(f"line {number} is {line.strip()!r}: indices begin at 0, and biases are finite")
        key = (min(i, j), max(i, j))
        if (i == j and i in linear) or key in pairs:
            raise UserError(f"line {number} gives {i} {j} again: give each bias once")
        if i == j:
            linear[i] = bias
        else:
            pairs[key] = bias
    if vartype not in ("SPIN", "BINARY"):
        raise UserError("it does not say whether its variables are spins or bits: give vartype SPIN or BINARY")
    names = sorted({*linear, *(i for pair in pairs for i in pair)})
    place = {name: k for k, name in enumerate(names)}
    rows, columns = ([place[pair[end]] for pair in pairs] for end in (0, 1))
    biases, values = [linear.get(name, 0.0) for name in names], list(pairs.values())
    if vartype == "SPIN":
        energy, offset = spins(rows, columns, -np.asarray(values, float), -np.asarray(biases, float)), 0.0
    else:
        energy, offset = from_bits(rows, columns, values, biases)
    facts = {"lines": len(linear) + len(pairs)}
    form = "bits" if vartype == "BINARY" else "spins"
    return Foreign(energy, "coo", offset=offset, names=labels(names), form=form, facts=facts)  # type: ignore[arg-type]


def write(foreign: Foreign, path: Path) -> list[str]:
    """Writes spins, with the header that names them. Variables without any bias get the line of a 0."""
    energy = only(foreign, Ising, "coo")
    names = foreign.names or tuple(range(energy.domain.size))
    lost: list[str] = []
    if not all(isinstance(name, int) and name >= 0 for name in names):
        names = tuple(range(energy.domain.size))
        lost = lost_names(foreign)
    edges = energy.edges()
    ends = zip(edges.rows.tolist(), edges.columns.tolist(), edges.values.tolist(), strict=True)
    pairs = [(names[i], names[j], -J) for i, j, J in ends if i < j]
    linked = {name for pair in pairs for name in pair[:2]}
    lines = [(name, name, -h) for name, h in zip(names, energy.field.tolist(), strict=True) if h or name not in linked]
    with whole(path) as temporary:
        rows = (f"{i} {j} {np.format_float_positional(bias, trim='0')}\n" for i, j, bias in (*lines, *pairs))
        temporary.write_text("# vartype=SPIN\n" + "".join(rows))
    return lost + lost_offset(foreign)


def _holds(path: Path, head: bytes) -> bool:
    lines = head.decode(errors="ignore").splitlines() if looks_like_text(head) else ()
    return any(_HEADER.match(line.strip()) for line in lines) or bool(_LINE.fullmatch(first_line(head)))


FORMAT = Format("coo", "dimod's text in coordinates", (".coo",), _holds, read, write=write)
