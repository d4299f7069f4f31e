"""The format IDX of MNIST's files, read without torchvision, which takes longer to load than torch."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ebmlab.io.files import check_regular

_BYTES = 8  # IDX's number for unsigned bytes


def read_idx(path: Path, num_dims: int) -> Tensor:
    """The bytes of an unpacked IDX file, uint8: two zeros, the type, the number of axes, their lengths, then the data.

    Args:
        path: the file.
        num_dims: the number of axes that it must have.

    Raises:
        ValueError: the file is no IDX file of bytes with so many axes, or is cut short, or goes on after its end.
    """
    check_regular(path)
    content = np.fromfile(path, np.uint8)
    start = 4 + 4 * num_dims
    if content[:4].tolist() != [0, 0, _BYTES, num_dims] or len(content) < start:
        raise ValueError(f"{path.name} is no IDX file of {num_dims} axes of bytes")
    shape, size = content[4:start].view(">u4").tolist(), len(content) - start
    if size != math.prod(shape):
        raise ValueError(f"{path.name} has {size:,} bytes of data, but its header says {math.prod(shape):,}")
    return torch.from_numpy(content[start:]).view(shape)
