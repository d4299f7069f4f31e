"""The Python of docs/samplers.md runs as it stands, and its sampler is exact."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers_finite import DOMAINS

from ebmlab.testing import Rugged, assert_invariant


def blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", (Path(__file__).parents[1] / "docs" / "samplers.md").read_text(), re.S)


def test_three_lines_of_python(capsys: pytest.CaptureFixture[str]) -> None:
    torch.manual_seed(0)
    names: dict[str, Any] = {}
    exec(blocks()[0], names)
    assert len(capsys.readouterr().out.split(" ")) == 3 and 0.5 < float(names["info"].acceptance.mean()) < 0.9


@pytest.mark.parametrize("domain", ["binary", "spin"])
def test_the_sampler_that_the_page_adds_is_exact(domain: str) -> None:
    names: dict[str, Any] = {}
    exec(next(block for block in blocks() if "class OneFlip" in block), names)
    assert float(names["info"].hops.mean()) > 0.3
    assert assert_invariant(names["OneFlip"]([1.0, 2.0, 3.0, 4.0]), Rugged(DOMAINS[domain])).exact
