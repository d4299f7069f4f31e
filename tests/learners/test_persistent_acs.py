"""PersistentACS: which iterations explore, when it tunes, and what a checkpoint saves."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from helpers_finite import DOMAINS, KINDS, Target, bias
from helpers_trainer import short_fit
from jsonargparse import ActionConfigFile
from torch import Tensor

from ebmlab.app.parser import MODE, Parser
from ebmlab.domains import Binary
from ebmlab.energies import RBM, Energy
from ebmlab.errors import UserError
from ebmlab.learners import ContrastiveDivergence, PersistentACS, ReplayBuffer
from ebmlab.samplers import DMALA, DULA, Sampler
from ebmlab.samplers.tuners import ACSTuner

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:The dirpath has changed"),
]


def make_rbm(num_visible: int = 60) -> RBM:
    torch.manual_seed(0)
    rbm = RBM(num_visible, 8)
    with torch.no_grad():
        rbm.W.normal_(0, 0.5)
    return rbm


def test_each_cycle_has_one_exploring_iteration_and_its_first_two_tune() -> None:
    rbm = make_rbm()
    sampler = PersistentACS(alpha_max=50.0, cycle_length=4, tune_every=2, tuning_steps=50, rate=0.9)
    x = rbm.domain.random(64)
    for iteration in range(16):
        before = float(sampler.alpha_max), float(sampler.step_size)
        inner, y, steps = sampler.at_iteration(rbm, x, iteration, 10)
        after = float(sampler.alpha_max), float(sampler.step_size)
        assert (before[0] != after[0], before[1] != after[1]) == (iteration % 8 == 0, iteration % 8 == 1)
        if iteration % 8 > 1:
            assert torch.equal(x, y), "only a search moves the chains"
        if iteration % 4 == 0:
            assert type(inner) is DULA and steps == 5
            assert float(inner.step_size) == after[0] and float(inner.balance) == pytest.approx(0.9)
        else:
            assert inner is sampler and steps == 10
    assert sampler.exact


def test_the_step_sizes_found_have_the_acceptance_asked_for() -> None:
    """The small step size is accepted at the rate under DMALA; the large one lies beyond the peak of acceptance."""
    rbm = make_rbm(100)
    sampler = PersistentACS(alpha_max=50.0, balance_max=0.9, tuning_steps=300, rate=0.7)
    x = rbm.domain.random(200)
    _, x, _ = sampler.at_iteration(rbm, x, 0, 10)
    _, x, _ = sampler.at_iteration(rbm, x, 1, 10)
    for alpha, beta in ((sampler.step_size, 0.5), (sampler.alpha_max, 0.9)):
        _, info = DMALA(float(alpha), beta).sample(rbm, x, 50)
        assert float(info.acceptance.mean()) == pytest.approx(0.7, abs=0.12)
    assert 0.05 <= sampler.step_size < sampler.alpha_max <= 50


def fit(folder: Path, epochs: int, **resume: str) -> ContrastiveDivergence:
    torch.manual_seed(0)
    sampler = PersistentACS(alpha_max=50.0, cycle_length=3, tune_every=2, tuning_steps=20, rate=0.9)
    chains = ReplayBuffer(300, reinitialize=0.1, init="mean")
    learner = ContrastiveDivergence(RBM(64, 6), sampler, start=chains, num_steps=2)
    short_fit(learner, folder, epochs, **resume)
    return learner


def test_a_resumed_run_keeps_the_step_sizes_found(tmp_path: Path) -> None:
    whole = fit(tmp_path, 3)
    resumed = fit(tmp_path / "again", 3, ckpt_path=str(tmp_path / "epoch=0.ckpt"))
    assert float(whole.sampler.alpha_max) != 50
    assert torch.equal(whole.sampler.alpha_max, resumed.sampler.alpha_max)
    assert torch.equal(whole.sampler.step_size, resumed.sampler.step_size)
    assert torch.equal(whole.energy.W, resumed.energy.W)
    assert torch.equal(whole.start.slots, resumed.start.slots)


def test_the_cycle_follows_the_steps_of_the_trainer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    iterations = []
    plain = PersistentACS.at_iteration

    def spy(self: PersistentACS, energy: Energy, x: Tensor, iteration: int, num_steps: int) -> object:
        iterations.append(iteration)
        return plain(self, energy, x, iteration, num_steps)

    monkeypatch.setattr(PersistentACS, "at_iteration", spy)
    fit(tmp_path, 1)
    assert iterations == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"cycle_length": 0}, "cycle_length is 0"),
        ({"tuning_steps": 3}, "tuning_steps 3"),
        ({"alpha_min": 6.0}, "alpha_min is 6.0"),
        ({"balance_max": 1.5}, "balance_max is 1.5"),
        ({"rate": 0.0}, "rate is 0"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        PersistentACS(**settings)


def test_configs_that_name_it_in_ebmlab_samplers_still_load() -> None:
    parser = Parser(parser_mode=MODE, exit_on_error=False)
    parser.add_argument("--sampler", type=Sampler)
    parser.add_argument("--config", action=ActionConfigFile)
    old = "{sampler: {class_path: ebmlab.samplers.PersistentACS, init_args: {cycle_length: 7}}}"
    sampler = parser.instantiate_classes(parser.parse_args([f"--config={old}"])).sampler
    assert type(sampler) is PersistentACS and sampler.cycle_length == 7


@pytest.mark.parametrize("kind", KINDS)
def test_outside_of_training_it_is_an_exact_sampler(kind: str) -> None:
    sampler, target = PersistentACS(alpha_min=0.8), Target(DOMAINS["binary"], kind)
    assert bias(sampler, target) < 1e-10
    assert bias(sampler, target) == bias(DMALA(0.8), target)


def test_searches_for_the_small_step_begin_below_the_mean_of_the_earlier_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    found, floors = [0.5, 0.9, 0.4, 0.02, 7.0], []

    def search(self: ACSTuner, *args: object, **_: object) -> tuple[float, object]:
        floors.append(self.alpha_floor)
        return found[len(floors) - 1], args[2]

    monkeypatch.setattr(ACSTuner, "estimate_alpha", search)
    rbm, sampler = make_rbm(), PersistentACS(alpha_max=5.0, alpha_min=0.05, cycle_length=2, tune_every=1)
    x = rbm.domain.random(4)
    for iteration in range(1, 10, 2):  # the second of each cycle
        sampler.at_iteration(rbm, x, iteration, 10)
    earlier = [torch.tensor(found[:n]) for n in range(1, 5)]
    assert floors == pytest.approx([0.05, *(float(e.mean() - e.std(correction=0)) for e in earlier)], abs=1e-6)
    assert sampler.found.tolist() == pytest.approx([5, *_moments(found)], rel=1e-5)
    assert sampler._floor() == 0.05  # one standard deviation below the mean is negative


def _moments(values: list[float]) -> tuple[float, float]:
    tensor = torch.tensor(values)
    return float(tensor.mean()), float((tensor - tensor.mean()).square().sum())


def test_a_checkpoint_of_an_earlier_version_is_read() -> None:
    old = PersistentACS().state_dict()
    old.pop("found")
    sampler = PersistentACS()
    sampler.load_state_dict(old)
    assert sampler.found.tolist() == [0, 0, 0]


@pytest.mark.filterwarnings("ignore:You are trying to `self.log")
def test_the_negatives_of_a_short_iteration_weigh_as_much_as_the_data() -> None:
    """An exploring iteration takes half of the steps, fewer than a burn-in of 0 leaves."""

    class Constant(Energy):
        domains = (Binary,)

        def __init__(self) -> None:
            super().__init__()
            self.domain, self.level = Binary(4), torch.nn.Parameter(torch.ones(()))

        def forward(self, x: Tensor) -> Tensor:
            return self.level * (1 + 0 * x.sum(1))

    sampler = PersistentACS(cycle_length=2, tuning_steps=5)
    learner = ContrastiveDivergence(Constant(), sampler, start=ReplayBuffer(4), num_steps=10, burn_in=0)
    learner.training_step(learner.energy.domain.random(4), 0).backward()
    assert float(learner.energy.level.grad) == pytest.approx(0, abs=1e-6)
