"""Local fields and energies of an Ising model with few couplings on a CPU, of many chains (`local_fields.cpp`)."""

from __future__ import annotations

import ctypes
import functools

import torch
from torch import Tensor

from ebmlab.native.ising_sweeps import FEW, LARGE
from ebmlab.native.library import SUPPORTED, threads, trusted
from ebmlab.native.plain import readable, within
from ebmlab.native.sweeps import ring

ENOUGH = 2**9  # numbers of all states from which a call of C++ pays


def local_fields(
    x: Tensor, offsets: Tensor, others: Tensor, weights: Tensor, *, field: Tensor, keep: bool = True
) -> tuple[Tensor, Tensor] | None:
    """Energies -1/2 x'J x - h'x, and local fields J x + h.

    Args:
        x: states `(B, d)`.
        offsets: where the entries of each row of J begin, int64 `(d,)`.
        others: their columns, int64 `(n,)`.
        weights: the entries, `(n,)`.
        field: h, `(d,)`.
        keep: whether local fields are wanted.

    Returns:
        Energies `(B,)`, and fields `(B, d)` in the layout of x, or `(0,)`. None where torch must compute them.
    """
    if not SUPPORTED or torch.is_grad_enabled() or x.dim() != 2 or x.numel() < ENOUGH or 1 not in x.stride():
        return None
    if not readable(x, weights, field) or x.shape[1:] != field.shape or not field.is_contiguous():
        return None
    if others.shape != weights.shape or (len(field) > LARGE and len(x) < FEW):
        return None
    if not (within(others, len(field)) and within(offsets, len(others) + 1)) or (library := kernel()) is None:
        return None
    return _called(library, x, (offsets, others, weights, field), keep)


def _called(library: ctypes.CDLL, x: Tensor, rows: tuple[Tensor, ...], keep: bool) -> tuple[Tensor, Tensor]:
    (chains, sites), entries = x.shape, len(rows[1])
    energies, fields = x.new_empty(chains), x.new_empty(0)
    if keep:
        fields = x.new_empty(chains, sites) if x.stride(1) == 1 else x.new_empty(sites, chains).T
    states, out = (x.data_ptr(), *x.stride(), chains), (fields.data_ptr(), *fields.stride()) if keep else (None, 0, 0)
    shared = threads(chains * (sites + entries) / 8)
    pointers = [part.data_ptr() for part in rows]
    library.local_fields(sites, entries, *pointers, *states, *out, energies.data_ptr(), shared)
    return energies, fields


@functools.cache
def kernel() -> ctypes.CDLL | None:
    """The compiled kernel, after known fields and energies have come out right; None where there is none."""
    i, p = ctypes.c_int64, ctypes.c_void_p
    return trusted("local_fields", _is_right, local_fields=[i, i, p, p, p, p, p, i, i, i, p, i, i, p, ctypes.c_int])


def _is_right(library: ctypes.CDLL) -> bool:
    """Whether whole numbers, which float32 adds without rounding, come out as they must."""
    near, weights = ring()
    near, weights = torch.cat([near + len(near) * n for n in range(10)]), weights.repeat(10, 1)
    sites = torch.arange(len(near), device="cpu")
    rows = 2 * sites, near.flatten(), weights.flatten(), 5 * sites.float() - 16
    x = (torch.arange(len(near) * 37, device="cpu").view(37, -1) % 5 % 2 * 2 - 1).float()
    right = (weights * x[:, near]).sum(2) + rows[3]
    for states in (x, x.T.contiguous().T):
        energies, fields = _called(library, states, rows, keep=True)
        alone = _called(library, states, rows, keep=False)[0]
        known = -0.5 * (x * (right + rows[3])).sum(1)
        if not (torch.equal(fields, right) and torch.equal(energies, known) and torch.equal(alone, known)):
            return False
    return True
