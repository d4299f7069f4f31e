"""Class paths of earlier versions, which configs and checkpoints hold."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

MOVED = {  # modules
    "ebmlab.preprocessing": "ebmlab.data.preprocessing",
    "ebmlab.tables": "ebmlab.data.tables",
    **{f"ebmlab.energies.{name}": f"ebmlab.energies.pairwise.{name}" for name in ("ising", "potts")},
    **{
        f"ebmlab.energies.{name}": f"ebmlab.energies.paths.{name}"
        for name in ("bipartite_bridge", "bridge", "composed", "reference", "solved", "tempering")
    },
}
RENAMED = {  # classes
    "ebmlab.energies.potts.Potts": "ebmlab.energies.pairwise.scalar_potts.ScalarPotts",
    "ebmlab.samplers.PersistentACS": "ebmlab.learners.PersistentACS",
}
DIVIDED = {("ebmlab.energies.Potts", "coupling"): "ebmlab.energies.ScalarPotts"}  # a class with this argument
_OLD = re.compile(
    rf"(?<![\w./-])(({'|'.join(map(re.escape, RENAMED))})(?!\w)|({'|'.join(map(re.escape, MOVED))})(?=\.[A-Z]))"
)


def current_paths(text: str) -> str:
    """Writes class paths of earlier versions as today's.

    Args:
        text: a class path, or a text in which some stand.
    """
    return _OLD.sub(lambda found: {**MOVED, **RENAMED}[found.group()], text)


def current_class(path: str, settings: Mapping[str, Any]) -> str:
    """The class path that an earlier version's class path means today with these settings."""
    path = current_paths(path)
    return next((DIVIDED[path, name] for name in settings if (path, name) in DIVIDED), path)
