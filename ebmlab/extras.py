"""Packages that only some features need, and the extra of ebmlab that brings each. Nothing heavy is imported."""

from __future__ import annotations

from importlib.util import find_spec

from ebmlab.errors import UserError

_EXTRAS = {
    "dimod": "exchange",
    "h5py": "exchange",
    "huggingface_hub": "hub",
    "networkx": "graphs",
    "onnx": "onnx",
    "onnxscript": "onnx",
    "optuna": "sweep",
    "plotly": "dashboard",
    "tensorboard": "tensorboard",
    "torch_fidelity": "fid",
    "transformers": "text",
}


def require(what: str, *packages: str) -> None:
    """Checks that packages are installed, without importing them.

    Args:
        what: the feature that needs them.
        packages: names of modules, all of one extra.

    Raises:
        UserError: one is missing; the line says what to install.

    Example:
        >>> require("arithmetic")  # needs nothing
    """
    if missing := [name for name in packages if find_spec(name) is None]:
        raise UserError(f"{what} needs {' and '.join(missing)}: {install(_EXTRAS[missing[0]])}")


def install(extra: str) -> str:
    """The command that installs an extra, in a checkout and beside an installed wheel alike.

    Example:
        >>> install("graphs")
        "pip install 'ebmlab[graphs]'"
    """
    return f"pip install 'ebmlab[{extra}]'"
