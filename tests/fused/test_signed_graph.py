"""Signed graphs with 32 chains in a word: exact laws, where all is certain, mutants, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch
from helpers_fused import DEVICE, HERE, mutated, p_value
from torch import Tensor

from ebmlab.energies import Ising
from ebmlab.errors import UserError
from ebmlab.fused import SignedGraph
from ebmlab.graphs import Edges
from ebmlab.samplers import ChromaticGibbs

PASS, FAIL, CHAINS = 1e-3, 1e-6, 3200
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered in exp")  # NumPy's, where a GPU goes on


def ising(size: int, neighbours: dict[int, list[int]], coupling: float, fields: list[float]) -> Ising:
    """Joins each site to others, by couplings of both signs in turn; fields are repeated."""
    matrix = torch.zeros(size, size)
    for k, (a, b) in enumerate((a, b % size) for a, others in neighbours.items() for b in others):
        matrix[a, b] = matrix[b, a] = coupling * (-1) ** (k * (k + 1) // 2)
    return Ising(Edges.of(matrix), torch.tensor(fields).repeat(size)[:size]).to(DEVICE)


def asymmetric() -> Ising:
    """Seven sites of 0 to 4 neighbours, no two of which have the same law."""
    return ising(7, {0: [1, 2, 3, 4], 1: [2, 3], 2: [3], 4: [5]}, 0.4, [0.0, 0.3, -0.2, 0.1, -0.5, 0.0, 0.6])


def swept(energy: Ising, x: Tensor, num_sweeps: int) -> Tensor:
    graph = SignedGraph(energy)
    words = graph.words(x)
    graph.sweep(words, num_sweeps)
    return graph.spins(words).float()


@HERE
def test_exact_draws_stay_exact() -> None:
    energy = asymmetric()
    assert p_value(energy, lambda x: swept(energy, x, 2), CHAINS) > PASS


@HERE
@pytest.mark.slow
def test_chains_get_to_the_law() -> None:
    energy = asymmetric()
    assert p_value(energy, torch.ones_like, CHAINS) < FAIL
    assert p_value(energy, lambda x: swept(energy, torch.ones_like(x), 30), CHAINS) > PASS


@HERE
@pytest.mark.parametrize("chains", [32, 96])
def test_where_all_is_certain_a_sweep_is_the_plain_one(chains: int) -> None:
    """Sites of up to 31 neighbours: five digits of a count."""
    star = {0: list(range(1, 32))} | {i: [i + 1, i + 7, i + 50] for i in range(40, 300)}
    energy = ising(400, star, 1e3, [500.0, -300.0, 100.0])
    x = energy.random(chains)
    assert torch.equal(swept(energy, x, 1), ChromaticGibbs().last_states(energy, x, 1))


def in_mutant(energy: Ising, module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Callable[[Tensor], Tensor]:
    monkeypatch.setattr("ebmlab.fused.signed_kernel.colour_kernel", module.colour_kernel)
    return lambda x: swept(energy, x, 3)


@HERE
@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("pull ^= tl.load(flips + begin + n, mask=some, other=0)", "pass"),  # couplings lose their signs
        ("ones ^ pull, ones & pull", "ones | pull, ones & pull"),
        ("fours ^ pull, fours & pull", "fours, pull"),
        (
            "count * size + site[None, :]",
            "count * size + 0 * site[None, :]",
        ),  # all sites have the probabilities of the first
        ("open & wanted & ~random", "open & ~wanted & random"),
        ("random = random.to(tl.int32, bitcast=True)", "random = -(random.to(tl.int32, bitcast=True) & 1)"),  # shared
        ("place * 8 + turn", "word * 8 + turn"),  # all sites have the same numbers
        ("place * 8 + turn", "site * 8 + turn"),  # all words
    ],
)
def test_a_wrong_kernel_is_noticed(old: str, new: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    energy = asymmetric()
    moved = in_mutant(energy, mutated("ebmlab.fused.signed_kernel", old, new, tmp_path), monkeypatch)
    assert p_value(energy, moved, chains=6400) < FAIL


@pytest.mark.parametrize(
    ("energy", "message"),
    [
        (lambda: Ising(torch.tensor([[0, 1, 2], [1, 0, 0], [2, 0, 0.0]])), "2 absolute values, from 1 to 2: use Fused"),
        (lambda: ising(40, {0: list(range(1, 33))}, 0.3, [0.0]), "a site has 32 neighbours, but at most 31"),
        (lambda: Ising.learnable(3), "learnt couplings join all sites"),
    ],
)
def test_other_models_are_refused(energy: Callable[[], Ising], message: str) -> None:
    with pytest.raises(UserError, match=message):
        SignedGraph(energy())


def test_numbers_that_have_become_nan_are_refused() -> None:
    energy = asymmetric()
    energy.field[2] = torch.nan
    with pytest.raises(UserError, match="must be finite numbers"):
        SignedGraph(energy)


def test_words_hold_the_spins() -> None:
    energy = asymmetric()
    graph, x = SignedGraph(energy), energy.random(96)
    assert graph.words(x).shape == (7, 3) and torch.equal(graph.spins(graph.words(x)).float(), x)
    with pytest.raises(UserError, match=r"B a multiple of 32, but their shape is \(33, 7\)"):
        graph.words(energy.random(33))


@HERE
def test_words_of_another_graph_are_refused() -> None:
    graph = SignedGraph(asymmetric())
    with pytest.raises(UserError, match=r"words must be int32 \(7, W\)"):
        graph.sweep(torch.zeros(6, 2, dtype=torch.int32, device=DEVICE))
