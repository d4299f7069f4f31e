"""What `mkdocs build` does beside rendering: leaves pages out of the navigation that are not written yet."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def on_config(config: Any) -> Any:
    """Keeps the entries of the navigation whose files exist."""
    config["nav"] = [_kept(entry, Path(config["docs_dir"])) for entry in config["nav"]]
    return config


def _kept(entry: Any, docs: Path) -> Any:
    if isinstance(entry, str):
        return entry if (docs / entry).exists() else None
    ((title, children),) = entry.items()
    return {title: [child for child in (_kept(child, docs) for child in children) if child is not None]}
