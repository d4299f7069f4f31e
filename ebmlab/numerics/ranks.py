"""The rank of this process in a distributed run, and its seed."""

from __future__ import annotations

import hashlib
from typing import Any

import torch
from torch import Tensor


def rank_and_world() -> tuple[int, int]:
    """This process's rank and the number of processes; 0 and 1 outside of distributed runs."""
    distributed: Any = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank()), int(distributed.get_world_size())
    return 0, 1


def mean_over_ranks(value: Tensor) -> Tensor:
    """The mean of a tensor over all processes, the same on each; the tensor itself outside of distributed runs.

    Settings that adapt must not be left to DDP, which sends buffers from rank 0 to the others only in some forward
    passes: not while gradients accumulate.
    """
    world = rank_and_world()[1]
    if world == 1:
        return value
    total = value.clone()
    torch.distributed.all_reduce(total)
    return total / world


def seed_of_rank(seed: int, rank: int) -> int:
    """The seed itself on rank 0, a hash of seed and rank elsewhere; seed + rank may be the seed of another run."""
    if rank == 0:
        return seed
    return int.from_bytes(hashlib.sha256(f"{seed} {rank}".encode()).digest()[:7])
