"""Weights of samples in a text file, such as those of sequences that adabmDCA writes."""

from __future__ import annotations

import math
from pathlib import Path

import torch
from torch import Tensor

from ebmlab.errors import UserError, how_many
from ebmlab.sequences.alignment_file import find, read_lines


def read_weights(path: str | Path, count: int) -> Tensor:
    r"""Reads a weight a line.

    Args:
        path: a text file, which gzip may have packed. Empty lines and those that begin with # are left out.
        count: how many there must be: one for each sample of the data's file, in its order.

    Returns:
        `(count,)`, float64.

    Raises:
        UserError: there are more or fewer, or one is negative or no finite number.

    Example:
        >>> _ = Path("weights.dat").write_text("1.0\n0.5\n0.5\n")
        >>> read_weights("weights.dat", 3).tolist()
        [1.0, 0.5, 0.5]
    """
    file, found = find(path), []
    for number, line in enumerate(read_lines(file), 1):
        if not (text := line.strip()) or text.startswith("#"):
            continue
        try:
            weight = float(text)
        except ValueError:
            weight = math.nan
        if not 0 <= weight < math.inf:
            raise UserError(f"{file}, line {number}: '{text[:40]}' must be a finite number from 0 on")
        found.append(weight)
    if len(found) != count:
        raise UserError(
            f"{file} holds {how_many(len(found), 'weight')}, but the data's file {count:,} samples: give one for each"
        )
    return torch.tensor(found, dtype=torch.float64)
