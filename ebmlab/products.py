"""Which library multiplies float32 matrices on a CPU."""

from __future__ import annotations

import platform
from pathlib import Path

import torch

AMD = "AuthenticAMD"
SHAPES = (16, 16, 32), (100, 784, 500), (1024, 256, 256)
"""Rows, inner size and columns of the products that must not be rounded."""


def use_onednn() -> bool:
    """Lets oneDNN multiply float32 matrices on AMD's processors with AVX-512, for the whole process; nothing elsewhere.

    torch leaves these products to Intel's MKL, which uses AVX-512 on Intel's processors alone. There oneDNN takes about
    half of the time for 16 rows and more, and up to 80 microseconds longer for fewer. torch gives it float32 products
    when they may be rounded to bfloat16, `torch.set_float32_matmul_precision("medium")`. Without AMX it does not round
    them; a few products, whose sums rounding would change, are computed to make sure. A machine with a GPU stays as it
    is, because the setting would round the GPU's products, and so does a precision that somebody has set.

    Returns:
        Whether oneDNN multiplies float32 matrices from now on.

    Example:
        >>> use_onednn() in (True, False)
        True
    """
    if torch.get_float32_matmul_precision() != "highest" or torch.cuda.is_available():
        return False
    if torch.backends.cpu.get_cpu_capability() != "AVX512" or not _made_by_amd():
        return False
    torch.set_float32_matmul_precision("medium")
    if all(_exact(*shape) for shape in SHAPES):
        return True
    torch.set_float32_matmul_precision("highest")
    return False


def _made_by_amd() -> bool:
    try:
        return AMD in Path("/proc/cpuinfo").read_text()
    except OSError:
        return AMD in platform.processor()  # Windows


def _exact(rows: int, inner: int, columns: int) -> bool:
    """Whether products of numbers that bfloat16 cannot hold are exact, either of them first."""
    odd = 1 + 2**-12  # sums of a thousand of them are exact in float32
    one, other = torch.ones(rows, inner), torch.full((inner, columns), odd)
    return all(bool((product == inner * odd).all()) for product in (one @ other, other.T @ one.T))
