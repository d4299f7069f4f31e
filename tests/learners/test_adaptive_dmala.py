"""AdaptiveDMALA: its acceptance while the model changes, its chains, and what a checkpoint saves."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers_finite import DOMAINS, Target, bias
from helpers_tier import cases
from helpers_trainer import quiet_trainer, short_fit
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from ebmlab.energies import RBM, Energy, Ising
from ebmlab.learners import AdaptiveDMALA, BoltzmannLearning, ContrastiveDivergence, ReplayBuffer
from ebmlab.samplers import DMALA, Tempered
from ebmlab.samplers.tuners import TargetAcceptance

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:The dirpath has changed"),
]


@cases("rate", [0.4, 0.574, 0.8], fast=[1])
def test_the_acceptance_stays_while_the_model_gets_steeper(rate: float) -> None:
    torch.manual_seed(0)
    rbm, x = RBM(100, 10), torch.bernoulli(torch.full((100, 100), 0.5))
    with torch.no_grad():
        rbm.W.normal_(0, 0.2)
    fixed, x = TargetAcceptance(rate).tune(DMALA(0.1), rbm, x, 200)
    sampler, seen = AdaptiveDMALA(float(fixed.step_size), rate=rate), []
    for iteration in range(200):
        with torch.no_grad():
            rbm.W.mul_(1.01)  # seven times as steep in the end
        inner, x, steps = sampler.at_iteration(rbm, x, iteration, 5)
        acceptances = []
        for state, info in inner.chain(rbm, x, steps):
            acceptances.append(float(info.acceptance.mean()))
            x = state.x
        seen.append(sum(acceptances) / len(acceptances))
    assert sum(seen[-50:]) / 50 == pytest.approx(rate, abs=0.03)
    assert float(fixed.sample(rbm, x, 20)[1].acceptance.mean()) < rate - 0.1, "a fixed step goes stale"
    assert float(sampler.step_size) < 0.7 * float(fixed.step_size)


@pytest.mark.parametrize("domain", ["binary", "ordinal"])  # written out, and not
def test_chains_are_those_of_dmala_and_the_step_changes_after_training_chains_only(domain: str) -> None:
    energy = Target(DOMAINS[domain], "cubic")
    x = energy.domain.random(50)
    sampler = AdaptiveDMALA(0.8, rate=0.9, gain=0.5)

    def chain(sampler: Any) -> list[torch.Tensor]:
        torch.manual_seed(1)
        return [state.x for state, _ in sampler.chain(energy, x, 6)]

    expected = chain(DMALA(0.8))
    for got in (chain(sampler), chain(sampler.at_iteration(energy, x, 0, 6)[0])):
        assert all(torch.equal(a, b) for a, b in zip(got, expected, strict=True))
    torch.manual_seed(1)
    acceptance = float(DMALA(0.8).sample(energy, x, 6)[1].acceptance.mean())
    found = torch.tensor(0.8) * torch.tensor(0.5 * (acceptance - 0.9) / 0.09).exp()
    torch.testing.assert_close(sampler.step_size, found)
    chain(sampler)
    torch.testing.assert_close(sampler.step_size, found)  # sampling outside of training does not change it
    assert bias(sampler, energy) < 1e-10


def iterate(sampler: AdaptiveDMALA, energy: Energy, x: Tensor, iterations: int) -> tuple[Tensor, float]:
    """Training iterations without training; the last states, and the mean acceptance of the last 20 iterations."""
    seen = []
    for iteration in range(iterations):
        inner, x, steps = sampler.at_iteration(energy, x, iteration, 3)
        for state, info in inner.chain(energy, x, steps):
            x = state.x
            seen.append(float(info.acceptance.nan_to_num(0.0).mean()))
    return x, sum(seen[-60:]) / 60


@pytest.mark.slow
def test_a_flat_model_does_not_drive_the_step_beyond_return() -> None:
    torch.manual_seed(0)
    rbm, sampler = RBM(50, 10), AdaptiveDMALA(0.1)
    with torch.no_grad():
        rbm.W.zero_()
    x, acceptance = iterate(sampler, rbm, rbm.domain.random(50), 300)
    assert acceptance > 0.99 and float(sampler.step_size) == pytest.approx(10)
    with torch.no_grad():
        rbm.W.normal_(0, 1.0)
    assert iterate(sampler, rbm, x, 100)[1] == pytest.approx(0.574, abs=0.05)
    spins = Ising(torch.zeros(4, 4))
    sampler = AdaptiveDMALA(0.1)
    iterate(sampler, spins, spins.domain.random(9), 100)
    assert float(sampler.step_size) == pytest.approx(40)
    classes = Target(DOMAINS["categorical"], "quadratic", scale=0.0)
    sampler = AdaptiveDMALA(10.0, gain=1.0)
    iterate(sampler, classes, classes.domain.random(9), 2)
    assert float(sampler.step_size) == pytest.approx(20)


def test_a_proposal_of_nan_energy_counts_as_rejected_and_the_others_as_they_are() -> None:
    class Corner(RBM):
        def evaluate(self, x: Tensor, *args: Any, **kwargs: Any) -> Any:
            at = super().evaluate(x, *args, **kwargs)
            return replace(at, energy=at.energy.masked_fill(x[:, :4].sum(1) == 4, torch.nan))

    torch.manual_seed(0)
    energy, sampler = Corner(50, 10), AdaptiveDMALA(0.3)
    with torch.no_grad():
        energy.W.normal_(0, 1.0)
    x = energy.domain.random(100)
    x[:, 0] = 0
    assert iterate(sampler, energy, x, 150)[1] == pytest.approx(0.574, abs=0.05)


def fit(folder: Path, epochs: int, **resume: str) -> ContrastiveDivergence:
    torch.manual_seed(0)
    chains = ReplayBuffer(300, reinitialize=0.1, init="mean")
    learner = ContrastiveDivergence(RBM(64, 6), AdaptiveDMALA(0.2), start=chains, num_steps=2)
    short_fit(learner, folder, epochs, **resume)
    return learner


def test_a_resumed_run_goes_on_with_its_step_and_a_checkpoint_has_the_last(tmp_path: Path) -> None:
    whole = fit(tmp_path, 3)
    resumed = fit(tmp_path / "again", 3, ckpt_path=str(tmp_path / "epoch=0.ckpt"))
    assert float(whole.sampler.step_size) != pytest.approx(0.2, rel=1e-3)
    assert torch.equal(whole.sampler.step_size, resumed.sampler.step_size)
    assert torch.equal(whole.energy.W, resumed.energy.W)
    assert torch.equal(whole.start.slots, resumed.start.slots)
    loaded = ContrastiveDivergence.load_from_checkpoint(tmp_path / "epoch=2.ckpt")
    assert torch.equal(loaded.sampler.step_size, whole.sampler.step_size)


@pytest.mark.parametrize(
    ("learner", "owner"),
    [
        (lambda s: BoltzmannLearning(Ising.learnable(64), s, num_chains=300, num_steps=1), "BoltzmannLearning"),
        (lambda s: ContrastiveDivergence(Ising.learnable(64), Tempered(s, num_temperatures=2)), "Tempered"),
        (lambda s: ContrastiveDivergence(Ising.learnable(64), s), None),
    ],
    ids=["boltzmann", "tempered", "asked"],
)
def test_where_nothing_asks_it_to_change_a_run_says_so(learner: Any, owner: str | None, tmp_path: Path) -> None:
    sampler = AdaptiveDMALA(0.1)
    spins = DataLoader(TensorDataset(2 * torch.bernoulli(torch.full((20, 64), 0.5)) - 1), 10)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        quiet_trainer(tmp_path, max_epochs=1).fit(learner(sampler), spins)
    told = [str(w.message) for w in caught if "AdaptiveDMALA keeps its first settings" in str(w.message)]
    assert [f"for {owner} does not" in line for line in told] == ([] if owner is None else [True])
    assert (float(sampler.step_size) == pytest.approx(0.1)) == (owner is not None)
