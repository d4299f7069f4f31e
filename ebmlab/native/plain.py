"""Which tensors a kernel may read and write by their addresses."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

exporting = getattr(torch.compiler, "is_exporting", torch.compiler.is_compiling)  # torch 2.6 has the latter alone


def readable(*tensors: Tensor, dtypes: Sequence[torch.dtype] = (torch.float32,)) -> bool:
    """Whether C++ may read these tensors from memory: no compiler, tracer, mode or transform must see what happens."""
    if torch.compiler.is_compiling() or torch.jit.is_tracing() or is_in_torch_dispatch_mode():  # type: ignore[attr-defined, no-untyped-call]
        return False
    if not all(t.dtype in dtypes and _is_plain(t) for t in tensors):
        return False
    try:
        return all(t.numel() == 0 or t.untyped_storage().data_ptr() for t in tensors)
    except RuntimeError:  # tensors of `torch.vmap` lie nowhere
        return False


def within(numbers: Tensor, size: int) -> bool:
    """Whether all numbers of places are from 0 to size - 1; a file of a stranger may hold others."""
    least, largest = numbers.aminmax() if len(numbers) else (0, 0)
    return bool(least >= 0) and bool(largest < size)


def require_float32(owner: str, t: Tensor, shape: Sequence[int]) -> None:
    """Raises `ValueError` unless a tensor has this shape, and holds float32 on a CPU."""
    if t.shape != shape or t.dtype != torch.float32 or not t.is_cpu:
        raise ValueError(f"{owner}: {t.dtype} {tuple(t.shape)} on {t.device}, which must be float32 {tuple(shape)}")


def _is_plain(t: Tensor) -> bool:
    """Whether the numbers of a tensor are those that lie in a CPU's memory, and all there is to it."""
    if type(t) not in (Tensor, nn.Parameter) or t.device.type != "cpu":
        return False
    if t.layout != torch.strided or t.is_neg():
        return False
    return torch.autograd.forward_ad.unpack_dual(t).tangent is None  # type: ignore[no-untyped-call]
