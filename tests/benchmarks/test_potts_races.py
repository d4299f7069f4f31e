"""The races of Potts models: contestants have the same energies and statistics."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from benchmarks import packages
from benchmarks.cases import potts
from ebmlab.energies.pairwise.statistics import moments

SITES, VALUES = 20, 7


def test_contestants_have_the_same_energies() -> None:
    energy = potts.family(SITES, VALUES).requires_grad_(False)
    x = energy.random(30)
    matrix, right = energy.couplings().transpose(1, 2).reshape(SITES * VALUES, -1), energy(x)
    torch.testing.assert_close(potts.plain_energy(matrix, energy.field.flatten(), x), right, atol=1e-4, rtol=1e-5)
    pytest.importorskip("adabmDCA")
    peer: Any = packages.adabmdca_energy(energy, x)()
    torch.testing.assert_close(peer, right, atol=1e-4, rtol=1e-5)


def test_contestants_have_the_same_statistics() -> None:
    x, weights = potts.family(SITES, VALUES).random(30), torch.rand(30)
    weights /= weights.sum()
    right = moments(x, weights)[1]
    torch.testing.assert_close(potts.plain_statistics(weights, x), right, atol=1e-6, rtol=1e-5)
    pytest.importorskip("adabmDCA")
    peer: Any = packages.adabmdca_statistics(x, weights)()
    torch.testing.assert_close(peer.view_as(right), right, atol=1e-6, rtol=1e-5)
