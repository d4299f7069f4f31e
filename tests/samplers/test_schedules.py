"""Step-size schedules."""

from __future__ import annotations

import math

import pytest
import torch

from ebmlab.errors import UserError
from ebmlab.samplers import Constant, Cosine
from ebmlab.samplers.schedules import cosine_factors


def test_cosine_values() -> None:
    """Eq. 22 at k = 0, ..., K - 1: starts at 1, never reaches 0."""
    assert [Cosine().factor(k, 4) for k in range(4)] == pytest.approx(
        [1.0, 0.5 + 0.5**0.5 / 2, 0.5, 0.5 - 0.5**0.5 / 2]
    )
    for num_steps in (1, 2, 10, 100):
        expected = torch.tensor([0.5 * (1 + math.cos(math.pi * k / num_steps)) for k in range(num_steps)])
        torch.testing.assert_close(cosine_factors(num_steps), expected)
        assert expected[0] == 1 and expected[-1] > 0


def test_cosine_stays_at_its_last_value_beyond_its_length() -> None:
    assert Cosine().factor(25, 10) == Cosine().factor(9, 10) > 0


def test_cosine_needs_a_length() -> None:
    with pytest.raises(UserError, match="needs its length"):
        Cosine().factor(0, None)


def test_constant() -> None:
    assert Constant().factor(3, None) == Constant().factor(0, 5) == 1.0
