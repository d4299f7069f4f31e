"""Replica exchange between stages: chi-square at every stage, mutants, a barrier, the choice of stages."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from helpers_finite import DOMAINS, Exact, Target, rbms
from helpers_grbm import FAIL, PASS
from helpers_tier import cases
from torch import Tensor

from ebmlab.domains import Spin
from ebmlab.energies import Energy, Ising
from ebmlab.errors import UserError
from ebmlab.evaluation import exact_samples
from ebmlab.samplers import DMALA, DULA, GWG, BlockGibbs, Gibbs, GibbsSweep, Sampler, TrajectoryTempered
from ebmlab.samplers.tuners import SwapStages
from ebmlab.testing import chi_square_p


def stages_of(name: str) -> list[Energy]:
    """Three energies of one domain: cubic, quadratic, and cubic but flatter."""
    domain = DOMAINS[name]
    return [Target(domain, "cubic"), Target(domain, "quadratic", scale=0.6), Target(domain, "cubic", scale=0.3)]


def smallest_p(kernel: Sampler, path: list[Energy], num_steps: int, sampler: type = TrajectoryTempered) -> float:
    """The smallest p-value, over all pairs of neighbours, that replicas are independent exact draws.

    They start as exact draws.
    """
    n = 200_000
    torch.manual_seed(0)
    laws = [Exact(each) for each in path]
    tempered = sampler(kernel, path[1:])
    state = tempered.init(path[0], torch.stack([law.sample(n) for law in laws], 1))
    for _ in range(num_steps):
        state, _ = tempered.step(path[0], state)
    index = [law.number(replica.x) for law, replica in zip(laws, state.replicas, strict=True)]
    smallest = 1.0
    for k, m in itertools.pairwise(range(len(path))):
        law = torch.outer(laws[k].probabilities, laws[m].probabilities).flatten()
        pair = index[k] * len(laws[m].probabilities) + index[m]
        smallest = min(smallest, chi_square_p(torch.bincount(pair, minlength=len(law)), law))
    return smallest


CASES: dict[str, tuple[Sampler, list[Energy]]] = {
    "DMALA": (DMALA(0.8), stages_of("binary")),
    "GWG on spins": (GWG(), stages_of("spin")),
    "Gibbs on categories": (Gibbs(), stages_of("categorical")),
    "block Gibbs": (BlockGibbs(), rbms(4, 3)),
}


@cases("case", list(CASES), fast=[3])
def test_replicas_stay_exact_and_independent(case: str) -> None:
    assert smallest_p(*CASES[case], num_steps=4) > PASS


class SwapsWithoutTheOtherEnergy(TrajectoryTempered):
    """A mutant: decides by the sampled energy alone."""

    def swap(self, path: list[Energy], state: Any) -> Any:
        return super().swap([path[0]] * len(path), state)


class StaleState(TrajectoryTempered):
    """A mutant: the kernel goes on with what it computed before the swap."""

    def swap(self, path: list[Energy], state: Any) -> Any:
        old = [vars(replica).copy() for replica in state.replicas]
        new = super().swap(path, state)
        for replica, before in zip(new.replicas, old, strict=True):
            for name in ("energy", "proposal"):  # what DMALA keeps besides x
                setattr(replica, name, before[name])
        return new


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [SwapsWithoutTheOtherEnergy, StaleState])
def test_mutants_are_caught(wrong: type[TrajectoryTempered]) -> None:
    kernel, path = CASES["DMALA"]
    assert smallest_p(kernel, path, 4, wrong) < FAIL


class TwoWells(Energy):
    """All spins up or all down, `lean` apart in energy, behind a barrier of the given height."""

    def __init__(self, height: float) -> None:
        super().__init__()
        self.domain, self.height = Spin(12), height

    def forward(self, x: Tensor) -> Tensor:
        return -self.height * x.mean(1).square()


@pytest.mark.slow
def test_the_path_of_training_crosses_a_barrier() -> None:
    """Chains that start in one well are in both; the kernel alone never leaves it."""
    torch.manual_seed(0)
    energy, start = TwoWells(20.0), torch.ones(200, 12)
    alone, _ = Gibbs().sample(energy, start, 400)
    assert (alone.mean(1) < 0).float().mean() < 0.02
    sampler = TrajectoryTempered(Gibbs(), [TwoWells(h) for h in (16.0, 12.0, 9.0, 6.0, 3.0, 0.0)])
    x, info = sampler.sample(energy, start, 400)
    assert 0.35 < (x.mean(1) < 0).float().mean() < 0.65
    assert info.evaluations > 7


def test_swap_rates_are_those_of_exact_draws() -> None:
    path = stages_of("binary")
    torch.manual_seed(0)
    laws, expected = [Exact(each) for each in path], []
    for k, m in itertools.pairwise(range(3)):
        a, b, s = laws[k].probabilities, laws[m].probabilities, laws[k].states
        diff = path[k](s) - path[m](s)  # E_k - E_m: the log ratio at (x, y) is diff(x) - diff(y)
        expected.append(float(a @ (diff.unsqueeze(1) - diff.unsqueeze(0)).clamp(max=0).exp() @ b))
    sampler = TrajectoryTempered(DMALA(0.8), path[1:], swap_every=2)
    state = sampler.init(path[0], torch.stack([law.sample(5_000) for law in laws], 1))
    for _ in range(20):
        state, _ = sampler.step(path[0], state)
    assert state.rounds == 10 and state.step == state.replicas[2].step == 20
    torch.testing.assert_close(state.swap_rates.double(), torch.tensor(expected).double(), rtol=0, atol=0.02)


class Counted(Target):
    """Counts the states at which it is evaluated."""

    seen = 0

    def forward(self, x: Tensor) -> Tensor:
        Counted.seen += len(x)
        return super().forward(x)


@pytest.mark.parametrize("kernel", [DMALA(0.8), GibbsSweep()], ids=["keeps values", "keeps none"])
@pytest.mark.parametrize(("stages", "swap_every"), [(0, 1), (1, 1), (1, 3), (2, 1), (3, 2)])
def test_evaluations_are_those_that_were_made(kernel: Sampler, stages: int, swap_every: int) -> None:
    """Over two rounds of swaps, of which each takes every second pair of neighbours, or the only one."""
    path = [Counted(DOMAINS["binary"], "cubic", scale=1 / (1 + k)) for k in range(1 + stages)]
    sampler = TrajectoryTempered(kernel, path[1:], swap_every=swap_every)
    state, told = sampler.init(path[0], path[0].domain.random(10)), 0.0
    Counted.seen = 0
    for _ in range(2 * swap_every):
        state, info = sampler.step(path[0], state)
        told += info.evaluations
    assert told == Counted.seen / 10 and state.rounds == (2 if stages else 0)


@pytest.mark.slow
def test_the_tuner_keeps_as_few_stages_as_swap_often_enough() -> None:
    torch.manual_seed(0)
    path = [Ising.lattice(4, 0.01 * k) for k in range(40, 0, -2)]
    x = exact_samples(path[0], 500)
    tuned, _ = SwapStages(0.3).tune(TrajectoryTempered(Gibbs(), path[1:]), path[0], x, 60)
    assert isinstance(tuned, TrajectoryTempered) and 1 <= len(tuned.stages) < 12
    assert torch.equal(tuned.stages[-1].coupling, path[-1].coupling)
    state = tuned.init(path[0], x)
    for _ in range(200):
        state, _ = tuned.step(path[0], state)
    assert (state.swap_rates > 0.2).all()


def test_the_tuner_warns_of_missing_checkpoints() -> None:
    torch.manual_seed(0)
    far = TrajectoryTempered(Gibbs(), [TwoWells(0.0)])
    with pytest.warns(UserWarning, match="below 0.25: give it more checkpoints"):
        tuned, _ = SwapStages().tune(far, TwoWells(60.0), torch.ones(50, 12), 20)
    assert isinstance(tuned, TrajectoryTempered) and len(tuned.stages) == 1


def test_what_is_refused() -> None:
    assert not TrajectoryTempered(Gibbs(), [TwoWells(0.0)]).exact and TrajectoryTempered(Gibbs(), []).exact
    assert not TrajectoryTempered(DULA(0.1), [TwoWells(0.0)]).converges
    with pytest.raises(UserError, match="swap_every is 0"):
        TrajectoryTempered(Gibbs(), [], swap_every=0)
    with pytest.raises(UserError, match="stage 0 lives on"):
        TrajectoryTempered(Gibbs(), [Ising.lattice(3, 0.1)]).check(TwoWells(1.0))
    with pytest.raises(UserError, match="3 replicas, but 2 are needed"):
        TrajectoryTempered(Gibbs(), [TwoWells(0.0)]).init(TwoWells(1.0), torch.ones(4, 3, 12))
    with pytest.raises(UserError, match="Gibbs has none"):
        SwapStages().check(Gibbs())
    with pytest.raises(UserError, match="target is 1"):
        SwapStages(1)
