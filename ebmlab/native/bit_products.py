"""Products of bits and float32 numbers on a CPU, by sums of four rows that are made once (`bit_products.cpp`)."""

from __future__ import annotations

import ctypes
import functools

import torch
from torch import Tensor

from ebmlab.native.library import SUPPORTED, trusted
from ebmlab.native.plain import exporting, readable
from ebmlab.numerics.affine import affine as plain_affine
from ebmlab.numerics.operators import operator

ENOUGH = 3 * 2**20  # multiplications of a product from which a call of C++ pays
ROWS, INNER, COLUMNS = 48, 16, 32  # at least: rows share sums, sums replace products, and columns are added 32 at once
WORD = 32  # bits


def affine(bias: Tensor, x: Tensor, matrix: Tensor) -> Tensor:
    """`x @ matrix + bias` `(B, m)` of rows x `(B, n)`, in less time if all of them are bits.

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
    out = x.new_empty(x.shape[0], matrix.shape[1])
    return out if _multiplies(x, matrix, out, start=bias) else plain_affine(bias, x, matrix)


_affine_in_programs = operator(
    "affine(Tensor bias, Tensor x, Tensor matrix)",
    _affine,
    lambda bias, x, matrix: x.new_empty(x.shape[0], matrix.shape[1]),
)


def _pays(x: Tensor, matrix: Tensor) -> bool:
    """Whether types, sizes and settings allow the kernels, and the product is large enough for them to be faster."""
    if not SUPPORTED or exporting():  # an exported graph takes any number of rows
        return False
    if not x.dim() == matrix.dim() == 2 or len(x) * matrix.numel() < ENOUGH:
        return False
    if len(x) < ROWS or len(matrix) < INNER or matrix.shape[1] < COLUMNS:
        return False
    if x.device.type != "cpu" or x.dtype != torch.float32 or matrix.dtype != torch.float32:
        return False
    return not (torch.is_grad_enabled() or torch.is_autocast_enabled("cpu") or torch.jit.is_tracing())  # type: ignore[attr-defined, no-untyped-call]


def _multiplies(x: Tensor, matrix: Tensor, out: Tensor, *, start: Tensor | None, alpha: float = 1.0) -> bool:
    """Writes `start + alpha * x @ matrix` into `out` by the kernels if they can; returns whether they did."""
    given = [x, matrix, out] if start is None else [x, matrix, out, start]
    if not (readable(*given) and _fit(x, matrix, out, start)):
        return False  # a mode, such as one that counts multiplications, sees what torch multiplies
    library = kernels()
    if library is None or out.untyped_storage().data_ptr() == matrix.untyped_storage().data_ptr():
        return False
    if not _called(library, x, matrix, out, start=start, alpha=alpha):
        return False
    if not out.is_inference():
        torch.autograd.graph.increment_version(out)  # autograd asks for it before it uses what it has saved
    return True


def _called(
    library: ctypes.CDLL, x: Tensor, matrix: Tensor, out: Tensor, *, start: Tensor | None = None, alpha: float = 1.0
) -> bool:
    """Writes the product into `out` if x holds nothing but bits; returns whether it does."""
    rows, inner = x.shape
    words = torch.empty(-(-inner // WORD), rows, dtype=torch.int32, device="cpu")
    if not library.pack(x.data_ptr(), *x.stride(), rows, inner, words.data_ptr()):
        return False
    one_row = start is None or start.shape != out.shape
    begin = (None, 0) if start is None else (start.data_ptr(), 0 if one_row else start.stride(0))
    shape, second = (rows, inner, matrix.shape[1]), (matrix.data_ptr(), *matrix.stride())
    threads = torch.get_num_threads()
    library.multiply(words.data_ptr(), *shape, *second, alpha, *begin, out.data_ptr(), out.stride(0), threads)
    return True


def _fit(x: Tensor, matrix: Tensor, out: Tensor, start: Tensor | None) -> bool:
    """Whether shapes and strides suit the kernels. Torch multiplies other tensors, or says why it cannot."""
    (rows, inner), columns = x.shape, matrix.shape[1]
    if len(matrix) != inner or out.shape != (rows, columns) or 1 not in x.stride():
        return False
    if out.stride(1) != 1 or out.stride(0) < columns or (out.is_inference() and not torch.is_inference_mode_enabled()):
        return False
    return start is None or (start.shape in ((columns,), (1, columns), (rows, columns)) and start.stride(-1) == 1)


@functools.cache
def kernels() -> ctypes.CDLL | None:
    """The compiled kernels, after one product has come out right; None where there are none."""
    i, p = ctypes.c_int64, ctypes.c_void_p
    multiply = [p, i, i, i, p, i, i, ctypes.c_float, p, i, p, i, ctypes.c_int]
    return trusted("bit_products", _counts, pack=[p, i, i, i, i, p], multiply=multiply)


def _counts(library: ctypes.CDLL) -> bool:
    """Whether products of whole numbers, which float32 adds without rounding, are what they must be."""
    rows, inner, columns = 5, 71, 37
    cpu = torch.device("cpu")
    x = torch.arange(rows * inner, device=cpu).view(rows, inner).remainder(7).lt(3).float()
    matrix = torch.arange(inner * columns, device=cpu).view(inner, columns).remainder(11).float()
    right, out = (x.double() @ matrix.double()).float(), torch.empty_like(matrix[:rows])
    by_rows = _called(library, x, matrix, out) and torch.equal(out, right)
    return by_rows and _called(library, x, matrix.T.contiguous().T, out.fill_(-1)) and torch.equal(out, right)
