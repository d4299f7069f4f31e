"""The Python of docs/samplers.md runs as it stands, and its sampler is exact; a tutorial's sample sizes are right."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers_finite import DOMAINS

from ebmlab.testing import Rugged, assert_invariant


def blocks(page: str = "samplers.md") -> list[str]:
    return re.findall(r"```python\n(.*?)```", (Path(__file__).parents[1] / "docs" / page).read_text(), re.S)


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


@pytest.mark.slow
def test_the_tutorial_counts_effective_draws_along_the_chains(capsys: pytest.CaptureFixture[str]) -> None:
    """By another formula: the variance of a draw over that of the mean, which the spread of the chains' means shows."""
    target, by_hand = blocks("tutorials/compare_samplers.md")[:2]
    one = by_hand.replace("(RandomWalk(num_flips=1), Gibbs(), GWG(), DMALA(step_size=0.4))", "(GWG(),)")
    names: dict[str, Any] = {}
    exec(target + one.replace("from my_target import EvenPairs\n", ""), names)
    assert capsys.readouterr().out.startswith("GWG")
    trace = names["trace"][200:].double()  # (steps, chains, bits)
    expected = 50 * trace.var((0, 1)) / trace.mean(0).var(0)
    assert float(names["ess"]) == pytest.approx(float(expected.min()), rel=0.5)
