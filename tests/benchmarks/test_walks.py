"""The numbers of files that docs/architecture.md says a walk opens."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.walks import dmala, fit, train

PAGE = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text()


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
    batch, evaluated = train()
    numbers = said(r"enters (\d+) files: (\d+) from loader to optimizer, (\d+) in AIS")
    assert [len(fit()), len(batch), len(evaluated)] == numbers
