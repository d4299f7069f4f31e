"""C++ files of `ebmlab.native` with parts replaced or added, compiled."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from ebmlab.native import library


def replace(old: str, new: str, folder: Path, monkeypatch: pytest.MonkeyPatch, *, file: str = "*.?pp") -> None:
    """Has kernels come from copies of all C++ files in a folder, in which `new` stands for `old`.

    The text `old` occurs once in the files that are called `file`, and stays in others.
    """
    texts = {path: path.read_text() for path in library.FOLDER.glob("*.?pp")}
    count = sum(text.count(old) for path, text in texts.items() if path.match(file))
    assert count == 1, f"{old!r} occurs {count} times: write this mutant anew"
    for path, text in texts.items():
        (folder / path.name).write_text(text.replace(old, new) if path.match(file) else text)
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
