"""Two processes that talk to each other."""

from __future__ import annotations

import os
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import distributed, multiprocessing


def on_two_ranks(work: Callable[[int], Any], folder: Path, *, joined: bool = True) -> list[Any]:
    """The results of `work(rank)` on both ranks.

    A new process finds the function by its file: another package's folder `tests` may hide ours.

    Args:
        work: a function of a test's module.
        folder: where the processes work, and results are kept.
        joined: whether the processes are one group before they work; else Lightning makes it.
    """
    port = 20_000 + os.getpid() % 20_000
    arguments = (port, folder, work.__code__.co_filename, work.__name__, joined)
    multiprocessing.spawn(_process, arguments, nprocs=2)
    return [torch.load(folder / f"{rank}.pt") for rank in range(2)]


def _process(rank: int, port: int, folder: Path, file: str, name: str, joined: bool) -> None:
    torch.set_num_threads(1)
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "LOCAL_RANK": str(rank), "NODE_RANK": "0"}
    if joined:
        distributed.init_process_group("gloo", rank=rank, world_size=2)
        torch.manual_seed(rank)
    os.chdir(folder)
    torch.save(runpy.run_path(file)[name](rank), f"{rank}.pt")
    if joined:
        distributed.destroy_process_group()
