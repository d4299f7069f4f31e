"""Help, the version and misspelt commands are answered before anything heavy is imported."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ebmlab import __version__
from ebmlab.app.at_once import COMMANDS, HELP
from ebmlab.app.cli import CLI

PROGRAM = """
import runpy, sys
sys.argv = ["ebmlab", *sys.argv[1:]]
try:
    runpy.run_module("ebmlab", run_name="__main__")
finally:
    heavy = {"torch", "numpy", "pytorch_lightning", "jsonargparse"} & set(sys.modules)
    assert not heavy, heavy
"""


@pytest.mark.parametrize(
    ("words", "code", "out", "err"),
    [
        ([], 0, HELP, ""),
        (["--help"], 0, HELP, ""),
        (["--version"], 0, f"ebmlab {__version__}", ""),
        (
            ["fti", "--debug"],
            2,
            "",
            "error: there is no command fti; choose fit, validate, test, predict, sample or list",
        ),
    ],
)
def test_answered_at_once(words: list[str], code: int, out: str, err: str) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, *words], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip(), done.stderr.strip()) == (code, out, err)


def test_help_names_every_command() -> None:
    assert [*CLI.subcommands(), "sample", "list"] == list(COMMANDS)
    assert all(f"\n  {command} " in HELP for command in COMMANDS)
