"""The contestants of the race of pseudo-likelihoods have the same objective after equally many iterations."""

from __future__ import annotations

import pytest
import torch

from benchmarks.cases.pseudo_likelihood import ours, plain
from ebmlab.energies import Potts


def test_both_lower_the_same_objective() -> None:
    torch.manual_seed(0)
    x, weights = Potts(6, 5).random(40), torch.rand(40)
    x[:, 1] = x[:, 0]
    weights /= weights.mean()
    for iterations in (1, 8):
        assert ours(x, weights, iterations) == pytest.approx(plain(x, weights, iterations), rel=1e-5)
    assert ours(x, weights, 8) < ours(x, weights, 1) - 0.1
