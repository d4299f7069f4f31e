"""C++ files of `ebmlab.native` with parts replaced or added, compiled."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from ebmlab.native import library


def replace(old: str, new: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has kernels come from copies of all C++ files in a folder, in which `new` stands for `old`, which occurs once."""
    texts = {path.name: path.read_text() for path in library.FOLDER.glob("*.?pp")}
    count = sum(text.count(old) for text in texts.values())
    assert count == 1, f"{old!r} occurs {count} times: write this mutant anew"
    for name, text in texts.items():
        (folder / name).write_text(text.replace(old, new))
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
        patch.setenv("EBMLAB_CACHE", str(folder))
        found = library.compiled(path)
    assert found is not None
    return found
