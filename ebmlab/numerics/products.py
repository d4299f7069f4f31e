"""Which library multiplies float32 matrices on a CPU."""

from __future__ import annotations

import contextlib
import functools
import platform
import re
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import nn

ENOUGH = 2**22  # multiplications in a product from which oneDNN is used; smaller ones can take longer by it
LARGE = 2**17  # entries of a matrix from which oneDNN is used where AVX-512 has half its width
AMD, ZEN_5 = "AuthenticAMD", 26
SHAPES = (16, 16, 32), (100, 784, 500), (1024, 256, 256)
"""Rows, inner size and columns of products that must not be rounded."""


@contextlib.contextmanager
def fast_products(model: nn.Module, rows: int) -> Iterator[None]:
    """Within it the fastest library multiplies many rows by the model's matrices, if the largest is large enough.

    Args:
        model: an energy; its parameters and buffers with two axes are taken for such matrices.
        rows: states that are evaluated at once.
    """
    if not _may_choose():
        yield
        return
    largest = _largest_matrix(model)
    with by_onednn(rows * largest if largest >= LARGE or has_full_width() else 0):
        yield


@contextlib.contextmanager
def by_onednn(multiplications: int) -> Iterator[None]:
    """Within it oneDNN multiplies float32 matrices, where `onednn_is_faster` and for products of this size at least.

    torch has oneDNN do so when products may be rounded to bfloat16, `torch.set_float32_matmul_precision("medium")`.
    A precision that somebody else has set stays.
    """
    if multiplications < ENOUGH or not _may_choose():
        yield
        return
    torch.set_float32_matmul_precision("medium")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision("highest")


def _largest_matrix(model: nn.Module) -> int:
    """Entries of the largest parameter or buffer with two axes; `parameters()` would take ten times as long."""
    parts = model.__dict__
    tensors = (*parts["_parameters"].values(), *parts["_buffers"].values())
    sizes = [t.numel() for t in tensors if t is not None and t.dim() == 2]
    return max(sizes + [_largest_matrix(child) for child in parts["_modules"].values() if child is not None], default=0)


def _may_choose() -> bool:
    """Whether oneDNN is faster, and nobody has set a precision."""
    try:
        return torch.get_float32_matmul_precision() == "highest" and onednn_is_faster()
    except RuntimeError:  # torch does not tell when it was set by the newer `torch.backends....fp32_precision`
        return False


@functools.cache
def onednn_is_faster() -> bool:
    """Whether oneDNN multiplies large float32 matrices faster than MKL, and without rounding them.

    It does on AMD's processors with AVX-512, from Zen 5 on in half of the time (`has_full_width`). There torch leaves
    these products to Intel's MKL, which uses AVX-512 on Intel's processors alone. With AMX alone oneDNN rounds. To make
    sure, products whose sums rounding would change are computed once. False on machines with a GPU, since the setting
    would round the GPU's products.
    """
    if torch.cuda.is_available() or torch.backends.cpu.get_cpu_capability() != "AVX512" or not made_by_amd():
        return False
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        return all(exact(*shape) for shape in SHAPES)
    finally:
        torch.set_float32_matmul_precision(before)


def made_by_amd() -> bool:
    """Whether this processor is AMD's."""
    return AMD in processor()


@functools.cache
def has_full_width() -> bool:
    """Whether this processor of AMD's adds and multiplies 512 bits at once, as from Zen 5 on.

    Zen 4 takes two turns for AVX-512. MKL's AVX2 then is as fast, and faster for matrices that fit into its cache.
    """
    family = re.search(r"(?:cpu family\s*:|Family)\s*(\d+)", processor())
    return family is None or int(family[1]) >= ZEN_5


def processor() -> str:
    """What the system says of the processor."""
    try:
        return Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor()  # Windows: "AMD64 Family 25 Model 17 Stepping 1, AuthenticAMD"


def exact(rows: int, inner: int, columns: int) -> bool:
    """Whether products of numbers that bfloat16 cannot hold are exact, either of them first."""
    odd = 1 + 2**-12  # sums of a thousand of them are exact in float32
    one, other = torch.ones(rows, inner), torch.full((inner, columns), odd)
    return all(bool((product == inner * odd).all()) for product in (one @ other, other.T @ one.T))
