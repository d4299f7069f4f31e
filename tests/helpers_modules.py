"""The modules of the library, those in linked folders included."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).parents[1]
LINKED = ("callbacks", "datamodules")  # top-level folders, to which links in ebmlab/ lead


def module_files(root: Path = ROOT) -> list[Path]:
    """The files of all modules relative to the checkout, such as `ebmlab/callbacks/fid.py`."""
    walk = os.walk(root / "ebmlab", followlinks=True)
    return sorted(
        Path(folder, name).relative_to(root) for folder, _, names in walk for name in names if name[-3:] == ".py"
    )


def module_name(file: Path) -> str:
    """The dotted name of a file relative to the checkout."""
    return ".".join(file.with_suffix("").parts).removesuffix(".__init__")
