"""Class paths of earlier versions, which configs and checkpoints hold."""

from __future__ import annotations

import re

MOVED = {  # modules
    "ebmlab.preprocessing": "ebmlab.data.preprocessing",
    "ebmlab.tables": "ebmlab.data.tables",
    **{f"ebmlab.energies.{name}": f"ebmlab.energies.pairwise.{name}" for name in ("ising", "potts")},
    **{
        f"ebmlab.energies.{name}": f"ebmlab.energies.paths.{name}"
        for name in ("bipartite_bridge", "bridge", "composed", "reference", "solved", "tempering")
    },
}
RENAMED = {"ebmlab.samplers.PersistentACS": "ebmlab.learners.PersistentACS"}  # classes
_OLD = re.compile(
    rf"(?<![\w./-])(({'|'.join(map(re.escape, MOVED))})(?=\.[A-Z])|({'|'.join(map(re.escape, RENAMED))})(?!\w))"
)


def current_paths(text: str) -> str:
    """Writes class paths of earlier versions as today's.

    Args:
        text: a class path, or a text in which some stand.

    Example:
        >>> current_paths("ebmlab.energies.ising.Ising.lattice"), current_paths("ebmlab.energies.Ising")
        ('ebmlab.energies.pairwise.ising.Ising.lattice', 'ebmlab.energies.Ising')
    """
    return _OLD.sub(lambda found: {**MOVED, **RENAMED}[found.group()], text)
