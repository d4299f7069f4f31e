"""The page of common tasks: its commands are such that the command line takes them."""

from __future__ import annotations

import contextlib
import re
import shlex
from pathlib import Path

import pytest
from helpers_tier import cases
from PIL import Image

from docs.notebooks import cells, commands
from ebmlab.app import cli

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "howto" / "tasks.md").read_text()
TASKS = dict(task.split("\n", 1) for task in re.split(r"^## ", PAGE, flags=re.M)[1:])
FITS = [line for cell in cells(PAGE) if cell.kind == "shell" for line in commands(cell.source) if " fit " in line]
OTHERS = [line for cell in cells(PAGE) if cell.kind == "shell" for line in commands(cell.source) if " fit " not in line]


def test_there_are_25_tasks_with_a_command_or_a_page() -> None:
    assert len(TASKS) >= 25
    for task, text in TASKS.items():
        assert "```" in text or "](" in text, task


@cases("line", FITS, fast=range(0, len(FITS), 4))
def test_a_training_parses(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "votes.csv").write_text("0,1\n1,0\n" * 10)
    (tmp_path / "spins.csv").write_text("-1,1\n1,-1\n" * 10)
    for name, text in re.findall(r"^```yaml\n# ([\w.]+)[^\n]*\n(.*?)^```", PAGE, re.M | re.S):
        (tmp_path / name).write_text(text)
    (tmp_path / "points.csv").write_text("0.5,1\n1,0.25\n" * 10)
    (tmp_path / "a.faa").write_text("".join(f">{i}\n{'ACDE'[i % 4]}CDEF\n" for i in range(20)))
    (tmp_path / "pictures").mkdir()
    for i in range(10):
        Image.new("L", (16, 16), 20 * i).save(tmp_path / "pictures" / f"{i}.png")
    words = shlex.split(line)[1:] + (["--data.path", "a.faa"] if "family" in line else [])
    with pytest.raises(SystemExit) as end:
        cli.main([*words, "--print_config"])
    assert not end.value.code


@pytest.mark.parametrize("line", OTHERS)
def test_another_command_has_its_options(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = shlex.split(line)[1:]
    with contextlib.suppress(SystemExit):
        cli.main([words[0], "--help"])
    shown = capsys.readouterr().out
    missing = [word for word in words if word.startswith("--") and word not in shown and "." not in word]
    assert missing == []
