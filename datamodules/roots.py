"""The folder of the data sets."""

from __future__ import annotations

import os
from pathlib import Path


def data_root(root: str | None) -> Path:
    """The folder of the data sets: `root`, else $EBMLAB_DATA, else `data/` in the working directory."""
    return Path(root or os.environ.get("EBMLAB_DATA") or "data").expanduser()
