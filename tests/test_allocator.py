"""Freed memory is kept: tensors that come and go no longer begin with empty pages."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import pytest

PROGRAM = """
import resource
from ebmlab.numerics.allocator import keep_freed_memory
from ebmlab.energies import ResNet
told = keep_freed_memory()
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


def output(program: str, **environment: str) -> list[str]:
    """The words that a program prints, in a process where the user has decided nothing but what is given."""
    plain = {k: v for k, v in os.environ.items() if k not in DECIDED}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=plain | environment, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc")
def test_tensors_reuse_their_pages() -> None:
    told, faults = output(PROGRAM)
    if told == "False" and not hasattr(ctypes.CDLL(None), "mallopt"):
        pytest.skip("this C library cannot be told")
    assert told == "True"
    assert int(faults) < 2000  # none here; 17,000 to 20,000 otherwise


@pytest.mark.parametrize("variable", DECIDED[:3])
def test_what_the_user_decided_stays(variable: str) -> None:
    value = {"GLIBC_TUNABLES": "glibc.malloc.trim_threshold=131072"}.get(variable, "131072")
    told = output(
        "from ebmlab.numerics.allocator import keep_freed_memory; print(keep_freed_memory())", **{variable: value}
    )
    assert told == ["False"]
