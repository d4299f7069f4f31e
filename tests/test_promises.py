"""Every promise of docs/promises.md names tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "promises.md"
LINES = [line for line in PAGE.read_text().splitlines() if line.startswith("- ")]


def named(line: str) -> list[tuple[str, str]]:
    """The file and function of each test that a line names."""
    return re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", line)


def missing(line: str) -> list[str]:
    """Tests of a line that do not exist."""
    return [f"{file}::{test}" for file, test in named(line) if test not in functions(ROOT / file)]


def functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text()) if path.exists() else ast.Module([], [])
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("line", LINES, ids=lambda line: line[2:40])
def test_a_promise_names_tests_that_exist(line: str) -> None:
    assert named(line) and line.count("`tests/") == len(named(line))
    assert missing(line) == []


def test_a_test_that_is_gone_is_found() -> None:
    assert missing("- A: `tests/test_promises.py::test_gone`, `tests/gone.py::test_a`") == [
        "tests/test_promises.py::test_gone",
        "tests/gone.py::test_a",
    ]
    assert len(LINES) > 30
