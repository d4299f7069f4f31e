"""Potts models with general couplings: against loops over the pairs, in both gauges, and learnt from data."""

from __future__ import annotations

import copy
import itertools
import pickle

import pytest
import torch
from helpers_family import drawn_potts
from torch import Tensor

from ebmlab.energies import Potts, ScalarPotts
from ebmlab.errors import UserError
from ebmlab.evaluation import exact_log_z
from ebmlab.io.rebuilding import describe, rebuild

D, Q = 4, 3
SOME = [[2, 0], [1, 3]]


def model(pairs: list[list[int]] | None = None, d: int = D) -> Potts:
    return drawn_potts(d, Q, pairs, seed=1)


def by_loops(energy: Potts, states: Tensor) -> Tensor:
    """E by its definition; states in index form, `(B, d)`."""
    values = []
    for state in states.tolist():
        e = -sum(energy.field.tolist()[i][a] for i, a in enumerate(state))
        for (i, j), block in zip(energy.pairs.tolist(), energy.coupling.tolist(), strict=True):
            assert i < j
            e -= block[state[i]][state[j]]
        values.append(e)
    return torch.tensor(values, dtype=torch.float64)


def every_state(energy: Potts) -> Tensor:
    return torch.tensor(list(itertools.product(range(Q), repeat=len(energy.field))))


@pytest.mark.parametrize("pairs", [None, SOME], ids=["dense", "sparse"])
def test_the_energy_is_its_definition(pairs: list[list[int]] | None) -> None:
    energy = model(pairs)
    states = every_state(energy)
    expected = by_loops(energy, states)
    x = energy.domain.from_index(states).double()
    assert torch.allclose(energy(x), expected)
    assert torch.allclose(energy.value_and_grad(x)[0], expected)
    assert torch.allclose(exact_log_z(energy), (-expected).logsumexp(0))


@pytest.mark.parametrize("pairs", [None, SOME], ids=["dense", "sparse"])
@pytest.mark.parametrize("index", [None, torch.tensor([[2, 0]]).expand(81, -1), torch.randint(D, (81, 2))])
def test_differences_are_those_of_the_energies(pairs: list[list[int]] | None, index: Tensor | None) -> None:
    energy = model(pairs)
    states = every_state(energy)
    found = energy.value_differences(energy.domain.from_index(states).double(), index)
    sites = torch.arange(D).expand(len(states), D) if index is None else index
    for k, value in itertools.product(range(sites.shape[1]), range(Q)):
        changed = states.scatter(1, sites[:, [k]], value)
        assert torch.allclose(found[:, k, value], by_loops(energy, changed) - by_loops(energy, states))


@pytest.mark.parametrize("pairs", [None, SOME], ids=["dense", "sparse"])
@pytest.mark.parametrize("gauge", ["zero_sum_", "lattice_gas_"])
def test_a_gauge_changes_no_law(pairs: list[list[int]] | None, gauge: str) -> None:
    energy = model(pairs)
    x = energy.domain.from_index(every_state(energy)).double()
    before = (-energy(x)).log_softmax(0)
    assert getattr(energy, gauge)() is energy
    assert torch.allclose((-energy(x)).log_softmax(0), before)
    if gauge == "zero_sum_":
        sums = [energy.coupling.sum(1), energy.coupling.sum(2), energy.field.sum(1)]
    else:
        sums = [energy.coupling[:, 0], energy.coupling[:, :, 0], energy.field[:, 0]]
    assert all(part.abs().max() < 1e-12 for part in sums)
    assert not torch.allclose(energy.coupling, model(pairs).coupling)


def test_a_lattice_gas_has_any_value_as_its_reference() -> None:
    with pytest.raises(UserError, match="reference is 9, but must be a value from 0 to"):
        model().lattice_gas_(reference=9)
    energy = model().lattice_gas_(reference=2)
    assert not energy.coupling[:, 2].any() and not energy.coupling[:, :, 2].any() and not energy.field[:, 2].any()


def test_numbers_of_all_ordered_pairs_come_in_and_go_out() -> None:
    energy = model()
    again = Potts.of(energy.couplings(), energy.field)
    x = energy.domain.from_index(every_state(energy)).double()
    assert torch.allclose(again.double()(x), energy(x), atol=1e-6)
    i, j = 3, 1  # only one order is given, the larger site first
    coupling = torch.zeros(D, D, Q, Q)
    coupling[i, j, 0, 2] = 1.5
    one = Potts.of(coupling, torch.zeros(D, Q))
    assert one.pairs.tolist() == [[1, 3]] and one.coupling[0, 2, 0].item() == 1.5
    assert torch.equal(one.couplings()[j, i], coupling[i, j].T)


def test_the_gradient_of_the_likelihood_is_that_of_the_enumerated_one() -> None:
    """From exact negatives, contrastive divergence follows f_i(a) and f_ij(a, b) of data minus those of the law."""
    energy = model()
    states = energy.domain.from_index(every_state(energy)).double()
    data = states[torch.tensor([0, 5, 5, 60])]
    likelihood = -energy(data).mean() - (-energy(states)).logsumexp(0)
    expected = torch.autograd.grad(likelihood, [energy.coupling, energy.field])
    law = (-energy(states)).softmax(0).detach()
    total = energy.weighted_sum()
    total.add(data, weight=1 / len(data))
    for state, weight in zip(states, law.tolist(), strict=True):
        total.add(state.unsqueeze(0), weight=-weight)
    found = torch.autograd.grad(-total.value(), [energy.coupling, energy.field])
    for ours, exact in zip(found, expected, strict=True):
        assert torch.allclose(ours, exact, atol=1e-10)


def test_couplings_that_change_are_noticed_without_gradients() -> None:
    energy = model()
    x = energy.domain.from_index(every_state(energy)).double()
    with torch.no_grad():
        energy(x)
        energy.coupling[0, 1, 2] += 1.0
        assert torch.allclose(energy(x), by_loops(energy, every_state(energy)))
        energy.coupling.data[1] = 0.25
        assert torch.allclose(energy(x), by_loops(energy, every_state(energy)))


def test_it_is_copied_and_pickled_without_what_it_keeps() -> None:
    energy = model()
    with torch.no_grad():
        energy(energy.domain.random(2).double())
    for other in (copy.deepcopy(energy), pickle.loads(pickle.dumps(energy))):
        assert torch.equal(other.coupling, energy.coupling) and not other._kept


def test_it_is_described_and_built_again() -> None:
    energy = model(SOME)
    again = rebuild(describe(energy)).double()
    again.load_state_dict(energy.state_dict())
    x = energy.domain.from_index(every_state(energy)).double()
    assert torch.equal(again(x), energy(x)) and again.pairs.tolist() == [[0, 2], [1, 3]]


def test_constructors_of_one_coupling_a_pair_stay() -> None:
    assert isinstance(Potts.lattice(2, 3, coupling=0.4), ScalarPotts)
    assert Potts.scalar([[0.0, 1.0], [1.0, 0.0]], num_values=3).domain.num_values == 3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Potts(0, 3), "num_coordinates is 0"),
        (lambda: Potts(3, 0), "num_values is 0"),
        (lambda: Potts(3, 2, pairs=[[0, 3]]), "two different sites from 0 to 2"),
        (lambda: Potts(3, 2, pairs=[[1, 1]]), "two different sites"),
        (lambda: Potts(3, 2, pairs=[[0, 1], [1, 0]]), "1 of the pairs are given twice"),
        (lambda: Potts(3, 2, pairs=[[0.5, 1.0]]), "whole numbers"),
        (lambda: Potts.of(torch.zeros(2, 2, 3, 3), torch.zeros(2, 4)), r"\(d, q\) and \(d, d, q, q\)"),
        (lambda: Potts.of(torch.ones(2, 2, 3, 3), torch.zeros(2, 3)), "J_ii = 0"),
        (lambda: Potts.of(torch.full((2, 2, 3, 3), torch.nan), torch.zeros(2, 3)), "must be finite"),
    ],
)
def test_what_is_no_model_is_refused(make: object, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make()  # type: ignore[operator]
