"""Energies of Potts models and counts of pairs of values on a CPU, of one-hot states (`value_pairs.cpp`)."""

from __future__ import annotations

import ctypes
import functools

import torch
from torch import Tensor

from ebmlab.native.library import SUPPORTED, example, threads, trusted
from ebmlab.native.plain import readable, within

VALUES = 255  # of a site, at most
ENOUGH = 2**11  # numbers of all states from which a call of C++ pays
BYTES = (torch.uint8, torch.int8, torch.bool)
COUNTS = {torch.float32: "count_floats", torch.float64: "count_doubles"}


def values_of(x: Tensor) -> Tensor | None:
    """The value of each site of one-hot states `(B, d, q)`, float32 or bytes: `(d, B)`, uint8.

    None where a state is not one-hot, or a kernel cannot read them.
    """
    if not SUPPORTED or x.dim() != 3 or x.numel() < ENOUGH or x.shape[2] > VALUES or x.stride(2) != 1:
        return None
    if (torch.is_grad_enabled() and x.requires_grad) or not readable(x, dtypes=(torch.float32, *BYTES)):
        return None
    library = kernel()
    return None if library is None else _values(library, x)


def energies(x: Tensor, pairs: Tensor, coupling: Tensor, field: Tensor) -> Tensor | None:
    """-sum_{i<j} J_ij(x_i, x_j) - sum_i h_i(x_i) of one-hot states, `(B,)`.

    None where a state is not one-hot, or torch must compute them.

    Args:
        x: states, `(B, d, q)`.
        pairs: of sites, int64 `(P, 2)`.
        coupling: J of each pair, `(P, q, q)`.
        field: h, `(d, q)`.
    """
    if torch.is_grad_enabled() and (coupling.requires_grad or field.requires_grad):
        return None
    if x.dtype != torch.float32 or x.shape[1:] != field.shape or not readable(coupling, field):
        return None
    if coupling.shape != (len(pairs), *2 * field.shape[1:]) or not within(pairs, len(field)):
        return None
    if not all(part.is_contiguous() for part in (pairs, coupling, field)) or (values := values_of(x)) is None:
        return None
    library = kernel()
    assert library is not None
    return _energies(library, values, pairs, coupling, field)


def count_sites(values: Tensor, number: int, weight: float | Tensor, *, dtype: torch.dtype) -> Tensor:
    """How much weight states have in which a site has each value, `(d, q)`.

    Args:
        values: of `values_of`, `(d, B)`.
        number: q.
        weight: of each state, `(B,)`, or one for all.
        dtype: float32 or float64.
    """
    site = torch.arange(len(values), device=values.device)
    table = torch.zeros(len(values), number, number, dtype=dtype, device=values.device)  # of each site with itself
    pairs, places = torch.stack([site, site], 1), site * number**2
    count_pairs(values, number, weight, pairs=pairs, places=places, out=table, width=number)
    return table.diagonal(dim1=1, dim2=2)


def count_pairs(
    values: Tensor, number: int, weight: float | Tensor, *, pairs: Tensor, places: Tensor, out: Tensor, width: int
) -> None:
    """Adds how much weight states have in which two sites have each two values.

    Args:
        values: of `values_of`, `(d, B)`.
        number: q.
        weight: of each state, `(B,)`, or one for all.
        pairs: of sites, int64 `(P, 2)`; those of one site after each other are fastest.
        places: where the table of each pair begins in the memory of `out`, int64 `(P,)`.
        out: float32 or float64; the sum for values a and b is added to the number at `places + a * width + b`.
        width: see `out`.
    """
    library = kernel()
    assert library is not None
    _count(library, values, number, weight, pairs=pairs, places=places, out=out, width=width)


@functools.cache
def kernel() -> ctypes.CDLL | None:
    """The compiled kernel, after known states have come out right; None where there is none."""
    i, p, n = ctypes.c_int64, ctypes.c_void_p, ctypes.c_int
    count = [p, i, i, p, i, p, ctypes.c_double, p, p, i, n]
    return trusted(
        "value_pairs",
        _is_right,
        read_floats=[p, i, i, i, i, i, p, n],
        read_bytes=[p, i, i, i, i, i, p, n],
        energies=[p, i, i, i, p, i, p, p, p, n],
        count_floats=count,
        count_doubles=count,
    )


def _values(library: ctypes.CDLL, x: Tensor) -> Tensor | None:
    states, sites, number = x.shape
    found = torch.empty(sites, states, dtype=torch.uint8, device=x.device)
    read = library.read_bytes if x.dtype in BYTES else library.read_floats
    shape = (x.stride(0), x.stride(1), states, sites, number)
    return None if read(x.data_ptr(), *shape, found.data_ptr(), threads(x.numel() / 2)) else found


def _energies(library: ctypes.CDLL, values: Tensor, pairs: Tensor, coupling: Tensor, field: Tensor) -> Tensor:
    (sites, number), states = field.shape, values.shape[1]
    found, shared = field.new_empty(states), threads(states * len(pairs))
    model = (pairs.data_ptr(), len(pairs), coupling.data_ptr(), field.data_ptr())
    library.energies(values.data_ptr(), states, sites, number, *model, found.data_ptr(), shared)
    return found


def _count(
    library: ctypes.CDLL,
    values: Tensor,
    number: int,
    weight: float | Tensor,
    *,
    pairs: Tensor,
    places: Tensor,
    out: Tensor,
    width: int,
) -> None:
    weights = weight.to(out).contiguous() if isinstance(weight, Tensor) else None
    alone = (None, weight) if weights is None else (weights.data_ptr(), 1.0)
    pairs, places, states = pairs.contiguous(), places.contiguous(), values.shape[1]
    of_pairs, shared = (pairs.data_ptr(), len(pairs)), threads(len(pairs) * states)
    count = getattr(library, COUNTS[out.dtype])
    count(values.data_ptr(), states, number, *of_pairs, *alone, places.data_ptr(), out.data_ptr(), width, shared)


def _is_right(library: ctypes.CDLL) -> bool:
    """Whether whole numbers, which float32 adds without rounding, come out as they must."""
    (states, sites, q), cpu = (150, 9, 5), torch.device("cpu")
    values = torch.arange(states * sites, device=cpu).view(states, sites) ** 2 % 11 % q
    x = torch.eye(q, device=cpu, dtype=torch.float32)[values]
    pairs = torch.triu_indices(sites, sites, 1, device=cpu).T.contiguous()
    coupling = (64 * example(len(pairs), q, q)).round()
    field, (i, j) = (64 * example(sites, q)).round(), pairs.T
    weights = torch.arange(states, device=cpu).float()
    chosen = coupling[torch.arange(len(pairs), device=cpu), values[:, i], values[:, j]]
    right = -chosen.sum(1) - field[torch.arange(sites, device=cpu), values].sum(1)
    broken = x.clone()
    broken[-1, -1, -1] = 0.5
    two = torch.einsum("nia,njb->ijab", (x * weights.view(-1, 1, 1)).double(), x.double())[i, j] + 1
    places = torch.arange(0, two.numel(), q * q, device=cpu)
    for states_read in (x, x.byte(), x.transpose(0, 1).contiguous().transpose(0, 1)):
        read = _values(library, states_read)
        if read is None or not torch.equal(read.long(), values.T):
            return False
        if not torch.equal(_energies(library, read, pairs, coupling, field), right):
            return False
        for count in (two, two.float()):
            found = torch.ones_like(count)
            _count(library, read, q, weights, pairs=pairs, places=places, out=found, width=q)
            if not torch.equal(found, count):
                return False
    return _values(library, broken) is None
