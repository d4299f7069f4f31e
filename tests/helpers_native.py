"""C++ files of `ebmlab.native` with parts replaced or added, compiled."""

from __future__ import annotations

import atexit
import ctypes
import os
import shlex
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

from ebmlab.native import library


@cache
def compiler() -> str:
    """The compiler, which has read the headers of the system once for all texts: the same code in half the time."""
    made = os.environ.get("CXX", "c++")
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    lines = "\n".join(path.read_text() for path in library.FOLDER.glob("*.?pp")).splitlines()
    header = folder / "system.hpp"
    header.write_text("\n".join(sorted({line for line in lines if line.startswith("#include <")})))
    command = [*shlex.split(made), *library.FLAGS, "-x", "c++-header", "-o", f"{header}.gch", str(header)]
    subprocess.run(command, check=True)
    return f"{made} -include {shlex.quote(str(header))}"


def replace(old: str, new: str, folder: Path, monkeypatch: pytest.MonkeyPatch, *, file: str = "*.?pp") -> None:
    """Has kernels come from copies of all C++ files in a folder, in which `new` stands for `old`.

    The text `old` occurs once in the files that are called `file`, and stays in others.
    """
    texts = {path: path.read_text() for path in library.FOLDER.glob("*.?pp")}
    count = sum(text.count(old) for path, text in texts.items() if path.match(file))
    assert count == 1, f"{old!r} occurs {count} times: write this mutant anew"
    for path, text in texts.items():
        (folder / path.name).write_text(text.replace(old, new) if path.match(file) else text)
    monkeypatch.setenv("CXX", compiler())
    monkeypatch.setattr(library, "FOLDER", folder)
    monkeypatch.setenv("EBMLAB_CACHE", str(folder))


def unchecked(name: str, like: ctypes.CDLL | None) -> ctypes.CDLL:
    """The library of a C++ file, whether or not it is right; its functions take what those of another take."""
    made = library.compiled(library.FOLDER / f"{name}.cpp")
    assert made is not None
    for function, right in vars(like).items():
        if hasattr(right, "argtypes"):
            getattr(made, function).argtypes = right.argtypes
    return made


def compiled(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> ctypes.CDLL:
    """The library of a text."""
    path = folder / "text.cpp"
    path.write_text(text)
    with monkeypatch.context() as patch:
        patch.setenv("CXX", compiler())
        patch.setenv("EBMLAB_CACHE", str(folder))
        found = library.compiled(path)
    assert found is not None
    return found
