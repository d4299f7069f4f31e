"""Sums of log(1 + exp(x)) on a CPU, by one pass over memory (`softplus.cpp`)."""

from __future__ import annotations

import ctypes
import functools

import torch
from torch import Tensor, nn

from ebmlab.native.library import SUPPORTED, threads, trusted
from ebmlab.native.plain import readable
from ebmlab.numerics import softplus

ENOUGH = 2**10  # numbers from which a call of C++ pays


def sum_softplus(x: Tensor) -> Tensor:
    """Sums log(1 + exp(x)) over the last axis.

    Example:
        >>> import torch
        >>> sum_softplus(torch.tensor([0.0, 100.0, -100.0]))
        tensor(100.6931)
    """
    made = _made(x, means=False)
    return softplus.sum_softplus(x) if made is None else made[0]


def sum_softplus_and_sigmoid(x: Tensor) -> tuple[Tensor, Tensor]:
    """`sum_softplus`, and the derivatives of its terms, 1 / (1 + exp(-x)), in the shape of x.

    Example:
        >>> import torch
        >>> sum_softplus_and_sigmoid(torch.zeros(2, 1))[1].tolist()
        [[0.5], [0.5]]
    """
    return _made(x, means=True) or (softplus.sum_softplus(x), x.sigmoid())


def _made(x: Tensor, *, means: bool) -> tuple[Tensor, Tensor] | None:
    """Sums, and sigmoids (an empty tensor unless `means`); None where torch must compute them."""
    if not SUPPORTED or torch.is_grad_enabled() or torch.compiler.is_compiling() or x.numel() < ENOUGH or x.dim() != 2:
        return None
    if not readable(x) or x.stride(1) != 1 or (library := kernel()) is None:
        return None
    sums, sigmoids = x.new_empty(len(x)), x.new_empty(x.shape if means else 0)
    to = sigmoids.data_ptr() if means else None
    library.softplus_sums(x.data_ptr(), x.stride(0), *x.shape, sums.data_ptr(), to, threads(x.numel()))
    return sums, sigmoids


@functools.cache
def kernel() -> ctypes.CDLL | None:
    """The compiled kernel, after sums that are known have come out right; None where there is none."""
    i, p = ctypes.c_int64, ctypes.c_void_p
    return trusted("softplus", _is_right, softplus_sums=[p, i, i, i, p, p, i])


def _is_right(library: ctypes.CDLL) -> bool:
    x = torch.linspace(-100, 100, 203 * 5, dtype=torch.float32, device="cpu").view(203, 5).T.contiguous()
    sums, means = x.new_empty(5), torch.empty_like(x)
    library.softplus_sums(x.data_ptr(), 203, 5, 203, sums.data_ptr(), means.data_ptr(), 1)
    wide = x.double()
    right = torch.allclose(sums.double(), nn.functional.softplus(wide).sum(1), rtol=1e-5)
    return right and torch.allclose(means.double(), wide.sigmoid(), atol=1e-5)
