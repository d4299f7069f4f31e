"""Freed memory is kept: tensors that come and go no longer begin with empty pages."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
from ebmlab.allocator import keep_freed_memory
from ebmlab.energies import ResNet
told = keep_freed_memory() if sys.argv[1] == "keep" else False
energy = ResNet((28, 28), channels=16)
x = energy.domain.random(100)
for _ in range(5):
    energy.value_and_grad(x)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    energy.value_and_grad(x)
print(told, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
DECIDED = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES", "LD_PRELOAD")


def page_faults(word: str, **environment: str) -> tuple[bool, int]:
    """Whether glibc was told, and the page faults of ten evaluations of a network, in a process of its own."""
    plain = {k: v for k, v in os.environ.items() if k not in DECIDED}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, word], env=plain | environment, capture_output=True, text=True, check=True
    )
    told, faults = done.stdout.split()
    return told == "True", int(faults)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc")
def test_tensors_reuse_their_pages() -> None:
    told, faults = page_faults("keep")
    if not told and not hasattr(ctypes.CDLL(None), "mallopt"):
        pytest.skip("this C library cannot be told")
    assert told
    assert faults < 2000  # none here; 17,000 to 20,000 otherwise


@pytest.mark.parametrize("variable", DECIDED[:3])
def test_what_the_user_decided_stays(variable: str) -> None:
    value = {"GLIBC_TUNABLES": "glibc.malloc.trim_threshold=131072"}.get(variable, "131072")
    assert not page_faults("keep", **{variable: value})[0]
