"""Which of several processes this is."""

from __future__ import annotations

from typing import Any

import torch


def rank_and_world() -> tuple[int, int]:
    """This process's rank and the number of processes; 0 and 1 outside of distributed runs."""
    distributed: Any = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank()), int(distributed.get_world_size())
    return 0, 1
