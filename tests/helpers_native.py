"""C++ files of `ebmlab.native` with parts replaced or added, compiled."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from ebmlab.native import library


def replaced(old: str, new: str, folder: Path) -> Path:
    """A folder with copies of all C++ files, in which `new` stands for `old`, which occurs once."""
    texts = {path.name: path.read_text() for path in library.FOLDER.glob("*.?pp")}
    count = sum(text.count(old) for text in texts.values())
    assert count == 1, f"{old!r} occurs {count} times: write this mutant anew"
    for name, text in texts.items():
        (folder / name).write_text(text.replace(old, new))
    return folder


def compiled(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> ctypes.CDLL:
    """The library of a text."""
    path = folder / "text.cpp"
    path.write_text(text)
    with monkeypatch.context() as patch:
        patch.setenv("EBMLAB_CACHE", str(folder))
        found = library.compiled(path)
    assert found is not None
    return found
