"""The commands and configs of docs/configs.md work as they stand."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers_tier import cases

from ebmlab.app.cli import main

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "configs.md").read_text().replace("\\\n", " ")
MINE = re.findall(r"```python\n(# mine.py\n.*?)```", PAGE, re.S)[0]
COMMANDS = re.findall(r"^python -m ebmlab (?!compare)(.*)$", PAGE, re.M)


@cases("command", COMMANDS, fast=range(0, len(COMMANDS), 8))
def test_commands_are_parsed(command: str, run: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    """`--print_config` ends each command before it would begin to train."""
    Path("configs").symlink_to(ROOT / "configs")
    Path("mine.py").write_text(MINE)
    for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.S):
        Path(text.removeprefix("# ").partition(":")[0]).write_text(text)
    with pytest.raises(SystemExit) as end:
        main([*shlex.split(command.removesuffix(" --print_config")), "--print_config"])
    assert not end.value.code, capsys.readouterr().err
    printed = capsys.readouterr().out
    for option, value in re.findall(r" --\S*\.(\w+) ([^'\s]+)", command):
        assert value in ("true", "false") or re.search(rf"{option}:\s+(class_path: )?{value}\s", printed)


def test_the_page_has_as_many_commands_and_configs_as_were_found() -> None:
    assert len(COMMANDS) == 21 and PAGE.count("```yaml\n# ") == 3
