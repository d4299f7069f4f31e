"""The race of sequence weights: its contestants have the same ones."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from benchmarks import packages
from benchmarks.cases.sequences import plain_weights, relatives
from ebmlab.sequences import sequence_weights


def test_contestants_have_the_same_weights() -> None:
    values = relatives(200)
    found = sequence_weights(values)
    assert len(found.unique()) > 20 and float(found.min()) < 0.05
    torch.testing.assert_close(plain_weights(values).double(), found)


def test_adabmdca_has_these_weights() -> None:
    pytest.importorskip("adabmDCA")
    values = relatives(200)
    found: Any = packages.adabmdca_weights(values)()
    torch.testing.assert_close(found.double(), sequence_weights(values), rtol=1e-6, atol=0)
