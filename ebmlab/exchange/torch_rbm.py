"""RBMs of ebmkit and learnergy: modules of torch, or files of their `state_dict()`.

- ebmkit: `W` (H, V), `b` of the visible and `c` of the hidden units.
- learnergy: `W` (V, H), `a` of the visible and `b` of the hidden units; its temperature T is that of its chains alone.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

from ebmlab.energies import RBM
from ebmlab.errors import WHY, UserError, explained
from ebmlab.exchange.foreign import Foreign, machine
from ebmlab.exchange.format import Format, lost_names, needed, only
from ebmlab.io.files import Damaged, load, save

LEGACY = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."  # how torch.save began before it wrote zip archives
STATES = {"ebmkit": {"W", "b", "c"}, "learnergy": {"W", "a", "b"}}


def take(given: Any) -> Foreign:
    """A module, or its `state_dict()`."""
    state = given.state_dict() if isinstance(given, nn.Module) else given
    kind = _kind(state)
    if kind is None:
        raise UserError(f"it holds {', '.join(map(str, state))[:120] or 'nothing'}, and must hold W, b, c or W, a, b")
    arrays = {name: np.asarray(state[name].detach().cpu(), np.float64) for name in STATES[kind]}
    if kind == "ebmkit":
        return Foreign(machine(arrays["W"].T, arrays["b"], arrays["c"]), kind, form="bits")
    temperature = float(getattr(given, "T", 1.0))
    if temperature != 1:
        raise UserError(f"its temperature is {temperature:g}, which its chains use and its energy does not: set T to 1")
    return Foreign(machine(arrays["W"], arrays["a"], arrays["b"]), kind, form="bits")


def read(path: Path, vartype: str | None) -> Foreign:
    """A `state_dict()` that `torch.save` wrote; whatever else is in the file is refused and not executed."""
    with explained(f"it is damaged, or holds more than tensors ({WHY})", Damaged):
        state = load(path, map_location="cpu")
    if not isinstance(state, dict) or not all(isinstance(value, Tensor) for value in state.values()):
        raise UserError("it holds no state_dict of tensors: save model.state_dict()")
    return take(state)


def _state(foreign: Foreign, kind: str) -> dict[str, Tensor]:
    energy = only(foreign, RBM, kind)
    W, a, b = (p.detach().cpu() for p in (energy.W, energy.b_v, energy.b_h))
    return {"W": W.T.contiguous(), "b": a, "c": b} if kind == "ebmkit" else {"W": W, "a": a, "b": b}


def _ebmkit(foreign: Foreign) -> Any:
    made = needed("ebm.nets.lattice", "models of ebmkit", None).RBM(*only(foreign, RBM, "ebmkit").W.shape)
    made.load_state_dict(_state(foreign, "ebmkit"))
    return made


def _learnergy(foreign: Foreign) -> Any:
    models = needed("learnergy.models.bernoulli", "its models", None)
    made = models.RBM(*only(foreign, RBM, "learnergy").W.shape)
    made.load_state_dict(_state(foreign, "learnergy"))
    return made


def _write(kind: str) -> Any:
    def write(foreign: Foreign, path: Path) -> list[str]:
        save(_state(foreign, kind), path)
        return lost_names(foreign)

    return write


def _kind(state: Any) -> str | None:
    if not hasattr(state, "keys"):
        return None
    return next((kind for kind, names in STATES.items() if set(state.keys()) == names), None)


def _accepts(given: Any) -> bool:
    return _kind(given.state_dict() if isinstance(given, nn.Module) else given) is not None


def _holds(path: Path, head: bytes) -> bool:
    if head.startswith(LEGACY):
        return True
    if not head.startswith(b"PK"):
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith("/data.pkl") for name in archive.namelist())
    except (zipfile.BadZipFile, OSError):
        return False


EBMKIT = Format("ebmkit", "ebmkit: state_dict of an RBM", (), _holds, read, _accepts, take, _write("ebmkit"), _ebmkit)
LEARNERGY = Format("learnergy", "learnergy: state_dict of an RBM", (), write=_write("learnergy"), make=_learnergy)
