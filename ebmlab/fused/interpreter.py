"""Whether kernels in Triton can run here, and in how large tiles."""

from __future__ import annotations

import os
from importlib.util import find_spec

import torch

from ebmlab.errors import UserError

ROWS, COLUMNS, INNER = 32, 64, 32  # of a tile of a product on a GPU, at most
CHAINS = 128  # of a tile of sites
INTERPRETED_ROWS = 1024  # the interpreter takes a fixed time for each tile


def interpreted() -> bool:
    """Whether Triton interprets kernels on the CPU, which the environment must say before Triton is imported."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def require_triton(device: torch.device) -> None:
    """Raises `UserError` if this device cannot run kernels in Triton.

    Example:
        >>> import pytest
        >>> with pytest.raises(UserError):
        ...     require_triton(torch.device("mps"))
    """
    if find_spec("triton") is None:
        raise UserError("Fused needs triton, which torch for CUDA brings along on Linux: pip install triton")
    if device.type != "cuda" and not (interpreted() and device.type == "cpu"):
        raise UserError(
            f"Fused needs the energy on an NVIDIA GPU, but it is on {device.type}: call cuda(), or leave Fused out"
        )


def tile_rows(rows: int) -> int:
    """How many rows of a matrix a program takes: a power of two from 16 on.

    Example:
        >>> tile_rows(3), tile_rows(17)
        (16, 32)
    """
    return _tile(rows, INTERPRETED_ROWS if interpreted() else ROWS)


def tile_columns(columns: int) -> int:
    """The same of columns.

    Example:
        >>> tile_columns(17), tile_columns(1000)
        (32, 64)
    """
    return _tile(columns, COLUMNS)


def tile_inner(inner: int) -> int:
    """How many terms of the sums of a product are read at once.

    Example:
        >>> tile_inner(784)
        32
    """
    return _tile(inner, INNER)


def tile_of_sites(sites: int, chains: int) -> tuple[int, int]:
    """How many sites of how many chains a program redraws.

    Example:
        >>> tile_of_sites(1000, 2), tile_of_sites(1000, 10_000)
        ((128, 2), (2, 128))
    """
    most = INTERPRETED_ROWS if interpreted() else CHAINS
    wide = min(most, 1 << (chains - 1).bit_length())
    return min(2 * most // wide, 1 << (sites - 1).bit_length()), wide


def tile_of_chains(chains: int) -> int:
    """How many chains a program moves along all their sites: one on a GPU."""
    return _tile(chains, INTERPRETED_ROWS) if interpreted() else 1


def _tile(size: int, largest: int) -> int:
    return min(largest, max(16, 1 << (size - 1).bit_length()))
