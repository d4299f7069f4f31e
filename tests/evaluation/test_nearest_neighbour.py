"""Nearest-neighbour adversarial accuracy: by a double loop, its mean under one law by enumeration, its limits."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest
import torch
from torch import Tensor

from ebmlab.domains import Binary, Real
from ebmlab.errors import UserError
from ebmlab.evaluation import adversarial_accuracy, nearest_neighbour


def naive(own: Tensor, other: Tensor) -> float:
    total = Fraction(0)
    for i, state in enumerate(own):
        others = [(x, True) for j, x in enumerate(own) if j != i] + [(x, False) for x in other]
        distances = [int((state != x).sum()) for x, _ in others]
        nearest = [mine for d, (_, mine) in zip(distances, others, strict=True) if d == min(distances)]
        total += Fraction(sum(nearest), len(nearest))
    return float(total / len(own))


@pytest.mark.parametrize("chunk", [2, 500])
def test_agrees_with_a_double_loop(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearest_neighbour, "CHUNK", chunk)
    torch.manual_seed(0)
    x, y = Binary((2, 3)).random(9), Binary((2, 3)).random(9)
    found = adversarial_accuracy(x, y)
    assert found.data == pytest.approx(naive(x, y)) and found.samples == pytest.approx(naive(y, x))
    assert found.mean == pytest.approx((naive(x, y) + naive(y, x)) / 2) and found.data != found.samples


def test_the_mean_under_one_law_by_enumeration() -> None:
    """All draws of 2 data and 2 samples from a law on two bits, with ties: (n - 1) / (2 n - 1) = 1/3."""
    states, p = Binary(2).enumerate(), [0.4, 0.3, 0.2, 0.1]
    mean = 0.0
    for draw in itertools.product(range(4), repeat=4):
        x = states[list(draw)]
        mean += p[draw[0]] * p[draw[1]] * p[draw[2]] * p[draw[3]] * adversarial_accuracy(x[:2], x[2:]).data
    assert mean == pytest.approx(1 / 3)


def test_limits() -> None:
    torch.manual_seed(0)
    x = Real(5).random(300)
    same = adversarial_accuracy(x, Real(5).random(300))
    assert same.mean == pytest.approx(299 / 599, abs=0.08)
    assert adversarial_accuracy(x, x).mean == 0
    assert adversarial_accuracy(x, x + 100).mean == 1
    collapsed = adversarial_accuracy(x, x[:1] + 1e-3 * Real(5).random(300))  # all samples at one datum
    assert collapsed.data > 0.9 and collapsed.samples > 0.9


def test_what_the_two_shares_tell() -> None:
    torch.manual_seed(0)
    for modes, share in ((2, 0.67), (10, 0.91)):  # the samples lie in one of them
        centres, kind = 20 * Real(8).random(modes), torch.arange(500) % modes
        found = adversarial_accuracy(centres[kind] + Real(8).random(500), centres[0] + Real(8).random(500))
        assert found.data == pytest.approx(share, abs=0.05) and found.samples == pytest.approx(share, abs=0.05)
    x = Real(64).random(500)
    wide, narrow = adversarial_accuracy(x, 2 * Real(64).random(500)), adversarial_accuracy(x, Real(64).random(500) / 2)
    assert wide.data > 0.95 and wide.samples < 0.05 and narrow.data < 0.05 and narrow.samples > 0.95
    assert wide.mean == pytest.approx(0.5, abs=0.03) and wide.larger == wide.data and narrow.larger == narrow.samples


def test_numbers_far_from_0_keep_their_digits() -> None:
    torch.manual_seed(0)
    x, y = torch.randn(300, 2).double(), torch.randn(300, 2).double() + 3
    found = adversarial_accuracy(x, y)
    assert found.mean > 0.9 and adversarial_accuracy(x + 2**30, y + 2**30) == found
    whole = (x * 1000).long(), (y * 1000).long()
    assert adversarial_accuracy(whole[0] + 2**40, whole[1] + 2**40) == adversarial_accuracy(*whole)
    half = x.half(), y.half()  # the CPU has no distances of them
    assert adversarial_accuracy(*half) == adversarial_accuracy(half[0].float(), half[1].float())


def test_errors() -> None:
    with pytest.raises(UserError, match=r"2 or more states, got \(1, 3\) and \(1, 3\)"):
        adversarial_accuracy(torch.zeros(1, 3), torch.zeros(1, 3))
    with pytest.raises(UserError, match=r"got \(4, 3\) and \(5, 3\)"):
        adversarial_accuracy(torch.zeros(4, 3), torch.zeros(5, 3))
