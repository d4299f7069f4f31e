"""Products of bits and float32 numbers on a CPU, by sums of four rows that are made once (`bit_products.cpp`)."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path

import torch
from torch import Tensor, nn

from ebmlab.native.library import SUPPORTED, compiled
from ebmlab.numerics.affine import affine as plain_affine

ENOUGH = 2**21  # multiplications of a product from which a call of C++ pays
ROWS, COLUMNS = 48, 32  # of the product at least: rows share sums, and columns are added 32 at once
WORD = 32  # bits
_exporting = getattr(torch.compiler, "is_exporting", torch.compiler.is_compiling)  # torch 2.6 has the latter alone


def affine(bias: Tensor, x: Tensor, matrix: Tensor) -> Tensor:
    """`x @ matrix + bias` `(B, m)` of rows x `(B, n)`, in half the time if all of them are bits.

    Bits are told by their values. Other rows, types and devices, small products, and those that autograd or a compiler
    looks at are left to torch. Sums are added in another order than torch's.

    Example:
        >>> import torch
        >>> affine(torch.tensor([0.0, 1.0]), torch.tensor([[1.0, 0.0, 1.0]]), torch.ones(3, 2)).tolist()
        [[2.0, 3.0]]
    """
    if not _pays(x, matrix):
        return plain_affine(bias, x, matrix)
    return (_affine_in_programs if torch.compiler.is_compiling() else _affine)(bias, x, matrix)


def add_product(out: Tensor, x: Tensor, matrix: Tensor, *, alpha: float = 1.0, overwrite: bool = False) -> None:
    """Adds `alpha * x @ matrix` to `out` `(B, m)`, or overwrites it; see `affine`.

    Example:
        >>> import torch
        >>> total = torch.ones(1, 2)
        >>> add_product(total, torch.tensor([[1.0, 0.0, 1.0]]), torch.ones(3, 2), alpha=-1.0)
        >>> total.tolist()
        [[-1.0, -1.0]]
    """
    if not (_pays(x, matrix) and _multiplies(x, matrix, out, start=None if overwrite else out, alpha=alpha)):
        out.addmm_(x, matrix, beta=0 if overwrite else 1, alpha=alpha)


def _affine(bias: Tensor, x: Tensor, matrix: Tensor) -> Tensor:
    out = torch.empty(len(x), matrix.shape[1])
    return out if _multiplies(x, matrix, out, start=bias) else plain_affine(bias, x, matrix)


_affine_in_programs = torch.library.custom_op("ebmlab::affine", _affine, mutates_args=())  # what the compiler calls
_affine_in_programs.register_fake(lambda bias, x, matrix: x.new_empty(len(x), matrix.shape[1]))


def _pays(x: Tensor, matrix: Tensor) -> bool:
    """Whether the kernels may be asked, as far as shapes and settings say."""
    if not SUPPORTED or _exporting():  # an exported graph takes any number of rows
        return False
    if x.dim() != 2 or len(x) < ROWS or matrix.shape[1] < COLUMNS or len(x) * matrix.numel() < ENOUGH:
        return False
    if x.device.type != "cpu" or x.dtype != torch.float32 or matrix.dtype != torch.float32:
        return False
    return not (torch.is_grad_enabled() or torch.is_autocast_enabled("cpu") or torch.jit.is_tracing())  # type: ignore[attr-defined, no-untyped-call]


def _multiplies(x: Tensor, matrix: Tensor, out: Tensor, *, start: Tensor | None, alpha: float = 1.0) -> bool:
    """Whether `out` now is `start + alpha * x @ matrix`; if not, it is what it was."""
    given = [x, matrix, out] if start is None else [x, matrix, out, start]
    library = kernels()
    if library is None or not all(type(t) in (Tensor, nn.Parameter) and t.dtype == torch.float32 for t in given):
        return False
    if 1 not in x.stride() or out.stride(1) != 1 or (start is not None and start.stride(-1) != 1):
        return False
    try:
        at_x, at_matrix, at_out, *at_start = (t.data_ptr() for t in given)
    except RuntimeError:  # tensors of `torch.vmap` lie nowhere
        return False
    rows, inner = x.shape
    words = torch.empty(-(-inner // WORD), rows, dtype=torch.int32)
    if not library.pack(at_x, *x.stride(), rows, inner, words.data_ptr()):
        return False
    by_row = start.stride(0) if start is not None and start.dim() == 2 else 0
    begin = (at_start[0] if at_start else None), by_row
    shape = rows, inner, matrix.shape[1]
    threads = torch.get_num_threads()
    library.multiply(
        words.data_ptr(), *shape, at_matrix, *matrix.stride(), alpha, *begin, at_out, out.stride(0), threads
    )
    return True


@functools.cache
def kernels() -> ctypes.CDLL | None:
    """The compiled kernels, after one product has come out right; None where there are none."""
    library = compiled(Path(__file__).with_suffix(".cpp"))
    if library is None:
        return None
    i, p = ctypes.c_int64, ctypes.c_void_p
    library.pack.argtypes = [p, i, i, i, i, p]
    library.multiply.argtypes = [p, i, i, i, p, i, i, ctypes.c_float, p, i, p, i, ctypes.c_int]
    return library if _counts(library) else None


def _counts(library: ctypes.CDLL) -> bool:
    """Whether products of whole numbers, which float32 adds without rounding, are what they must be."""
    rows, inner, columns = 5, 71, 37
    x = torch.arange(rows * inner).view(rows, inner).remainder(7).lt(3).float()
    matrix = torch.arange(inner * columns).view(inner, columns).remainder(11).float()
    words, out = torch.empty(3, rows, dtype=torch.int32), torch.empty(rows, columns)
    if not library.pack(x.data_ptr(), *x.stride(), rows, inner, words.data_ptr()):
        return False
    library.multiply(
        words.data_ptr(), rows, inner, columns, matrix.data_ptr(), columns, 1, 1.0, None, 0, out.data_ptr(), columns, 1
    )
    return torch.equal(out, (x.double() @ matrix.double()).float())
