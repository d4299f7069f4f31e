"""The numbers of files that docs/architecture.md says a walk opens."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from benchmarks.walks import ROOT, dmala

PAGE = (ROOT / "docs" / "architecture.md").read_text()


def said(pattern: str) -> list[int]:
    found = re.search(pattern, PAGE)
    assert found is not None
    return [int(number) for number in found.groups()]


def test_steps_of_dmala() -> None:
    eager, compiled = dmala()
    graph = len(eager) + 1  # for a CUDA graph `engine/cuda_graph.py`
    pattern = r"enters (\d+) files, (\d+) as a CUDA graph, (\d+) compiled"
    assert [len(eager), graph, len(compiled)] == said(pattern)
    assert compiled - eager == {"ebmlab/engine/compiled.py", "ebmlab/engine/kept_programs.py"}


@pytest.mark.slow
def test_training() -> None:
    """In a process of its own: files whose answers a process keeps are not entered again."""
    command = [sys.executable, "-m", "benchmarks.walks"]
    walks = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    *_, batch, evaluated, whole = map(int, re.findall(r": (\d+) files$", walks, re.MULTILINE))
    assert [whole, batch, evaluated] == said(r"enters (\d+) files: (\d+) from loader to optimizer, (\d+) in AIS")
