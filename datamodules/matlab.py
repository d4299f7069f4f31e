"""Reads images from Matlab files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ebmlab.errors import one_line


def read(path: Path, *names: str) -> list[np.ndarray]:
    """The variables of these names; raises `ValueError`, with one line, if the file does not hold them."""
    from scipy.io import loadmat

    try:
        content = loadmat(path, variable_names=names)
    except Exception as error:
        raise ValueError(one_line(error)) from error
    if missing := [name for name in names if name not in content]:
        raise ValueError(f"it has no variable {' and '.join(missing)}")
    return [content[name] for name in names]


def images(rows: np.ndarray) -> Tensor:
    """Converts rows `(N, 784)`, each an image column by column as in Matlab, to upright images `(N, 1, 28, 28)`."""
    return torch.from_numpy(np.ascontiguousarray(rows.reshape(-1, 1, 28, 28).swapaxes(2, 3)))
