"""States of two values as bits: an eighth of their bytes in a checkpoint."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

Packed = Tensor | dict[str, Any]


def packed(states: Tensor) -> Packed:
    """States of int8 with at most two values as bits, with these values and the shape; other states as they are.

    Args:
        states: on the CPU, of any shape.

    Example:
        >>> spins = torch.tensor([[-1, 1, 1], [1, -1, 1]], dtype=torch.int8)
        >>> packed(spins)
        {'bits': tensor([116], dtype=torch.uint8), 'values': [-1, 1], 'shape': [2, 3]}
        >>> torch.equal(unpacked(packed(spins)), spins)
        True
    """
    if states.dtype != torch.int8 or states.numel() == 0:
        return states
    low, high = (int(value) for value in states.aminmax())
    upper = states == high
    if not bool((upper | (states == low)).all()):
        return states
    bits = torch.from_numpy(np.packbits(upper.flatten().numpy()))
    return {"bits": bits, "values": [low, high], "shape": list(states.shape)}


def unpacked(content: Packed) -> Tensor:
    """The states that were packed. A tensor is returned as it is: earlier checkpoints hold states unpacked.

    Raises:
        ValueError: there are not as many bits as the shape needs.
    """
    if isinstance(content, Tensor):
        return content
    (low, high), shape = content["values"], content["shape"]
    bits, size = content["bits"].numpy(), math.prod(shape)
    if len(bits) != -(-size // 8):
        raise ValueError(f"{len(bits)} bytes do not hold states of shape {shape}")
    upper = torch.from_numpy(np.unpackbits(bits, count=size)).view(shape)
    return torch.where(upper.bool(), high, low).to(torch.int8)
