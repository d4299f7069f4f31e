"""Where data sets live."""

from __future__ import annotations

import os
from pathlib import Path


def data_root(root: str | None) -> Path:
    """The folder that holds the data sets: `root`, else the environment's EBMLAB_DATA, else `data/` here."""
    return Path(root or os.environ.get("EBMLAB_DATA") or "data").expanduser()
