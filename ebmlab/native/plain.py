"""Which tensors a kernel may read and write by their addresses."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def is_plain(t: Tensor) -> bool:
    """Whether the numbers of a tensor are the float32 that lie in a CPU's memory, and all there is to it."""
    if type(t) not in (Tensor, nn.Parameter) or t.dtype != torch.float32 or t.device.type != "cpu":
        return False
    if t.layout != torch.strided or t.is_neg():
        return False
    return torch.autograd.forward_ad.unpack_dual(t).tangent is None  # type: ignore[no-untyped-call]
