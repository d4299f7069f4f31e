"""How the C library gives out memory to tensors on a CPU."""

from __future__ import annotations

import ctypes
import os
import sys

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
GIBIBYTE = 2**30
LARGEST_THEN = 2**25  # of M_MMAP_THRESHOLD, before glibc 2.35


def keep_freed_memory() -> bool:
    """Tells glibc to hold on to the memory of freed tensors, for the whole process; nothing elsewhere.

    By default it gives memory back to the system as activations are freed, and gets empty pages for the next ones. This
    takes 10 to 20 % of the time of AIS, ratio matching and residual networks on a CPU. The price is that the process
    stays as large as it has been at its largest. Whoever has set `MALLOC_TRIM_THRESHOLD_`, `MALLOC_MMAP_THRESHOLD_` or
    `GLIBC_TUNABLES` has decided already.

    Returns:
        Whether glibc was told.
    """
    decided = {"MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES"} & os.environ.keys()
    if decided or not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
    if mallopt is None or not any(mallopt(M_MMAP_THRESHOLD, size) for size in (GIBIBYTE, LARGEST_THEN)):
        return False  # the other setting alone would make things worse
    return bool(mallopt(M_TRIM_THRESHOLD, GIBIBYTE))


def return_freed_memory() -> None:
    """Has glibc give the memory of freed tensors back to the system, from between others too; nothing elsewhere.

    Between large tensors that come and go by turns, memory that is free but not empty adds up to more than they take.
    """
    if sys.platform.startswith("linux") and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):  # musl has none
        trim(0)
