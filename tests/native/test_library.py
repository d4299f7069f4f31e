"""The compiled library: one compilation, a folder of its owner alone, and no fault without a compiler."""

from __future__ import annotations

import shutil
import stat
import subprocess
import time
from pathlib import Path

import pytest
import torch
from helpers_native import replace
from helpers_tier import cases

from ebmlab.native import library
from ebmlab.native.bit_products import kernels

needs_kernels = pytest.mark.skipif(kernels() is None, reason="needs a C++ compiler, Linux, and AVX2 or AVX-512")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where libraries are kept; beside them a small source."""
    monkeypatch.setenv("EBMLAB_CACHE", str(tmp_path))
    (tmp_path / "one.cpp").write_text('extern "C" int one() { return 1; }\n')
    return tmp_path


def is_used(source: Path, **environment: str) -> bool:
    """Whether there is a library that has been loaded."""
    with pytest.MonkeyPatch.context() as patched:
        for name, value in environment.items():
            patched.setenv(name, value)
        found = library.compiled(source)
    assert found is None or found.one() == 1
    return found is not None


@needs_kernels
def test_a_library_is_compiled_once_and_read_by_its_owner_alone(folder: Path) -> None:
    assert is_used(folder / "one.cpp")
    (kept,) = folder.rglob("*.so")
    written = kept.stat().st_mtime_ns
    assert [*kept.parent.iterdir()] == [kept]
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
    assert is_used(folder / "one.cpp")
    assert kept.stat().st_mtime_ns == written
    kept.chmod(0o666)
    assert not is_used(folder / "one.cpp")
    kept.chmod(0o600)
    kept.parent.chmod(0o777)
    assert not is_used(folder / "one.cpp")


@needs_kernels
def test_a_damaged_library_is_not_used(folder: Path) -> None:
    assert is_used(folder / "one.cpp")
    (kept,) = folder.rglob("*.so")
    damaged = folder / "other" / kept.relative_to(folder)  # the loader remembers what it has loaded from a path
    damaged.parent.mkdir(mode=0o700, parents=True)
    damaged.write_bytes(b"no library")
    damaged.chmod(0o600)
    assert not is_used(folder / "one.cpp", EBMLAB_CACHE=str(folder / "other"))
    assert damaged.read_bytes() == b"no library"


def test_no_compiler_is_no_fault(folder: Path) -> None:
    unlinked = "c++ -lno-such-library"  # as clang++ is where libomp is missing
    for compiler in ("", "no-such-compiler", shutil.which("false") or "", unlinked):
        assert not is_used(folder / "one.cpp", CXX=compiler)
    assert not [*folder.rglob("*.so")]


@pytest.mark.usefixtures("folder")
def test_a_process_without_a_compiler_has_no_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor would one that begins: tests/samplers/test_at_once.py runs its chains."""
    monkeypatch.setenv("CXX", "")
    assert kernels.__wrapped__() is None


@needs_kernels
def test_a_compiler_may_have_arguments(folder: Path) -> None:
    assert is_used(folder / "one.cpp", CXX=f"env LC_ALL=C '{shutil.which('c++')}' -g0")
    assert not is_used(folder / "one.cpp", CXX="'c++")


@needs_kernels
@cases("source", {path.name: path.name for path in sorted(library.FOLDER.glob("*.cpp"))}, fast=["word_sweeps.cpp"])
def test_vectors_keep_their_alignment(source: str) -> None:
    """A template such as `std::vector` forgets that of a vector: clang then reads where no vector may begin."""
    flags = ["-std=c++17", "-march=native", "-fopenmp", "-fsyntax-only", "-Werror=ignored-attributes"]
    subprocess.run(["c++", *flags, source], cwd=library.FOLDER, check=True)


def test_a_compiler_that_hangs_is_left_alone(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """So is what it has started."""
    compiler = folder / "slow"
    compiler.write_text("#!/bin/sh\nsleep 20\nexit 1\n")
    compiler.chmod(0o700)
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.setattr(library, "SECONDS", 0.1)
    begin = time.monotonic()
    assert library.compiled(folder / "one.cpp") is None
    assert time.monotonic() - begin < 15, "it has waited for the compiler's child"


@cases(
    ("old", "new"),
    [
        ("sum[s] + row[GROUP - 1]", "sum[s]"),  # the fourth row of a group is left out
        ("put(3, __builtin", "put(2, __builtin"),  # a row of a transposed matrix
        ("k < whole; ++k", "k < whole - 1; ++k"),  # a word of bits
    ],
    fast=[0],
)
def test_a_library_that_counts_wrongly_is_not_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, old: str, new: str
) -> None:
    replace(old, new, tmp_path, monkeypatch)
    assert kernels.__wrapped__() is None


def test_threads_share_much_work_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine, waking another takes longer than a little work."""
    torch.set_num_threads(3)
    assert library.threads(1) == 3
    monkeypatch.undo()
    assert library.threads(library.LITTLE) == 1 and library.threads(library.LITTLE + 1) == 3
