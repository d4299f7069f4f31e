"""Which of several processes this is."""

from __future__ import annotations

import hashlib
from typing import Any

import torch


def rank_and_world() -> tuple[int, int]:
    """This process's rank and the number of processes; 0 and 1 outside of distributed runs."""
    distributed: Any = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank()), int(distributed.get_world_size())
    return 0, 1


def seed_of_rank(seed: int, rank: int) -> int:
    """The seed itself on rank 0; on others a hash of both, since seed + 1 may be another run's."""
    if rank == 0:
        return seed
    return int.from_bytes(hashlib.sha256(f"{seed} {rank}".encode()).digest()[:7])
