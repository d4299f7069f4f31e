"""BoltzmannLearning: its gradient against autograd, its preconditioner against NumPy, and fits that arrive."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers_family import drawn_potts, write_family
from helpers_memory import peak_of_tensors
from helpers_mutants import mutant
from helpers_trainer import quiet_trainer
from torch import Tensor

from ebmlab.callbacks import ClosedForm, StopAtCorrelation
from ebmlab.datamodules import Alignment, Arrays
from ebmlab.energies import RBM, Energy, Ising, Potts
from ebmlab.energies.pairwise import half_matrix, statistics
from ebmlab.energies.pairwise.half_matrix import HalfMatrix
from ebmlab.energies.pairwise.statistics import Moments, connected
from ebmlab.errors import UserError
from ebmlab.evaluation import exact_samples
from ebmlab.learners import BoltzmannLearning, ReplayBuffer, boltzmann_learning
from ebmlab.samplers import GibbsSweep, Info, State

D, Q, N = 4, 3, 12
pytestmark = pytest.mark.filterwarnings(
    "ignore:You are trying to `self.log", "ignore:.*does not have many workers", "ignore:The number of training batches"
)


class Still(GibbsSweep):
    """Chains that stay where they are."""

    def step(self, energy: Energy, state: Any) -> tuple[State, Info]:
        return state, Info(torch.ones(len(state.x)), torch.zeros(len(state.x)))


class Exact(GibbsSweep):
    """Independent states from the law."""

    def step(self, energy: Energy, state: Any) -> tuple[State, Info]:
        x = exact_samples(energy, len(state.x))
        return State(x=x, step=state.step + 1), Info(torch.ones(len(x)), torch.ones(len(x)))


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several blocks of rows, of states and of chains."""
    monkeypatch.setattr(half_matrix, "ROWS", 6)
    monkeypatch.setattr(statistics, "AT_ONCE", 5)
    monkeypatch.setattr(boltzmann_learning, "AT_ONCE", 7)


def potts(pairs: Any = None) -> Potts:
    return drawn_potts(D, Q, pairs, seed=4)


def ising() -> Ising:
    energy = Ising.learnable(D).double()
    energy.parametrizations.coupling.original.data.copy_(torch.randn(D, D, dtype=torch.float64).triu(1))  # type: ignore[union-attr]
    return energy


ENERGIES = {"Potts": potts, "some pairs": lambda: potts([[0, 3], [2, 1]]), "Ising": ising}


def prepared(energy: Energy, learning: type[BoltzmannLearning] = BoltzmannLearning, **settings: Any) -> Any:
    """A learner whose chains stay at some states, the data and weights whose moments it has taken, and those states."""
    torch.manual_seed(1)
    x, weights, y = energy.domain.random(9).double(), torch.rand(9).double(), energy.domain.random(N).double()
    given = type("Given", (learning,), {"_all_data": lambda self: (x, weights)})
    learner = given(energy, Still(), num_chains=N, num_steps=1, **settings)
    learner.start.slots = y.to(torch.int8)
    return learner, x, weights / weights.sum(), y


def gradients(learner: BoltzmannLearning) -> list[Tensor]:
    parameters = [p for p in learner.energy.parameters() if p.requires_grad]
    return list(torch.autograd.grad(learner.training_step(None, 0), parameters))


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("name", ENERGIES)
@pytest.mark.parametrize(("l1", "l2"), [(0.0, 0.0), (0.0, 0.1), (0.1, 0.0)])
def test_the_plain_gradient_is_that_of_weighted_energies(name: str, l1: float, l2: float) -> None:
    energy = ENERGIES[name]()
    learner, x, weights, y = prepared(energy, damping=None, pseudo_count=0.0, l1=l1, l2=l2)
    loss = (weights * energy(x)).sum() - energy(y).mean()
    coupling = energy.coupling if isinstance(energy, Potts) else energy.coupling.triu(1)
    penalised = loss + l1 * coupling.abs().sum() + l2 * coupling.square().sum()
    expected = torch.autograd.grad(penalised, [p for p in energy.parameters() if p.requires_grad])
    for found, wanted in zip(gradients(learner), expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-12)
    assert float(learner.training_step(None, 0).detach()) == pytest.approx(float(loss.detach()), rel=1e-10)


def by_numpy(
    x: Tensor, w: Tensor, y: Tensor, damping: float, share: float, learns: np.ndarray, pull: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The direction from its definition, couplings as a matrix, with loops over sites."""
    a, b, weight = x.flatten(1).numpy(), y.flatten(1).numpy(), w.numpy()
    d = x.shape[1]
    q = a.shape[1] // d
    m, second = (1 - share) * weight @ a, (1 - share) * (a.T * weight) @ a
    if q > 1:
        m, second = m + share / q, second + share / q**2
    for i in range(d):
        own = slice(i * q, (i + 1) * q)
        second[own, own] = np.diag(m[own]) if q > 1 else np.eye(1)
    P = np.linalg.inv(second - np.outer(m, m) + damping * np.eye(len(m)))
    c = b - m
    D = second - np.outer(m, m) - c.T @ c / len(b) - pull
    D[~learns] = 0
    D = P @ D @ P
    D[~learns] = 0
    return D, P @ (m - b.mean(0)) - D @ m


def couplings_of(energy: Any) -> np.ndarray:
    """All couplings as a matrix between sites and values."""
    if not isinstance(energy, Potts):
        return energy.coupling.detach().numpy()
    matrix = np.zeros((D * Q, D * Q))
    for (i, j), block in zip(energy.pairs.tolist(), energy.coupling.detach().numpy(), strict=True):
        matrix[i * Q : i * Q + Q, j * Q : j * Q + Q], matrix[j * Q : j * Q + Q, i * Q : i * Q + Q] = block, block.T
    return matrix


def matrix_of(energy: Any, learns: Tensor | None) -> np.ndarray:
    """Which entries of a matrix between sites are couplings that learn."""
    if not isinstance(energy, Potts):
        return ~np.eye(D, dtype=bool)
    matrix = np.zeros((D * Q, D * Q), dtype=bool)
    for k, (i, j) in enumerate(energy.pairs.tolist()):
        block = np.ones((Q, Q), dtype=bool) if learns is None else learns[k].numpy()
        matrix[i * Q : i * Q + Q, j * Q : j * Q + Q], matrix[j * Q : j * Q + Q, i * Q : i * Q + Q] = block, block.T
    return matrix


def check_direction(
    energy: Any,
    learning: type[BoltzmannLearning] = BoltzmannLearning,
    share: float = 0.0,
    learns: Tensor | None = None,
    l1: float = 0.0,
    l2: float = 0.0,
) -> None:
    learner, x, weights, y = prepared(energy, learning, damping=0.3, pseudo_count=share, l1=l1, l2=l2)
    learner.learns = learns
    damping, held = max(0.3, (l1 + 2 * l2) ** 0.5), couplings_of(energy)
    pull = l1 * np.sign(held) + 2 * l2 * held
    D, h = by_numpy(x, weights, y, damping, share, matrix_of(energy, learns), pull)
    coupling, field = gradients(learner) if isinstance(energy, Potts) else gradients(learner)[::-1]
    np.testing.assert_allclose(-field.numpy(), h.reshape(field.shape), rtol=1e-7, atol=1e-9)
    expected = np.triu(D, 1)
    if isinstance(energy, Potts):
        blocks = D.reshape(D.shape[0] // Q, Q, -1, Q)
        expected = np.stack([blocks[i, :, j] for i, j in energy.pairs.tolist()])
    np.testing.assert_allclose(-coupling.numpy(), expected, rtol=1e-7, atol=1e-9)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(("share", "l1", "l2"), [(0.0, 0.0, 0.0), (0.2, 0.0, 0.0), (0.2, 0.0, 0.1), (0.2, 0.2, 0.1)])
@pytest.mark.parametrize("name", ENERGIES)
def test_the_direction_is_its_definition(name: str, share: float, l1: float, l2: float) -> None:
    check_direction(ENERGIES[name](), share=share, l1=l1, l2=l2)


def some(energy: Potts) -> Tensor:
    return torch.rand(energy.coupling.shape, generator=torch.Generator().manual_seed(3)) < 0.5


@pytest.mark.usefixtures("small_blocks")
def test_the_direction_of_some_couplings_is_its_definition() -> None:
    energy = potts([[0, 3], [2, 1], [0, 1]])
    check_direction(energy, learns=some(energy))
    check_direction(energy, learns=some(energy), l1=0.1, l2=0.1)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("pairs", [[[0, 3], [2, 1]], None], ids=["a graph", "all pairs"])
def test_only_statistics_of_couplings_that_learn_count(pairs: Any) -> None:
    """At the maximum of the likelihood of a sparse model, other statistics of model and data differ."""
    learner, *_ = prepared(potts(pairs))
    if pairs is None:
        learner.learns = some(learner.energy)
    gradients(learner)
    one, half, _ = learner.data_moments
    two = half.full()
    other = torch.randn(two.shape, dtype=two.dtype) * torch.from_numpy(~matrix_of(learner.energy, learner.learns))
    learner.chain_moments = Moments(one, HalfMatrix.of(two + other + other.T, Q), Q)
    assert all(float(part.abs().max()) < 1e-12 for part in learner._direction())


def test_it_climbs_the_likelihood_and_stops_at_the_moments_of_the_data() -> None:
    energy = potts()
    plain, *_ = prepared(energy, damping=None)
    learner, *_ = prepared(energy)
    product = sum(float((g * h).sum()) for g, h in zip(gradients(plain), gradients(learner), strict=True))
    assert product > 0
    learner.chain_moments = learner.data_moments
    assert all(float(part.abs().max()) < 1e-12 for part in learner._direction())


@pytest.fixture
def one_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """All chains at once, as exact draws look at every state for each block."""
    monkeypatch.setattr(boltzmann_learning, "AT_ONCE", 20_000)


@pytest.mark.usefixtures("one_block")
@pytest.mark.parametrize("damping", [0.05, None])
def test_a_fit_arrives_at_the_couplings_that_made_the_data(damping: float | None, tmp_path: Path) -> None:
    torch.manual_seed(0)
    truth = Ising(torch.tensor([[0.0, 0.8, -0.5], [0.8, 0.0, 0.0], [-0.5, 0.0, 0.0]]), field=[0.3, -0.4, 0.1])
    np.save(tmp_path / "spins.npy", exact_samples(truth, 50_000).numpy())
    data = Arrays(str(tmp_path / "spins.npy"), domain="spin", batch_size=40_000)
    energy = Ising.learnable(3)
    rate = partial(torch.optim.SGD, lr=0.3 if damping else 0.5)
    learner = BoltzmannLearning(energy, Exact(), num_chains=20_000, num_steps=1, damping=damping, optimizer=rate)
    quiet_trainer(tmp_path, max_epochs=40, limit_val_batches=0).fit(learner, data)
    assert (energy.coupling - truth.coupling).abs().max() < 0.05 and (energy.field - truth.field).abs().max() < 0.05


@pytest.mark.usefixtures("one_block")
@pytest.mark.parametrize("damping", [0.05, None])
def test_steps_arrive_at_the_penalised_maximum_of_two_spins(damping: float | None) -> None:
    """Their mean product f is 0.6, and f - tanh J = l1 at the best J."""
    torch.manual_seed(0)
    x = torch.tensor([[1.0, 1.0], [-1.0, -1.0]] * 4 + [[1.0, -1.0], [-1.0, 1.0]])
    energy, given = Ising.learnable(2), type("Given", (BoltzmannLearning,), {"_all_data": lambda self: (x, None)})
    learner = given(energy, Exact(), num_chains=20_000, num_steps=1, damping=damping, pseudo_count=0.0, l1=0.2)
    sgd = torch.optim.SGD(energy.parameters(), lr=0.2)
    for _ in range(60):
        sgd.zero_grad()
        learner.training_step(None, 0).backward()
        sgd.step()
    assert abs(float(energy.coupling.detach()[0, 1]) - math.atanh(0.4)) < 0.03


@pytest.mark.usefixtures("one_block")
@pytest.mark.parametrize("damping", [0.05, None])
def test_steps_arrive_at_the_maximum_of_the_penalised_likelihood(damping: float | None) -> None:
    """The maximum is found by autograd of the likelihood, summed over all 27 states."""
    torch.manual_seed(0)
    energy, x = Potts(3, 3), exact_samples(drawn_potts(3, 3, seed=2), 300)
    states, best = energy.domain.enumerate(), Potts(3, 3).double()
    optimizer = torch.optim.LBFGS(best.parameters(), max_iter=200, tolerance_grad=1e-9, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        log_z = torch.logsumexp(-best(states.double()), 0)
        value = best(x.double()).mean() + log_z + 0.05 * best.coupling.square().sum()
        value.backward()
        return value

    optimizer.step(loss)
    given = type("Given", (BoltzmannLearning,), {"_all_data": lambda self: (x, None)})
    learner = given(energy, Exact(), num_chains=20_000, num_steps=1, damping=damping, pseudo_count=0.0, l2=0.05)
    sgd = torch.optim.SGD(energy.parameters(), lr=0.2 if damping else 1.0)
    for _ in range(100):
        sgd.zero_grad()
        learner.training_step(None, 0).backward()
        sgd.step()
    energy.requires_grad_(False)
    best.requires_grad_(False)
    assert float(best.coupling.abs().max()) > 0.3
    assert (energy.coupling - best.coupling).abs().max() < 0.04
    found, law = (-energy(states)).softmax(0), (-best(states.double())).softmax(0)
    assert (found - law).abs().sum() < 0.02 < 0.1 < (found - 1 / 27).abs().sum()


def test_training_ends_at_the_correlation_of_its_own_chains(tmp_path: Path) -> None:
    data = Alignment(str(write_family(tmp_path / "family.fasta", sites=6, sequences=300)), batch_size=100)
    energy = Potts(6, 21)
    learner = BoltzmannLearning(energy, num_chains=3000, num_steps=3)
    stop = StopAtCorrelation(0.8)
    trainer = quiet_trainer(
        tmp_path, max_epochs=60, limit_val_batches=0, callbacks=[ClosedForm("independent", pseudo_count=0.01), stop]
    )
    trainer.fit(learner, data)
    assert trainer.current_epoch < 60 and stop.pearson >= 0.8
    assert learner.start.slots is not None
    x, y = (
        connected(data.states("train").float(), data.weights("train")).numpy(),
        connected(learner.start.slots.float()).numpy(),
    )
    assert stop.pearson == pytest.approx(np.corrcoef(x, y)[0, 1], abs=1e-4)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("addr_(mean, one[own], alpha=-1)", "addr_(one, mean[own], alpha=-1)"),
        ("D @ mean.unsqueeze(1)", "D @ one.unsqueeze(1)"),
        ("P @ one.unsqueeze(1) - ", "one.unsqueeze(1) - "),
        ("addr_(one, mean[own], alpha=-1)", "addr_(one, mean[own])"),
        ("P @ _only_couplings(learns, columns, slice(0, n), own, q)", "P @ columns"),
        ("_only_couplings(learns, block, rows, slice(rows.start, n), q)", "None"),
        ("P.columns(k)", "p.columns(k)"),
        ("2 * self.l2 * self._coupling", "self.l2 * self._coupling"),
        ("self.l1 * self._coupling.sign()", "self.l1 * self._coupling"),
        ("self.l1 + 2 * self.l2", "2 * self.l2"),
    ],
)
def test_wrong_directions_are_found(old: str, new: str) -> None:
    wrong = mutant(BoltzmannLearning, old, new)  # before, for it raises if there is no such text
    with pytest.raises(AssertionError):
        check_direction(potts(), wrong, l1=0.1, l2=0.1)


def test_two_steps_take_the_memory_of_few_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Data, chains, their covariance and the direction are halves of a matrix, and chains become floats in parts."""
    monkeypatch.setattr(half_matrix, "ROWS", 60)
    monkeypatch.setattr(statistics, "AT_ONCE", 50)
    monkeypatch.setattr(boltzmann_learning, "AT_ONCE", 50)
    x = Potts(30, 10).random(100)

    def train() -> None:
        given = type("Given", (BoltzmannLearning,), {"_all_data": lambda self: (x, None)})
        learner = given(Potts(30, 10), num_chains=1000, num_steps=1)
        for _ in range(2):
            learner.zero_grad()
            learner.training_step(None, 0).backward()

    chains, matrix = 1000 * 300, 4 * 300**2
    assert peak_of_tensors(train) < chains + 5.5 * matrix


def test_a_gradient_is_freed_by_the_pass_that_takes_it() -> None:
    learner, *_ = prepared(potts())
    loss = learner.training_step(None, 0)
    loss.backward()
    with pytest.raises(RuntimeError, match="freed"):
        loss.backward()


def test_chains_are_drawn_anew_alike_in_parts() -> None:
    """Where chains start does not depend on how many move at a time."""
    starts = []
    for at_once in (3, 100):
        torch.manual_seed(0)
        buffer, energy = ReplayBuffer(20), potts()
        buffer.move(energy, energy.random(1), step=lambda x: x, at_once=at_once)
        starts.append(buffer.slots)
    assert torch.equal(*starts)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="size is 20, 5 slots"):
        buffer.slots = starts[0][:5]  # type: ignore[index]
        buffer.move(energy, energy.random(1), step=lambda x: x, at_once=7)


def test_what_it_refuses() -> None:
    for wrong in (RBM(4, 2), Ising.lattice(3, 0.2)):
        with pytest.raises(UserError, match="BoltzmannLearning needs a Potts energy, or an Ising energy that learns"):
            BoltzmannLearning(wrong)
    with pytest.raises(UserError, match="damping is 0, but must be positive, or null"):
        BoltzmannLearning(Potts(3, 2), damping=0)
    with pytest.raises(UserError, match="num_chains is 0"):
        BoltzmannLearning(Potts(3, 2), num_chains=0)
