"""Several tries a step leave the law as it is, and wrong weights do not."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from ebmlab.domains import Binary, Spin
from ebmlab.testing import Rugged
from papers.several_tries import MultipleTry, Weights


class HomeCountsMore(MultipleTry):
    """x has twice its weight among the states that are drawn from y."""

    def _tried(self, *args: Any) -> Any:
        tried, there, home = super()._tried(*args)
        return tried, there, home + 0.7


def chi_square(sampler: MultipleTry, domain: Any) -> float:
    """That of the states after a step from 40,000 exact draws; 7 degrees of freedom."""
    torch.manual_seed(0)
    energy, states = Rugged(domain, "cubic"), domain.enumerate().double()
    law = (-energy(states)).softmax(0)
    start = torch.multinomial(law, 40_000, replacement=True)
    after = sampler.step(energy, sampler.init(energy, states[start]))[0].x
    counts = torch.stack([(after == x).all(1).sum() for x in states])
    return float(((counts - 4e4 * law) ** 2 / (4e4 * law)).sum())


@pytest.mark.parametrize("weights", ["importance", "balanced"])
@pytest.mark.parametrize("tries", [1, 3])
def test_a_step_leaves_the_law_invariant(tries: int, weights: Weights) -> None:
    assert chi_square(MultipleTry(0.8, tries, weights), Spin(3)) < 30
    assert chi_square(MultipleTry(0.8, tries, weights), Binary(3)) < 30


@pytest.mark.parametrize("weights", ["importance", "balanced"])
def test_a_wrong_weight_of_the_way_back_is_caught(weights: Weights) -> None:
    assert chi_square(HomeCountsMore(0.8, 3, weights), Binary(3)) > 40
