"""The numbers of files that docs/architecture.md says a walk opens."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.walks import dmala, fit, train

PAGE = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text()


def said(walk: str) -> int:
    return int(re.search(rf"^\| [^|]*{walk}[^|]* \| (\d+) \|$", PAGE, re.M)[1])  # type: ignore[index]


def test_steps_of_dmala() -> None:
    eager, compiled = dmala()
    assert (len(eager), len(compiled)) == (said("a step of DMALA"), said("a program"))
    assert compiled - eager == {"ebmlab/engine/compiled.py"}
    assert said("CUDA graph") == len(eager | {"ebmlab/engine/cuda_graph.py"})


@pytest.mark.slow
def test_training() -> None:
    batch, evaluated = train()
    assert (len(batch), len(evaluated)) == (said("a batch, from"), said("AIS in training"))
    assert len(fit()) == said("`fit` of one batch")
