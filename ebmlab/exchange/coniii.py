"""Multipliers of coniii: one vector of the fields, then of the couplings i < j by rows; the sign is ours."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from ebmlab.energies import Ising
from ebmlab.errors import WHY, UserError, explained
from ebmlab.exchange.foreign import Foreign, spins
from ebmlab.exchange.format import Format, looks_like_text, lost_names, lost_offset, only
from ebmlab.io.files import whole


def take(given: Any) -> Foreign:
    """A vector `(d + d (d - 1) / 2,)`, or a model or solver of coniii that holds one as `multipliers`."""
    vector = np.asarray(getattr(given, "multipliers", given))
    if vector.dtype.kind not in "iuf" or vector.ndim != 1:
        raise UserError(f"it holds {vector.dtype} of the shape {vector.shape}, and must be one vector of numbers")
    size = _size(len(vector))
    if size is None:
        raise UserError(f"it holds {len(vector)} numbers; d fields and d (d - 1) / 2 couplings make 1, 3, 6, 10, ...")
    rows, columns = np.triu_indices(size, 1)
    return Foreign(spins(rows, columns, vector[size:], vector[:size]), "coniii")


def make(foreign: Foreign) -> np.ndarray[Any, Any]:
    """The vector."""
    energy = only(foreign, Ising, "coniii")
    rows, columns = np.triu_indices(energy.domain.size, 1)
    parts = energy.field.detach().cpu().numpy(), energy.coupling.detach().cpu().numpy()[rows, columns]
    return np.concatenate(parts).astype(np.float64)


def read(path: Path, vartype: str | None) -> Foreign:
    """A vector that `numpy.save` or `numpy.savetxt` wrote."""
    with path.open("rb") as file:
        binary = file.read(6) == b"\x93NUMPY"
    with explained(f"it is no vector of numbers ({WHY})", (ValueError, OSError, EOFError)):
        return take(np.load(path) if binary else np.loadtxt(path, ndmin=1))


def write(foreign: Foreign, path: Path) -> list[str]:
    """Writes the vector, as .npy or as text with all digits."""
    vector = make(foreign)
    with whole(path) as temporary, temporary.open("wb") as file:
        if path.suffix == ".npy":
            np.save(file, vector)
        else:
            np.savetxt(file, vector, "%.17g")
    return lost_names(foreign) + lost_offset(foreign)


def _size(length: int) -> int | None:
    """The d with d (d + 1) / 2 numbers."""
    size = (math.isqrt(8 * length + 1) - 1) // 2
    return size if size * (size + 1) // 2 == length and size else None


def _holds(path: Path, head: bytes) -> bool:
    if head.startswith(b"\x93NUMPY"):
        return b", )" not in head and b",)" in head  # the shape of a vector
    lines = head.decode(errors="ignore").split("\n") if looks_like_text(head) else []
    return bool(lines) and all(len(line.split()) <= 1 and _is_number(line) for line in lines[:-1] or lines)


def _is_number(line: str) -> bool:
    try:
        float(line)
    except ValueError:
        return False
    return True


def _accepts(given: Any) -> bool:
    return hasattr(given, "multipliers") or (isinstance(given, np.ndarray) and given.ndim == 1)


FORMAT = Format(
    "coniii", "coniii: a vector of multipliers", (".npy", ".txt"), _holds, read, _accepts, take, write, make
)
