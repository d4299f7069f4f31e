"""Plain arrays in an .npz file: J, h and offset of an Ising model; W, b_v and b_h of an RBM."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from ebmlab.energies import RBM, Ising
from ebmlab.errors import UserError, one_line
from ebmlab.exchange.foreign import Foreign, labels, machine, spins
from ebmlab.exchange.format import Format, lost_names, only
from ebmlab.io.files import whole


def arrays_in(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """All arrays of an .npz file; none of objects, which would be pickled."""
    try:
        with np.load(path, allow_pickle=False) as content:
            return dict(content)
    except Exception as error:  # numpy and zipfile raise half a dozen types at a damaged file
        text = one_line(error)
        reason = "it holds pickled objects, which can run code" if "pickle" in text else text
        raise UserError(f"it is cut short or damaged ({reason})") from error


def names_in(path: Path) -> set[str]:
    """The names of the arrays of an .npz file; none for other files."""
    try:
        with zipfile.ZipFile(path) as archive:
            return {name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")}
    except (zipfile.BadZipFile, OSError):
        return set()


def read(path: Path, vartype: str | None) -> Foreign:
    """Reads J `(d, d)` and, if they are there, h `(d,)`, offset and names; or W, b_v and b_h.

    Raises:
        UserError: J is not square, its triangles disagree, or its diagonal is not zero.
    """
    found = arrays_in(path)
    if "W" in found:
        return Foreign(machine(found["W"], found["b_v"], found["b_h"]), "arrays", form="bits")
    J = np.asarray(found["J"], np.float64)
    if J.ndim != 2 or J.shape[0] != J.shape[1]:
        raise UserError(f"J has the shape {J.shape}, and must be square")
    if not np.isfinite(J).all():
        raise UserError("it holds NaN or infinity")
    if not np.array_equal(J, J.T):
        i, j = (int(k) for k in np.argwhere(J != J.T)[0])
        raise UserError(f"the two triangles of J disagree: J[{i}, {j}] is {J[i, j]:.9g} and J[{j}, {i}] {J[j, i]:.9g}")
    if J.diagonal().any():
        raise UserError("the diagonal of J is not zero")
    rows, columns = np.nonzero(np.triu(J, 1))
    h = np.broadcast_to(np.asarray(found.get("h", 0.0), np.float64), len(J))
    names = labels(found["names"].tolist()) if "names" in found else ()
    if names and len(names) != len(J):
        raise UserError(f"there are {len(names)} names of {len(J)} variables")
    return Foreign(
        spins(rows, columns, J[rows, columns], h), "arrays", offset=float(found.get("offset", 0.0)), names=names
    )


def write(foreign: Foreign, path: Path) -> list[str]:
    """Writes the arrays of an Ising model or an RBM."""
    energy = foreign.energy
    arrays: dict[str, Tensor]
    if isinstance(energy, RBM):
        energy = only(foreign, RBM, "arrays")
        arrays = {"W": energy.W, "b_v": energy.b_v, "b_h": energy.b_h}
    elif isinstance(energy, Ising):
        arrays = {"J": energy.coupling, "h": energy.field}
    else:
        raise UserError(f"arrays hold an Ising model or an RBM, not {type(energy).__name__}")
    content: dict[str, Any] = {name: value.detach().cpu().numpy() for name, value in arrays.items()}
    if "J" in content:
        content |= {"offset": foreign.offset if foreign.scale == 1 else 0.0}
        content |= {"names": np.array([str(name) for name in foreign.names])} if foreign.names else {}
    with whole(path) as temporary, temporary.open("wb") as file:
        np.savez(file, **content)
    return [] if "J" in content else lost_names(foreign)


def _holds(path: Path, head: bytes) -> bool:
    names = names_in(path)
    return "J" in names or {"W", "b_v", "b_h"} <= names


FORMAT = Format("arrays", "plain arrays (.npz)", (".npz",), _holds, read, write=write)
