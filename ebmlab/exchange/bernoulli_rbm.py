"""scikit-learn's BernoulliRBM: `components_` is W', `(H, V)`. A file holds its three arrays, by `numpy.savez`.

A pickle of the estimator is refused, because opening it can run any code.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ebmlab.energies import RBM
from ebmlab.exchange.arrays import arrays_in, names_in
from ebmlab.exchange.foreign import Foreign, machine
from ebmlab.exchange.format import Format, lost_names, needed, only
from ebmlab.io.files import whole

PARTS = ("components_", "intercept_visible_", "intercept_hidden_")


def take(given: Any) -> Foreign:
    """A fitted `BernoulliRBM`, or a dictionary of its arrays."""
    W, a, b = (np.asarray(given[part] if isinstance(given, dict) else getattr(given, part)) for part in PARTS)
    return Foreign(machine(W.T, a, b), "sklearn", form="bits")


def make(foreign: Foreign) -> Any:
    """A `BernoulliRBM` that transforms, scores and samples as a fitted one does."""
    network = needed("sklearn.neural_network", "its models", None)
    arrays = _arrays(foreign)
    made = network.BernoulliRBM(n_components=len(arrays["components_"]))
    for name, array in arrays.items():
        setattr(made, name, array)
    made.n_features_in_ = arrays["components_"].shape[1]
    return made


def read(path: Path, vartype: str | None) -> Foreign:
    """The arrays in an .npz file."""
    return take(arrays_in(path))


def write(foreign: Foreign, path: Path) -> list[str]:
    """Writes the arrays into an .npz file."""
    arrays: dict[str, Any] = _arrays(foreign)
    with whole(path) as temporary, temporary.open("wb") as file:
        np.savez(file, **arrays)
    return lost_names(foreign)


def _arrays(foreign: Foreign) -> dict[str, np.ndarray[Any, Any]]:
    energy = only(foreign, RBM, "sklearn")
    parameters = zip(PARTS, (energy.W.T, energy.b_v, energy.b_h), strict=True)
    return {name: np.ascontiguousarray(p.detach().cpu().numpy()) for name, p in parameters}


def _accepts(given: Any) -> bool:
    return set(PARTS) <= given.keys() if isinstance(given, dict) else all(hasattr(given, part) for part in PARTS)


FORMAT = Format(
    "sklearn", "scikit-learn's BernoulliRBM", (), lambda path, head: set(PARTS) <= names_in(path), read, _accepts, take,
    write, make,
)  # fmt: skip
