"""The rank that a launcher gives a process, known before the processes of a run have met."""

from __future__ import annotations

import os

RANKS = ("RANK", "LOCAL_RANK", "SLURM_PROCID", "JSM_NAMESPACE_RANK")  # as Lightning reads them


def launched_rank() -> int | None:
    """This process's rank as its launcher gives it; None for a process that nobody launched."""
    return next((int(os.environ[name]) for name in RANKS if os.environ.get(name, "").isdigit()), None)
