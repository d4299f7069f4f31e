"""HDF5 archives of rbms and fastrbm, and rbms' models.

`update_n/params` holds `weight_matrix` (V, H), `vbias` and `hbias` of each update that was kept (older versions: beside
the update itself). A model was trained at the inverse temperature `sampling_args/beta`, which its parameters do not
contain. The kinds, with v visible and h hidden:

- BBRBM: v and h are bits; as our RBM.
- IIRBM: v and h are spins; 4 W, 2 a - 2 W 1, 2 b - 2 W' 1 is our RBM on (v + 1) / 2.
- PBRBM: v has one of q values, h is bits, and the weights are (V, q, H); as our CategoricalRBM. The values are the
  first letters of `dataset_args/alphabet`, a name of rbms' own or the letters.
- BGRBM, IGRBM: h is Gaussian with the variance 1 / V; without h, an Ising model with J = W W' / V.

fastrbm's restricted Coulomb machine is an IIRBM whose hidden biases have the other sign.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np

from ebmlab.energies import RBM, CategoricalRBM, Energy
from ebmlab.errors import UNFIT, WHY, UserError, explained, how_many
from ebmlab.exchange.foreign import Foreign, Form, from_bits, machine, spins
from ebmlab.exchange.format import Format, has, lost_names, needed, only
from ebmlab.io.files import whole
from ebmlab.sequences.alphabet import NAMED

MAGIC = b"\x89HDF\r\n\x1a\n"
PARTS = ("weight_matrix", "vbias", "hbias")
KINDS = ("BBRBM", "IIRBM", "BGRBM", "IGRBM", "PBRBM")
_UPDATE = re.compile(r"update_(\d+)")


def read(path: Path, vartype: str | None) -> Foreign:
    """The last update of an archive, or the best trial of a restricted Coulomb machine."""
    h5py = needed("h5py", "archives of rbms")
    with explained(f"it is cut short or damaged ({WHY})", UNFIT), h5py.File(path, "r") as archive:
        return _archive(archive)


def take(given: Any) -> Foreign:
    """A model of rbms in memory."""
    W, a, b = (np.asarray(getattr(given, part).detach().cpu(), np.float64) for part in PARTS)
    energy, offset, form = _model(str(given.name), W, a, b)
    return Foreign(energy, "rbms", offset=offset, form=form, facts={"model": str(given.name), "beta": 1.0})


def make(foreign: Foreign) -> Any:
    """Rbms' `BBRBM` or `PBRBM`."""
    name, *parts = _parts(foreign)
    package = {"BBRBM": "bernoulli_bernoulli", "PBRBM": "potts_bernoulli"}[name]
    classes = needed(f"rbms.{package}.classes", "its models", None)
    return getattr(classes, name)(*(p.detach().clone() for p in parts))


def write(foreign: Foreign, path: Path) -> list[str]:
    """An archive with one update, which rbms' `load_params` reads; training cannot go on from it."""
    kind, *parts = _parts(foreign)
    arrays = [p.detach().cpu().numpy() for p in parts]
    h5py = needed("h5py", "archives of rbms")
    with whole(path) as temporary, h5py.File(temporary, "w") as archive:
        archive["model_type"] = kind
        for name, array in zip(PARTS, arrays, strict=True):
            archive[f"update_1/params/{name}"] = array
        if alphabet := str(foreign.facts.get("alphabet") or ""):
            archive["dataset_args/alphabet"] = alphabet
    return ["chains and settings of a training", *lost_names(foreign)]


def _parts(foreign: Foreign) -> tuple[str, Any, Any, Any]:
    """The kind of the model, and its parameters."""
    classes = isinstance(foreign.energy, CategoricalRBM)
    energy = only(foreign, CategoricalRBM if classes else RBM, "rbms")
    return "PBRBM" if classes else "BBRBM", energy.W, energy.b_v, energy.b_h


def _archive(archive: Any) -> Foreign:
    updates = {int(found[1]): name for name in archive if (found := _UPDATE.fullmatch(name))}
    if not updates:
        return _coulomb(archive)
    last = max(updates)
    group = archive[updates[last]]
    group = group.get("params", group)
    if missing := [part for part in PARTS if part not in group]:
        raise UserError(f"{updates[last]} has no {missing[0]}: it is cut short, or no archive of an RBM")
    kind = archive["model_type"][()].decode() if "model_type" in archive else "BBRBM"
    beta = float(archive["sampling_args/beta"][()]) if "sampling_args/beta" in archive else 1.0
    if not 0 < beta < math.inf:
        raise UserError(f"its beta is {beta}, and must be positive")
    W, a, b = (np.asarray(group[part][()], np.float64) for part in PARTS)
    energy, offset, form = _model(kind, W, a, b, beta)
    lost = ["the random states of the training"] if "torch_rng_state" in archive[updates[last]] else []
    lost += ["the chains"] if "parallel_chains" in archive else []
    lost += [f"the {how_many(len(updates) - 1, 'earlier update')}"] if len(updates) > 1 else []
    facts: dict[str, Any] = {"model": kind, "update": last, "beta": beta}
    if kind == "PBRBM" and "dataset_args/alphabet" in archive:
        name = archive["dataset_args/alphabet"][()].decode()
        facts["alphabet"] = NAMED.get(name, name)[: W.shape[1]]
    return Foreign(energy, "rbms", offset=offset, scale=1 / beta, form=form, facts=facts, lost=tuple(lost))


def _coulomb(archive: Any) -> Foreign:
    names = ("W_rbm", "vbias_rbm", "hbias_rbm")
    if "best_trial" not in archive or any(name not in archive["best_trial"] for name in names):
        raise UserError("it is an HDF5 file, but has neither update_n of rbms nor best_trial of fastrbm in it")
    W, a, b = (np.asarray(archive["best_trial"][name][()], np.float64) for name in names)
    energy, offset, form = _model("IIRBM", W, a, -b)
    facts = {"model": "RCM", "beta": 1.0}
    return Foreign(
        energy, "rbms", offset=offset, form=form, facts=facts, lost=("the projections of the Coulomb machine",)
    )


def _model(
    kind: str, W: np.ndarray[Any, Any], a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], beta: float = 1.0
) -> tuple[Energy, float, Form]:
    """The energy at an inverse temperature, the offset of rbms' own energy, and how it writes states."""
    if kind not in KINDS:
        raise UserError(f"it holds a {kind[:40]}, and only {', '.join(KINDS)} are read")
    if kind == "PBRBM":
        return _sequences(beta * W, beta * a, beta * b), 0.0, "values"
    machine(W, a, b)  # checks shapes and numbers
    form: Form = "bits" if kind.startswith("B") else "spins"
    if kind == "BBRBM":
        return machine(beta * W, beta * a, beta * b), 0.0, form
    if kind == "IIRBM":
        offset = a.sum() + b.sum() - W.sum()
        W, a, b = 4 * W, 2 * a - 2 * W.sum(1), 2 * b - 2 * W.sum(0)
        return machine(beta * W, beta * a, beta * b), float(offset), form
    if beta != 1:
        raise UserError(f"its beta is {beta}, at which a {kind} has no law of its visible units alone")
    (size, hidden), J = W.shape, W @ W.T / len(W)
    rows, columns = np.triu_indices(size, 1)
    linear, square = a + W @ b / size, b @ b / (2 * size)
    norm = hidden / 2 * math.log(2 * math.pi / size)
    if kind == "IGRBM":
        return spins(rows, columns, J[rows, columns], linear), float(norm - square - J.trace() / 2), form
    energy, offset = from_bits(rows, columns, -J[rows, columns], -(linear + J.diagonal() / 2), -square - norm)
    return energy, offset, form


def _sequences(W: np.ndarray[Any, Any], a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> CategoricalRBM:
    if W.ndim != 3 or a.shape != W.shape[:2]:
        shapes = f"{W.shape} and {a.shape}"
        raise UserError(f"weights and visible biases have the shapes {shapes}, not (sites, values, H), (sites, values)")
    sites, values, hidden = W.shape
    flat = machine(W.reshape(sites * values, hidden), a.reshape(-1), b)  # checks shapes and numbers
    energy = CategoricalRBM(sites, values, num_hidden=hidden).to(flat.dtype)
    for own, given in zip(energy.parameters(), flat.parameters(), strict=True):  # W, b_v, b_h
        own.data = given.detach().view_as(own)
    return energy


FORMAT = Format(
    "rbms", "rbms, fastrbm: archives (.h5)", (".h5", ".hdf5"), lambda path, head: head.startswith(MAGIC), read,
    has(*PARTS, "name"), take, write, make,
)  # fmt: skip
