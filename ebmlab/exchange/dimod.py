"""Binary quadratic models of dimod, dwave-samplers and openjij, QUBOs, and dimod's files.

dimod's energy is `sum a_i s_i + sum q_ij s_i s_j + offset`, so that h = -a and J = -q. A model on bits becomes one on
spins first. Labels keep the order that the model has; `to_numpy_vectors` would sort them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ebmlab.energies import Ising
from ebmlab.errors import UserError
from ebmlab.exchange.foreign import Foreign, Label, from_bits, in_order, labels, labels_of, spins
from ebmlab.exchange.format import Format, needed, only, text_of
from ebmlab.io.files import whole

MAGIC = b"DIMODBQM"
JSON = "BinaryQuadraticModel"


def take(given: Any) -> Foreign:
    """A binary quadratic model, a QUBO `{(i, j): q}`, or the pair `(h, J)` of an Ising problem, h also as a vector."""
    if isinstance(given, dict):
        return _quadratic("BINARY", {i: q for (i, j), q in given.items() if i == j}, given, 0.0, _order(given))
    if isinstance(given, tuple):
        h, J = given
        h = h if isinstance(h, dict) else dict(enumerate(h))
        constant = sum(float(q) for (i, j), q in J.items() if i == j)  # as s s = 1
        return _quadratic("SPIN", h, J, constant, _order({(i, i): 0 for i in h} | J))
    vartype = getattr(given.vartype, "name", str(given.vartype))
    order = in_order([labels_of(name) for name in given.variables])
    return _quadratic(vartype, dict(given.linear), dict(given.quadratic), float(given.offset), order)


def make(foreign: Foreign) -> Any:
    """The problem as dimod's BinaryQuadraticModel, on bits if it came on bits."""
    energy = only(foreign, Ising, "dimod")
    dimod = needed("dimod", "its problems")
    names = foreign.names or tuple(range(energy.domain.size))
    edges = energy.edges()
    linear = {name: -float(h) for name, h in zip(names, energy.field.tolist(), strict=True)}
    pairs = zip(edges.rows.tolist(), edges.columns.tolist(), edges.values.tolist(), strict=True)
    offset = foreign.offset if foreign.scale == 1 else 0.0
    problem = dimod.BinaryQuadraticModel("SPIN")  # its constructor would order the variables by their pairs
    problem.add_linear_from(linear)
    problem.add_quadratic_from({(names[i], names[j]): -J for i, j, J in pairs if i < j})
    problem.offset = offset
    return problem.change_vartype("BINARY", inplace=False) if foreign.form == "bits" else problem


def read(path: Path, vartype: str | None) -> Foreign:
    """A file of `BQM.to_file`, or `BQM.to_serializable()` as JSON."""
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            return _json(path)
        dimod = needed("dimod", "its binary files")
        file.seek(0)
        try:
            return take(dimod.BinaryQuadraticModel.from_file(file))
        except Exception as error:  # numpy, json and dimod raise half a dozen types at a damaged file
            raise UserError(f"it is cut short or damaged ({type(error).__name__})") from error


def write(foreign: Foreign, path: Path) -> list[str]:
    """`BQM.to_serializable()` as JSON into a .json file, else `BQM.to_file`."""
    problem = make(foreign)
    with whole(path) as temporary:
        if path.suffix == ".json":
            temporary.write_text(json.dumps(problem.to_serializable()))
        else:
            with temporary.open("wb") as file, problem.to_file() as content:
                file.write(content.read())
    return [] if foreign.scale == 1 else ["the offset of the problem"]


def _json(path: Path) -> Foreign:
    try:
        content = json.loads(text_of(path))
        vartype, offset = content["variable_type"], float(content["offset"])
        names = labels(content["variable_labels"]) or tuple(range(len(content["variable_labels"])))
        size = int(content["num_variables"])
        if content["use_bytes"]:
            raise UserError("its numbers are bytes: write it by to_serializable(use_bytes=False)")
        linear, values = ([float(x) for x in content[f"{key}_biases"]] for key in ("linear", "quadratic"))
        head, tail = ([int(x) for x in content[f"quadratic_{key}"]] for key in ("head", "tail"))
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"it is cut short or damaged ({type(error).__name__}: {error})") from error
    if not len(names) == len(linear) == size or not len(values) == len(head) == len(tail):
        raise UserError("its lists have other lengths than it says")
    return _model(vartype, head, tail, values, linear, offset, names)


def _quadratic(
    vartype: str, linear: dict[Any, Any], pairs: dict[Any, Any], offset: float, order: Sequence[Any]
) -> Foreign:
    place = {name: i for i, name in enumerate(order)}
    ends = [(place[i], place[j], float(q)) for (i, j), q in pairs.items() if i != j]
    rows, columns, values = zip(*ends, strict=True) if ends else ((), (), ())
    return _model(
        vartype, rows, columns, values, [float(linear.get(name, 0.0)) for name in order], offset, tuple(order)
    )


def _model(
    vartype: str,
    rows: Sequence[int],
    columns: Sequence[int],
    values: Sequence[float],
    linear: Sequence[float],
    offset: float,
    names: tuple[Label, ...],
) -> Foreign:
    if not np.isfinite(offset):
        raise UserError("it holds NaN or infinity")
    if vartype == "BINARY":
        energy, offset = from_bits(rows, columns, values, linear, offset)
    elif vartype == "SPIN":
        energy = spins(rows, columns, -np.asarray(values, float), -np.asarray(linear, float))
    else:
        raise UserError(f"its variables are {vartype}, and must be SPIN or BINARY")
    return Foreign(energy, "dimod", offset=offset, names=labels(names), form="bits" if vartype == "BINARY" else "spins")


def _order(pairs: dict[Any, Any]) -> list[Any]:
    """The labels in the order in which they appear; numbers in their own."""
    return in_order(list(dict.fromkeys(labels_of(name) for pair in pairs for name in pair)))


def _accepts(given: Any) -> bool:
    if isinstance(given, dict):
        return bool(given) and all(isinstance(key, tuple) and len(key) == 2 for key in given)
    if isinstance(given, tuple):
        vector = len(given) == 2 and (isinstance(given[0], dict | list) or getattr(given[0], "ndim", 0) == 1)
        return vector and isinstance(given[1], dict)
    return all(hasattr(given, name) for name in ("vartype", "linear", "quadratic", "offset"))


def _holds(path: Path, head: bytes) -> bool:
    return head.startswith(MAGIC) or (head.lstrip().startswith(b"{") and f'"{JSON}"'.encode() in head)


FORMAT = Format(
    "dimod", "dimod, dwave-samplers, openjij", (".bqm", ".json"), _holds, read, _accepts, take, write, make, True
)
