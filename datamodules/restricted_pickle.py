"""Reads pickles from the network without running any code in them."""

from __future__ import annotations

import collections
import pickle
from pathlib import Path
from typing import Any

import numpy as np

from ebmlab.errors import UserError

_ALLOWED: dict[tuple[str, str], Any] = {
    ("collections", "defaultdict"): collections.defaultdict,
    **{(module, cls.__name__): cls for module in ("builtins", "__builtin__") for cls in (list, int)},
}
_MAKES_ARRAYS = np.zeros(0).__reduce__()[0]  # only allocates memory
_ARRAYS: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    **{(f"numpy.{core}.multiarray", "_reconstruct"): _MAKES_ARRAYS for core in ("core", "_core")},
}


class _Unpickler(pickle.Unpickler):
    """Looks up names in a fixed table, so that nothing is imported and nothing else can be called."""

    def __init__(self, path: Path, file: Any, allowed: dict[tuple[str, str], Any]) -> None:
        super().__init__(file, encoding="latin1")
        self.path, self.allowed = path, allowed

    def find_class(self, module: str, name: str, /) -> Any:
        if (module, name) not in self.allowed:
            wanted = repr(f"{module}.{name}")[:80]
            raise UserError(
                f"{self.path} asks for {wanted}, which may run code; a pickle of plain lists, dicts and numbers must "
                "not, and was not opened: put the original file there"
            )
        return self.allowed[module, name]


def load(path: Path, *, arrays: bool = False) -> object:
    """The content of the pickle at `path`, made of dict, list, tuple, set, defaultdict, numbers and strings only.

    Pickles of Python 2 are read as well. A pickle that names anything else is refused before that is imported.

    Args:
        path: the file.
        arrays: also read arrays of NumPy.
    """
    try:
        with path.open("rb") as file:
            content: object = _Unpickler(path, file, _ALLOWED | (_ARRAYS if arrays else {})).load()
    except UserError:
        raise
    except Exception as error:
        why = " ".join(str(error).split())[:120] or type(error).__name__
        raise UserError(f"{path} cannot be read as a pickle ({why}); put the original file there") from error
    return content
