"""Contact scores against a NumPy program that shares no code, and precision against hand counts."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from ebmlab.energies import CategoricalRBM, Potts
from ebmlab.errors import UserError
from ebmlab.evaluation.contacts import ContactPrediction, contact_prediction, contact_scores, pair_couplings
from ebmlab.sequences import Placement, Residue


def potts(sites: int = 6, values: int = 5) -> Potts:
    """Asymmetric random couplings with means that are not zero, and fields."""
    generator = torch.Generator().manual_seed(0)
    energy = Potts(sites, values).double()
    with torch.no_grad():
        energy.coupling.copy_(torch.randn(energy.coupling.shape, generator=generator).exp() - 1)
        energy.field.copy_(torch.randn(energy.field.shape, generator=generator))
    return energy


def by_loops(energy: Potts, gap: int | None) -> NDArray[np.float64]:
    """Frobenius norms in the zero-sum gauge without the gap, minus the average product, loop by loop."""
    (d, q), pairs = energy.field.shape, energy.pairs.tolist()
    norm = np.zeros((d, d))
    for (i, j), block in zip(pairs, energy.coupling.detach().numpy(), strict=True):
        total = 0.0
        for a, b in itertools.product(range(q), repeat=2):
            if gap in (a, b):
                continue
            over_a = sum(block[c][b] for c in range(q)) / q
            over_b = sum(block[a][c] for c in range(q)) / q
            over_both = sum(block[c][e] for c in range(q) for e in range(q)) / q**2
            total += (block[a][b] - over_a - over_b + over_both) ** 2
        norm[i, j] = norm[j, i] = np.sqrt(total)
    score = np.zeros((d, d))
    everything = sum(norm[i, j] for i in range(d) for j in range(d) if i != j) / (d * (d - 1))
    for i, j in itertools.permutations(range(d), 2):
        mine = sum(norm[i, k] for k in range(d) if k != i) / (d - 1)
        its = sum(norm[j, k] for k in range(d) if k != j) / (d - 1)
        score[i, j] = norm[i, j] - mine * its / everything
    return score


@pytest.mark.parametrize("gap", [0, 4, None])
def test_scores_are_those_of_loops(gap: int | None) -> None:
    energy = potts()
    np.testing.assert_allclose(contact_scores(energy, gap).numpy(), by_loops(energy, gap), atol=1e-12)


def test_scores_do_not_depend_on_the_gauge() -> None:
    energy = potts()
    scores = contact_scores(energy)
    torch.testing.assert_close(contact_scores(energy.lattice_gas_(reference=2)), scores)
    torch.testing.assert_close(contact_scores(energy.zero_sum_()), scores)


def test_couplings_by_second_differences_are_those_of_a_potts_model_anywhere() -> None:
    energy = potts()
    torch.testing.assert_close(pair_couplings(energy, energy.random(3)), pair_couplings(energy))


def test_couplings_of_an_rbm_are_second_differences_written_out() -> None:
    torch.manual_seed(0)
    energy = CategoricalRBM(4, 3, num_hidden=2).double()
    with torch.no_grad():
        energy.W.mul_(200)
    x = energy.random(2)
    found = pair_couplings(energy, x)
    i, j = 1, 3
    table = torch.zeros(3, 3, dtype=torch.float64)
    for a, b in itertools.product(range(3), repeat=2):
        for state in x:
            there = state.clone()
            there[i], there[j] = torch.eye(3)[a], torch.eye(3)[b]
            table[a, b] -= energy(there.unsqueeze(0)).item() / len(x)
    table = table - table.mean(0, keepdim=True) - table.mean(1, keepdim=True) + table.mean()
    torch.testing.assert_close(found[i, j], table)
    torch.testing.assert_close(found[j, i], table.T)
    assert found[i, i].abs().max() == 0 and table.abs().max() > 0.1
    with pytest.raises(UserError, match="the couplings of CategoricalRBM depend on the state: give states `around`"):
        contact_scores(energy)


def test_precision_counts_pairs_that_have_residues_and_are_apart() -> None:
    """Sites 0 to 5; site 2 has no residue, and an insert of ten residues stands between the sites 3 and 4."""
    positions = torch.tensor([0, 1, -1, 3, 14, 15])
    scores = torch.zeros(6, 6, dtype=torch.float64)
    apart = torch.full((6, 6), 20.0, dtype=torch.float64)
    for k, (i, j, distance) in enumerate(
        [(0, 2, 1.0), (0, 1, 1.0), (0, 4, 5.0), (0, 3, 9.0), (1, 5, 8.0), (3, 4, 7.9), (1, 4, 3.0)]
    ):
        scores[i, j] = scores[j, i] = 10.0 - k
        apart[i, j] = apart[j, i] = distance
    apart[2] = apart[:, 2] = float("nan")
    found = ContactPrediction(scores, apart, positions=positions, threshold=8.0, min_separation=3)
    assert found.ranked()[:5].tolist() == [[0, 4], [0, 3], [1, 5], [3, 4], [1, 4]]
    assert found.curve()[:5].tolist() == pytest.approx([1, 1 / 2, 1 / 3, 2 / 4, 3 / 5])
    assert found.precision(2) == 0.5 and found.precision(2, min_separation=11) == 0.5
    assert found.precision(1000) == found.summary()["precision_at_random"] == 3 / len(found.ranked())
    assert np.isnan(found.precision(1, min_separation=100))
    assert found.summary()["precision_l2"] == found.precision(3)


def test_distances_are_those_of_the_residues_that_were_placed() -> None:
    places = np.array([[0.0, 0, 0], [3.0, 0, 0], [50.0, 0, 0]])
    residues = [Residue("A", str(k), heavy=place[None], beta=place) for k, place in enumerate(places)]
    placement = Placement(torch.tensor([2, -1, 0]), torch.tensor([7, -1, 0]), name="a", identity=1.0)
    found = contact_prediction(torch.eye(3), residues, placement=placement)
    assert found.distances[0, 2] == 50 and found.distances[1].isnan().all()
    with pytest.raises(UserError, match=r"scores have the shape \(4, 4\), but the alignment has 3 sites"):
        contact_prediction(torch.eye(4), residues, placement=placement)
