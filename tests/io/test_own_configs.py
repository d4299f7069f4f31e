"""What ebmlab remembers to have written for its user."""

from __future__ import annotations

from pathlib import Path

import pytest

from ebmlab.app.own_runs import keep_own, must_be_named
from ebmlab.io import own_files


def test_what_is_written_is_known_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EBMLAB_CACHE", str(tmp_path))
    assert own_files.remember("model: a\n")
    assert own_files.is_own("model: a\n") and not own_files.is_own("model: b\n")


def test_a_user_without_a_home_remembers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that runs under a number which has no entry among the users."""
    monkeypatch.delenv("EBMLAB_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)

    def no_home(cls: type[Path]) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", classmethod(no_home))
    assert not own_files.remember("model: a\n")
    assert not own_files.is_own("model: a\n")


def test_commands_name_the_config_of_a_run_that_is_not_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config.yaml"
    for cache, text, named in [
        ("cache", "class_path: ebmlab.energies.RBM", False),
        ("cache", "class_path: mine.RBM", True),
        ("config.yaml", "class_path: ebmlab.energies.RBM", True),  # a file, where no folder can be made
    ]:
        monkeypatch.setenv("EBMLAB_CACHE", str(tmp_path / cache))
        config.write_text(text)
        assert keep_own(config) == (cache == "cache") and must_be_named(config) == named
