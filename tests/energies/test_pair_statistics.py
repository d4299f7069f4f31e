"""Statistics of pairs against loops, weights against repeated states, and the sums that Potts models learn from."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from helpers_mutants import mutant
from torch import Tensor

from ebmlab.domains import Categorical, Spin
from ebmlab.energies import GRBM, RBM, CategoricalRBM, Energy, Potts
from ebmlab.energies.pairwise import half_matrix, statistics
from ebmlab.energies.pairwise.statistics import PottsSum, connected, moments
from ebmlab.energies.weighted_sum import WeightedSum

N, D, Q = 7, 5, 4


def data(domain: Any = None) -> tuple[Tensor, Tensor]:
    """States, and weights that are whole numbers."""
    x = (domain or Categorical(D, Q)).random(N).double()
    return x, torch.tensor([1.0, 3.0, 0.0, 2.0, 1.0, 1.0, 4.0]).double()


@pytest.mark.parametrize("pseudo_count", [0.0, 0.3])
def test_moments_are_weighted_means_by_loops(pseudo_count: float) -> None:
    x, weights = data()
    one, two = moments(x, weights, pseudo_count)
    digits, w = x.argmax(-1).tolist(), (weights / weights.sum()).tolist()
    for i, a in itertools.product(range(D), range(Q)):
        f = sum(w[n] for n in range(N) if digits[n][i] == a)
        assert one[i * Q + a].item() == pytest.approx((1 - pseudo_count) * f + pseudo_count / Q)
        for j, b in itertools.product(range(D), range(Q)):
            f = sum(w[n] for n in range(N) if digits[n][i] == a and digits[n][j] == b)
            uniform = 1 / Q**2 if i != j else (a == b) / Q
            assert two[i * Q + a, j * Q + b].item() == pytest.approx((1 - pseudo_count) * f + pseudo_count * uniform)


def test_moments_of_spins_are_means_and_products() -> None:
    x, weights = data(Spin(D))
    one, two = moments(x, weights, 0.25)
    w = weights / weights.sum()
    torch.testing.assert_close(one, 0.75 * (w @ x))
    torch.testing.assert_close(two, 0.75 * (x.T * w) @ x + 0.25 * torch.eye(D).double())


def test_connected_statistics_are_covariances() -> None:
    x, weights = data()
    copies = x.repeat_interleave(weights.long(), 0).flatten(1)
    covariance = torch.cov(copies.T, correction=0).view(D, Q, D, Q)
    expected = [
        covariance[i, a, j, b] for i, j in itertools.combinations(range(D), 2) for a in range(Q) for b in range(Q)
    ]
    torch.testing.assert_close(connected(x, weights), torch.stack(expected))


def filled(energy: Energy) -> Energy:
    for p in energy.double().parameters():
        torch.nn.init.normal_(p)
    return energy


ENERGIES = {
    "Potts": lambda: Potts(D, Q),
    "Potts, some pairs": lambda: Potts(D, Q, pairs=[[3, 0], [1, 2]]),
    "Potts, no pairs": lambda: Potts(D, Q, pairs=[]),
    "CategoricalRBM": lambda: CategoricalRBM(D, Q, num_hidden=3),
    "RBM": lambda: RBM(D, 3),
    "GRBM": lambda: GRBM(D, 3),
    "GRBM, rectified": lambda: GRBM(D, 3, hidden="rectified"),
}


@pytest.mark.parametrize("make", ENERGIES.values(), ids=ENERGIES)
def test_weights_count_states_that_often(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Value and gradient are those of the energies of states that are repeated, by autograd."""
    monkeypatch.setattr(half_matrix, "ROWS", 6)
    monkeypatch.setattr(statistics, "AT_ONCE", 2)
    energy = filled(make())
    x, weights = data(energy.domain)
    copies = x.repeat_interleave(weights.long(), 0)
    closed, general = energy.weighted_sum(), WeightedSum(energy)
    for rows in (slice(0, 3), slice(3, N)):
        closed.add(x[rows], weight=weights[rows])
        general.add(x[rows], weight=weights[rows])
    closed.add(x[:2], weight=-0.5)
    general.add(x[:2], weight=-0.5)
    expected = energy(copies).sum() - 0.5 * energy(x[:2]).sum()
    exact = torch.autograd.grad(expected, list(energy.parameters()))
    totals = [closed.value(), general.value()]
    bipartite = hasattr(energy, "joint_energy")  # its sum is that of E(v, h) at the mean of h, with the same gradient
    for total in totals[bipartite:]:
        torch.testing.assert_close(torch.as_tensor(total), expected)
    for total in totals:
        for ours, theirs in zip(torch.autograd.grad(total, list(energy.parameters())), exact, strict=True):
            torch.testing.assert_close(ours, theirs)


def test_a_sum_that_drops_its_weights_is_found() -> None:
    energy = filled(Potts(D, Q, pairs=[[3, 0]]))
    x, weights = data(energy.domain)
    wrong = mutant(PottsSum, "two += weighted[pairs[:, 0]].mT", "two += each[pairs[:, 0]].mT")
    total = wrong(energy, energy.pairs, energy.coupling, energy.field, False)
    total.add(x, weight=weights)
    assert not torch.allclose(total.value(), (weights * energy(x)).sum())


def test_another_forward_is_summed_as_it_is() -> None:
    class Doubled(Potts):
        def forward(self, x: Tensor) -> Tensor:
            return 2 * super().forward(x)

    energy = filled(Doubled(D, Q))
    x, weights = data(energy.domain)
    total = energy.weighted_sum()
    total.add(x, weight=weights)
    torch.testing.assert_close(total.value(), (weights * energy(x)).sum())
