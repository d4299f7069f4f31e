"""SwendsenWang and Wolff: transition matrices by every set of bonds, exact starts, mutants, a lattice's phases."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers_finite import Exact, convergence_distance, invariance_p
from helpers_grbm import FAIL, PASS
from helpers_mutants import mutant
from helpers_native import replace, unchecked
from helpers_tier import cases
from torch import Tensor

from ebmlab.energies import MLP, Energy, Ising, ScalarPotts
from ebmlab.energies.pairwise import pairwise
from ebmlab.errors import UserError
from ebmlab.graphs import Edges
from ebmlab.native import cluster_steps
from ebmlab.samplers import Gibbs, SwendsenWang, Wolff
from ebmlab.samplers import swendsen_wang as module
from ebmlab.samplers.swendsen_wang import clusters
from ebmlab.testing import chi_square_p

RING = torch.tensor([[0.0, 0.9, 0.0, 0.4], [0.9, 0.0, 0.6, 0.0], [0.0, 0.6, 0.0, 0.8], [0.4, 0.0, 0.8, 0.0]])
SIGNS = torch.tensor([[0.0, 1.0, 0.0, -1.0], [1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0], [-1.0, 0.0, 1.0, 0.0]])
TARGETS: dict[str, Energy] = {
    "Ising": Ising(RING),
    "Ising in a field": Ising(RING, field=[0.3, -0.5, 0.1, 0.7]),
    "frustrated Ising": Ising(RING * SIGNS, field=0.2),
    "Potts": ScalarPotts(RING),
    "Potts in a field": ScalarPotts(RING, field=[[0.3, 0.0, -0.5], [0.0, 0.2, 0.9], [0.1, 0.1, 0.0], [-0.4, 0.3, 0.0]]),
}
KERNELS = {"Swendsen-Wang": SwendsenWang, "Wolff": Wolff}
every_kernel = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
mostly_two = cases("energy", TARGETS, fast=("Potts in a field",))


BY = ["torch", pytest.param("C++", marks=pytest.mark.skipif(cluster_steps.kernel() is None, reason="needs a compiler"))]


def leave_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    for where in (module, cluster_steps):  # mutants take theirs from the latter
        monkeypatch.setattr(where, "is_possible", lambda bonds: False)


@pytest.fixture
def by_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    leave_to_torch(monkeypatch)


@pytest.fixture(params=BY)
def both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """By torch, and by the kernel in C++."""
    if request.param == "torch":
        leave_to_torch(monkeypatch)


def parts(size: int, bonds: list[tuple[int, int]]) -> list[list[int]]:
    """The connected parts of a graph, by merging sets."""
    found = [{i} for i in range(size)]
    for a, b in bonds:
        one, other = (next(part for part in found if i in part) for i in (a, b))
        if one is not other:
            found.remove(other)
            one |= other
    return [sorted(part) for part in found]


def row(kernel: type[SwendsenWang], energy: Energy, x: Tensor, exact: Exact) -> Tensor:
    """The law of a step from one state: a sum over all sets of bonds, and over all values of their parts."""
    d, J = x.shape[0], energy.coupling.tolist()
    spins = isinstance(energy, Ising)
    values = [-1, 1] if spins else list(range(x.shape[1]))
    at = x.tolist() if spins else x.argmax(1).tolist()
    edges = [(i, j) for i in range(d) for j in range(i + 1, d) if J[i][j] != 0]
    happy = [(i, j) for i, j in edges if (at[i] * J[i][j] * at[j] > 0 if spins else at[i] == at[j])]
    chance = {(i, j): 1 - float(torch.tensor(-(2 if spins else 1) * abs(J[i][j])).exp()) for i, j in happy}
    law = torch.zeros(len(exact.states), dtype=torch.float64)
    for bonded in itertools.product([True, False], repeat=len(happy)):
        bonds = [e for e, yes in zip(happy, bonded, strict=True) if yes]
        weight = 1.0
        for e, yes in zip(happy, bonded, strict=True):
            weight *= chance[e] if yes else 1 - chance[e]
        groups = parts(d, bonds)
        if kernel is Wolff:
            for group in groups:
                for new, chance_of in turned(energy, at, group, values):
                    law[number(new, x, exact)] += weight * len(group) / d * chance_of
            continue
        laws = []
        for group in groups:
            if spins:  # the part keeps its pattern, or turns over
                pull = sum(float(energy.field[i]) * at[i] for i in group)
                laws.append(torch.tensor([-pull, pull], dtype=torch.float64).softmax(0).tolist())
            else:
                laws.append(energy.field[group].double().sum(0).softmax(0).tolist())
        for choice in itertools.product(range(len(values)), repeat=len(groups)):
            probability, new = weight, [0] * d
            for group, own, chosen in zip(groups, laws, choice, strict=True):
                probability *= own[chosen]
                for i in group:
                    new[i] = values[chosen] * (at[i] if spins else 1)
            law[number(new, x, exact)] += probability
    return law


def turned(energy: Energy, at: list[int], group: list[int], values: list[int]) -> list[tuple[list[int], float]]:
    """What Wolff's step makes of a part, with the probabilities; the field is that of a value, or of -1 and 1."""
    spins, found, stay = isinstance(energy, Ising), [], 1.0
    for other in [v for v in values if v != at[group[0]]]:
        new = [(-a if spins else other) if i in group else a for i, a in enumerate(at)]
        if spins:
            gain = sum(float(energy.field[i]) * (new[i] - at[i]) for i in group)
        else:
            field = energy.field.expand(len(at), len(values))
            gain = sum(float(field[i, new[i]] - field[i, at[i]]) for i in group)
        found.append((new, min(1.0, math.exp(gain)) / (len(values) - 1)))
        stay -= found[-1][1]
    return [*found, (at, stay)]


def number(values: list[int], like: Tensor, exact: Exact) -> Tensor:
    """The number of the state with these values, spins or classes."""
    spins = like.ndim == 1
    state = torch.tensor(values, dtype=like.dtype) if spins else torch.eye(like.shape[1], dtype=like.dtype)[values]
    return exact.number(state.unsqueeze(0))


@pytest.mark.usefixtures("both_ways")
@every_kernel
@mostly_two
def test_the_transition_matrix_leaves_the_law_invariant_and_is_what_chains_do(
    energy: Energy, kernel: type[SwendsenWang]
) -> None:
    exact = Exact(energy)
    matrix = torch.stack([row(kernel, energy, x, exact) for x in exact.states])
    assert torch.allclose(matrix.sum(1), torch.ones(len(matrix), dtype=torch.float64))
    assert torch.allclose(exact.probabilities @ matrix, exact.probabilities, atol=1e-6)
    torch.manual_seed(0)
    for k in (0, len(matrix) // 3):
        x = exact.states[k].expand(100_000, *exact.states.shape[1:]).clone()
        y, info = kernel().sample(energy, x, 1)
        assert chi_square_p(torch.bincount(exact.number(y), minlength=len(matrix)), matrix[k]) > PASS
        assert torch.equal(info.hops, energy.domain.hops(y, x))
        assert bool((info.acceptance == 1).all()) or (kernel is Wolff and energy.field.any())


@pytest.mark.usefixtures("both_ways")
@every_kernel
@mostly_two
def test_exact_draws_stay_exact_and_chains_converge(energy: Energy, kernel: type[SwendsenWang]) -> None:
    assert invariance_p(kernel(), energy, num_steps=2) > PASS
    assert convergence_distance(kernel(), energy, num_steps=30) < 0.04


MUTANTS = {
    "too few bonds": ("-torch.expm1(-rise)", "-torch.expm1(-rise / 2)"),
    "bonds on edges that are not satisfied": (
        "coupling * alike + (coupling.abs()",
        "coupling.abs() * alike.abs() + (coupling.abs()",
    ),
    "no field": ("x * (2 * bernoulli(logits) - 1)[label]", "x * (2 * bernoulli(0 * logits) - 1)[label]"),
    "sites on their own": ("[label].view_as(x)", ".view_as(x)"),
}


@pytest.mark.usefixtures("by_torch")
@pytest.mark.parametrize(("old", "new"), MUTANTS.values(), ids=MUTANTS)
def test_mutants_are_caught(old: str, new: str) -> None:
    assert invariance_p(mutant(SwendsenWang, old, new)(), TARGETS["Ising in a field"]) < FAIL


WOLFF_MUTANTS = {
    "no field": ("(model.field.to(x.dtype) * (y - x))", "(0 * (y - x))"),
    "half the field": ("(model.field.to(x.dtype) * (y - x))", "(model.field.to(x.dtype) * (y - x) / 2)"),
    "one site in place of its cluster": (
        "label == label.gather(1, site)",
        "torch.arange(x.shape[1]).expand_as(label) == site",
    ),
    "one decision for all chains": ("Merge(accepted)", "Merge(accepted[:1].expand_as(accepted))"),
}


@pytest.mark.usefixtures("by_torch")
@cases(("old", "new"), WOLFF_MUTANTS, fast=("half the field",))
@cases("target", ["Ising in a field", "Potts in a field"], fast=[0])
def test_mutants_of_wolff_are_caught(old: str, new: str, target: str) -> None:
    """After several steps: if the one decision for all chains is to stay, a single step changes nothing."""
    assert invariance_p(mutant(Wolff, old, new)(), TARGETS[target], num_steps=8) < FAIL


def test_clusters_are_connected_parts() -> None:
    generator = torch.Generator().manual_seed(0)
    for size, count in [(1, 0), (7, 3), (40, 30), (200, 210)]:
        a, b = torch.randint(size, (2, count), generator=generator)
        expected = torch.empty(size, dtype=torch.int64)
        for part in parts(size, list(zip(a.tolist(), b.tolist(), strict=True))):
            expected[part] = part[0]
        assert torch.equal(clusters(size, a, b), expected)
    n = 1000  # a path, the worst case of labels that spread from neighbour to neighbour
    order = torch.randperm(n, generator=generator)
    assert not clusters(n, order[:-1], order[1:]).any()


@pytest.mark.usefixtures("both_ways")
def test_below_the_critical_temperature_it_turns_over_where_gibbs_does_not() -> None:
    energy, up = Ising.lattice(8, 0.6), torch.ones(200, 64)
    torch.manual_seed(0)
    stuck, _ = Gibbs().sample(energy, up, 10)
    assert (stuck.mean(1) > 0).all()
    free, _ = SwendsenWang().sample(energy, up, 10)
    assert 60 < (free.mean(1) > 0).sum() < 140
    turned_over, _ = Wolff().sample(energy, up, 1)
    assert (turned_over.mean(1) < 0).sum() > 140  # most sites lie in the one large cluster


@pytest.mark.usefixtures("both_ways")
def test_large_sparse_lattices_and_learnt_couplings() -> None:
    energy = Ising.lattice(30, 0.3)
    assert energy.sparse
    x, _ = SwendsenWang().sample(energy, energy.random(3), 2)
    energy.domain.validate(x)
    learnt = Ising.learnable(5)
    x, info = SwendsenWang().sample(learnt, learnt.random(50), 2)
    assert 0.2 < info.hops.mean() / 5 < 0.8  # no coupling, no bond


@pytest.mark.usefixtures("both_ways")
def test_nan_stays_visible() -> None:
    energy = Ising.learnable(4)
    with torch.no_grad():
        energy.field[1] = torch.nan
    x = energy.random(5)
    last, info = SwendsenWang().sample(energy, x, 2)
    assert info.acceptance.isnan().all() and torch.equal(last, x)


def test_wrong_energies() -> None:
    with pytest.raises(UserError, match="needs an Ising or Potts model, MLP is neither"):
        SwendsenWang().sample(MLP(4), torch.zeros(2, 4), 1)
    with pytest.raises(UserError, match="couplings of at least 0"):
        SwendsenWang().sample(ScalarPotts(-RING), ScalarPotts(RING).random(2), 1)


@pytest.mark.usefixtures("both_ways")
@every_kernel
def test_sites_of_a_single_class_stay_as_they_are(kernel: type[SwendsenWang]) -> None:
    energy = ScalarPotts([[0.0, 1.0], [1.0, 0.0]], num_values=1)
    x = energy.random(3)
    assert torch.equal(kernel().last_states(energy, x, 2), x)


CPP_MUTANTS = {
    "bonds half as likely": ("odds * 0x1p32, ", "odds * 0x1p31, "),
    "bonds on edges that are not satisfied": ("(x[i] != x[j]) != differ", "false"),
    "spins that differ are never bonded": ("(x[i] != x[j]) != differ", "x[i] != x[j]"),
    "clusters of one site": ("cluster[size++] = j;", ""),
    "no field": ("pull[a] += m.fields", "pull[a] += 0 * m.fields"),
    "the field of the first site": ("m.fields[cluster[n] * m.values", "m.fields[cluster[0] * m.values"),
    "the field of other values": ("m.spins ? a ^ first ^ x[cluster[n]] : a", "m.spins ? a : a"),
    "every change of one cluster is made": ("numbers.uniform() < accepted", "true"),
    "one stream for all chains": ("Numbers(seed, b)", "Numbers(seed, 0)"),
}


@pytest.mark.skipif(cluster_steps.kernel() is None, reason="needs a compiler")
@cases("name", {name: name for name in CPP_MUTANTS}, fast=["bonds half as likely", "the field of other values"])
def test_mutants_of_the_kernel_are_caught(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    right = cluster_steps.kernel()
    replace(*CPP_MUTANTS[name], tmp_path, monkeypatch)
    library = unchecked("cluster_steps", right)
    monkeypatch.setattr(cluster_steps, "kernel", lambda: library)
    torch.manual_seed(0)
    least = 1.0
    spins, classes = Ising(RING * SIGNS, field=[0.9, -0.7, 0.1, 0.5]), TARGETS["Potts in a field"]
    starts = {spins: torch.tensor([[1.0, 1, 1, -1]]), classes: torch.eye(3)[torch.tensor([[0, 0, 1, 0]])]}
    for kernel, (energy, x) in itertools.product((SwendsenWang, Wolff), starts.items()):
        exact = Exact(energy)
        y = kernel().last_states(energy, x.expand(20_000, *x.shape[1:]), 1)
        law = row(kernel, energy, x[0], exact)
        numbers = exact.number(y)
        least = min(least, chi_square_p(torch.bincount(numbers, minlength=len(law)), law))
        pairs = torch.bincount(len(law) * numbers[::2] + numbers[1::2], minlength=len(law) ** 2)
        least = min(least, chi_square_p(pairs, torch.outer(law, law).flatten()))
    assert least < FAIL


@pytest.mark.skipif(cluster_steps.kernel() is None, reason="needs a compiler")
@every_kernel
def test_the_number_of_threads_changes_no_bit_and_chains_may_come_in_parts(
    kernel: type[SwendsenWang], monkeypatch: pytest.MonkeyPatch
) -> None:
    energy, found, before = Ising.lattice(12, 0.44, field=0.1), [], torch.get_num_threads()
    x = energy.random(50)
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            torch.manual_seed(1)
            found.append(kernel().sample(energy, x, 5))
    finally:
        torch.set_num_threads(before)
    (one, info), (other, same) = found
    assert torch.equal(one, other) and torch.equal(info.hops, same.hops) and info.hops.min() > 0
    monkeypatch.setattr(cluster_steps, "BURST", 3000)  # a few chains a call
    last, info = kernel().sample(energy, x, 1)
    assert torch.equal(info.hops, (last != x).sum(1).float()) and len(last) == 50
    assert last.dtype == x.dtype and info.evaluations == 1
    monkeypatch.setattr(cluster_steps, "BURST", 1)
    assert kernel().sample(energy, x[:2], 7)[1].acceptance.min() > 0.2


@pytest.mark.skipif(cluster_steps.kernel() is None, reason="needs a compiler")
def test_a_subclass_goes_its_own_way() -> None:
    class Still(SwendsenWang):
        def _redrawn(self, model: Any, x: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
            return x, x.new_ones(len(x))

    x = TARGETS["Ising"].random(20)
    assert torch.equal(Still().last_states(TARGETS["Ising"], x, 3), x)
    assert not torch.equal(SwendsenWang().last_states(TARGETS["Ising"], x, 3), x)


@pytest.mark.usefixtures("both_ways")
def test_neighbours_that_do_not_exist_are_an_error() -> None:
    """Such as those of a stranger's file; nothing beyond the states is read."""
    energy = Ising.lattice(20, 0.4)
    for wrong in (400, 2**40):
        energy.neighbours.sites[7] = wrong
        with pytest.raises((IndexError, RuntimeError)):
            SwendsenWang().last_states(energy, energy.domain.random(2), 1)


@pytest.mark.usefixtures("both_ways")
def test_couplings_that_share_a_number_are_read_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each edge the first number of a longer list: all spins are bonded."""
    monkeypatch.setattr(pairwise, "SPARSE", 2.0)
    edges = Ising(RING).edges()
    numbers = torch.tensor([40.0] + [0.0] * len(edges.values))
    energy = Ising(Edges(4, edges.rows, edges.columns, numbers[:1].expand(len(edges.values))))
    last = SwendsenWang().last_states(energy, torch.ones(50, 4), 5)
    assert bool((last.sum(1).abs() == 4).all())
