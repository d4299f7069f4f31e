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
CALLBACKS = {"AISEvaluation": "AIS", "HammingMMDEvaluation": "HammingMMD", "GraphMMDEvaluation": "GraphMMD"}
RENAMED = {  # classes
    **{f"ebmlab.callbacks.{old}": f"ebmlab.callbacks.{new}" for old, new in CALLBACKS.items()},
    "ebmlab.callbacks.ais_evaluation.AISEvaluation": "ebmlab.callbacks.AIS",
    "ebmlab.callbacks.hamming_mmd_evaluation.HammingMMDEvaluation": "ebmlab.callbacks.HammingMMD",
    "ebmlab.callbacks.graph_mmd_evaluation.GraphMMDEvaluation": "ebmlab.callbacks.GraphMMD",
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


def current_callback(name: str) -> str:
    """The name of a callback, in a config's `callbacks:` or a checkpoint, whatever follows the class."""
    return re.sub(r"^[A-Za-z]+", lambda found: CALLBACKS.get(found.group(), found.group()), name)


def current_class(path: str, settings: Mapping[str, Any]) -> str:
    """The class path that an earlier version's class path means today with these settings."""
    path = current_paths(path)
    return next((DIVIDED[path, name] for name in settings if (path, name) in DIVIDED), path)
