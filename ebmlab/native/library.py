"""Compiles this package's C++ for the processor at hand, keeps the library on disk, and loads it."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from ebmlab.errors import UserError
from ebmlab.io.folders import is_private, private_folder
from ebmlab.numerics.products import processor

FOLDER = Path(__file__).parent
FLAGS = ("-std=c++17", "-O3", "-march=native", "-fopenmp", "-shared", "-fPIC")
SUPPORTED = sys.platform == "linux" and torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")
"""Where the kernels are used. They are ahead on a Zen 4 with AVX-512, and on a Zen 3 with AVX2."""
SECONDS = 60  # for the compiler, which takes two
LITTLE = 2**16  # nanoseconds of work that one thread has done before a busy machine wakes another


def trusted(name: str, check: Callable[[ctypes.CDLL], bool], **functions: Sequence[Any]) -> ctypes.CDLL | None:
    """The library of this package's C++ file of this name; None where there is none, or it fails its check.

    Args:
        name: of the file, without its ending.
        check: whether results that are known come out right.
        functions: the C types of the arguments of each; they return an int, or nothing.
    """
    library = compiled(FOLDER / f"{name}.cpp")
    if library is None:
        return None
    for function, types in functions.items():
        getattr(library, function).argtypes = types
    return library if check(library) else None


def compiled(source: Path) -> ctypes.CDLL | None:
    """The library of a C++ file; None where it is not used, or cannot be compiled, kept or loaded.

    The compiler is `$CXX`, which may have arguments, or `c++`; an empty `CXX` means none. To load a library is to run
    code: it is read from a folder only that nobody but the user can write.
    """
    with suppress(OSError, UserError, ValueError, subprocess.SubprocessError):
        compiler = shlex.split(os.environ.get("CXX", "c++"))
        if not compiler or not SUPPORTED:
            return None
        path = private_folder("native") / f"{source.stem}-{_name(source, compiler)}.so"
        if not path.exists():
            _compile(source, compiler, path)
        if is_private(path.parent.lstat()) and is_private(path.lstat()):
            return ctypes.CDLL(str(path))
    return None


def example(*shape: int) -> torch.Tensor:
    """Numbers from -1 to 1 without a pattern that a kernel may miss, and without touching the random generator."""
    size = torch.Size(shape).numel()
    return torch.arange(size, device="cpu", dtype=torch.float64).mul(12.9898).sin().float().view(shape)


def threads(work: float) -> int:
    """How many threads share work of so many nanoseconds: one if that is little, else as many as torch has."""
    return torch.get_num_threads() if work > LITTLE else 1


def _name(source: Path, compiler: list[str]) -> str:
    """What a library depends on: its text, the compiler, and the processor, since homes are shared by machines."""
    status = Path(shutil.which(compiler[0]) or compiler[0]).stat()
    kind = [line for line in processor().splitlines() if line.startswith(("model name", "flags"))][:2]
    texts = [path.read_text() for path in (source, *sorted(FOLDER.glob("*.hpp")))]
    parts = (texts, FLAGS, compiler, status.st_size, status.st_mtime_ns, kind)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _compile(source: Path, compiler: list[str], path: Path) -> None:
    """Writes the library at once, so that no other process loads half of it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        new = Path(folder) / path.name
        command = [*compiler, *FLAGS, f"-I{FOLDER}", "-o", str(new), str(source)]
        quiet = subprocess.DEVNULL  # not a pipe: what the compiler has started may hold it open, past the timeout
        subprocess.run(command, check=True, timeout=SECONDS, stdin=quiet, stdout=quiet, stderr=quiet)
        new.chmod(0o600)
        new.replace(path)
