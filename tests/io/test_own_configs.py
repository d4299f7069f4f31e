"""What ebmlab remembers to have written for its user."""

from __future__ import annotations

from pathlib import Path

import pytest

from ebmlab.io import own_files


def test_what_is_written_is_known_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EBMLAB_CACHE", str(tmp_path))
    own_files.remember("model: a\n")
    assert own_files.is_own("model: a\n") and not own_files.is_own("model: b\n")


def test_a_user_without_a_home_remembers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that runs under a number which has no entry among the users."""
    monkeypatch.delenv("EBMLAB_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)

    def no_home(cls: type[Path]) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", classmethod(no_home))
    own_files.remember("model: a\n")
    assert not own_files.is_own("model: a\n")
