"""The short class paths `callbacks.X` and `datamodules.X`, in configs and on the command line."""

from __future__ import annotations

import re

from ebmlab.app.sources import Source, find
from ebmlab.io.old_names import current_paths

_PARTS = ("accelerators", "callbacks", "loggers", "plugins", "profilers", "strategies", "tuner")
LIBRARY = (  # what class paths of configs begin with, if they name no code of the user's
    *("ebmlab", "torch.nn", "torch.optim", "pytorch_lightning.cli.ReduceLROnPlateau"),
    *(f"{lightning}.{part}" for lightning in ("pytorch_lightning", "lightning.pytorch") for part in _PARTS),
    *(f"lightning_fabric.{part}" for part in ("accelerators", "plugins", "strategies")),
)
_SHORT = re.compile(r"(?<![\w./-])(?<!\$\{)(?:callbacks|datamodules)(?:\.[A-Za-z_]\w*)+(?![\w./])")


def full_names(text: str) -> str:
    """Writes `ebmlab.callbacks.X` for `callbacks.X`, and `ebmlab.datamodules.X` for `datamodules.X`, in a text.

    Class paths of earlier versions become today's. A name is left as it is if ebmlab has no such class: it may be that
    of a module of the user's own.

    Args:
        text: a config, or a word of the command line.
    """
    return _SHORT.sub(lambda found: _full(found.group()), current_paths(text))


def short_name(path: str) -> str:
    """A class path as users write it: `callbacks.X` for `ebmlab.callbacks.X`; other paths as they are."""
    return re.sub(r"^ebmlab\.(?=(callbacks|datamodules)\b)", "", path)


def _full(path: str) -> str:
    full = current_paths(f"ebmlab.{path}")
    return full if isinstance(find(full), Source) else path
