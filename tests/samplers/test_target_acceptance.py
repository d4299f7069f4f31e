"""The search for a step size with a given acceptance."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers_finite import MOSTLY_TWO_DOMAINS, Exact, Target
from helpers_grbm import Banana
from helpers_tier import cases
from torch import Tensor

from ebmlab.domains import Finite, Spin
from ebmlab.energies import Energy
from ebmlab.errors import UserError
from ebmlab.samplers import DMALA, DULA, BlockGibbs, Langevin, MetropolisSampler
from ebmlab.samplers.acs import ACS
from ebmlab.samplers.proposals import Proposal, factorised
from ebmlab.samplers.relaxed_mala import RelaxedMALA
from ebmlab.samplers.state import EnergyState
from ebmlab.samplers.tuners.target_acceptance import TargetAcceptance


class Product(Energy):
    """50 independent spins with E(x) = sum of h_i x_i + 0.4 sin(2 x_i), on which the Taylor difference is not exact."""

    def __init__(self) -> None:
        super().__init__()
        self.domain = Spin(50)
        self.register_buffer("h", torch.linspace(-1.5, 1.5, 50))
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return (self.h * x + 0.4 * torch.sin(2 * x)).sum(1)


class Flips(MetropolisSampler):
    """Flips each spin with a given probability, as a random walk does."""

    domains = (Spin,)
    probability: Tensor

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.register_buffer("probability", torch.tensor(probability), persistent=False)

    def evaluate(self, energy: Energy, x: Tensor, known: Any = None) -> EnergyState:
        return EnergyState(x=x, energy=energy(x))

    def proposal(self, energy: Energy, state: Any) -> Proposal:
        stiffness = -torch.logit(self.probability) / 2  # then a flip has the given probability
        return factorised(Product().domain, state.x, torch.zeros_like(state.x), stiffness=stiffness)


CASES: dict[str, tuple[Any, TargetAcceptance]] = {
    "DMALA, far too large": (DMALA(1000.0), TargetAcceptance()),
    "DMALA, far too small": (DMALA(0.01), TargetAcceptance()),
    "DMALA, another rate": (DMALA(1.0), TargetAcceptance(0.8)),
    "RelaxedMALA": (RelaxedMALA(0.5), TargetAcceptance()),
    "random walk": (Flips(0.3), TargetAcceptance(0.234, "probability")),
    "a whole cycle": (
        ACS(0.5, 0.1, cycle_length=5, balance_max=0.6),
        TargetAcceptance(parameter="step_sizes", window=5),
    ),
}


@cases(("sampler", "tuner"), CASES, fast=("random walk", "a whole cycle"))
def test_the_frozen_sampler_has_the_wanted_acceptance(sampler: Any, tuner: TargetAcceptance) -> None:
    """It is within 0.03 of the rate over 64 chains and 200 new steps, and the start is far from it."""
    torch.manual_seed(0)
    energy = Product()
    frozen, x = tuner.tune(sampler, energy, energy.domain.random(64), 400)
    torch.manual_seed(1)
    assert frozen.sample(energy, x, 200)[1].acceptance.mean() == pytest.approx(tuner.rate, abs=0.03)
    assert abs(sampler.sample(energy, x, 50)[1].acceptance.mean() - tuner.rate) > 0.1


@MOSTLY_TWO_DOMAINS
def test_on_every_domain(domain: Finite) -> None:
    torch.manual_seed(0)
    energy = Target(domain, "cubic", scale=2.0)
    frozen, x = TargetAcceptance(0.8).tune(DMALA(0.1), energy, Exact(energy).sample(128), 300)
    assert frozen.sample(energy, x, 150)[1].acceptance.mean() == pytest.approx(0.8, abs=0.03)


def test_samplers_that_copy_the_step_size_into_their_state() -> None:
    torch.manual_seed(0)
    energy = Banana(2)
    frozen, x = TargetAcceptance().tune(Langevin(1e-3, adjust_from=0), energy, energy.sample(128), 400)
    assert frozen.sample(energy, x, 150)[1].acceptance.mean() == pytest.approx(0.574, abs=0.03)


@pytest.mark.parametrize("num_steps", [1, 7, 40])
def test_budget_and_argument(num_steps: int) -> None:
    """One evaluation per step and one for each window; the argument is not changed."""
    torch.manual_seed(0)
    energy, sampler = Product(), DMALA(3.0)
    start, before = energy.domain.random(4), copy.deepcopy(sampler)
    given = start.clone()
    frozen, x = TargetAcceptance(window=4).tune(sampler, energy, start, num_steps)
    assert energy.calls == num_steps + -(-num_steps // 4)
    assert sampler.step_size == before.step_size != frozen.step_size
    assert torch.equal(start, given) and not frozen.state_dict() and x.shape == start.shape
    again = frozen.step_size.clone()
    frozen.sample(energy, x, 5)
    assert frozen.step_size == again


@pytest.mark.parametrize(
    ("sampler", "parameter", "top"), [(DMALA(1.0), "step_size", 1e8), (Flips(0.4), "probability", 0.5)]
)
def test_flat_and_nan_energies_keep_the_parameter_in_bounds(sampler: Any, parameter: str, top: float) -> None:
    """With one chain. No value has the wanted acceptance, which a warning says."""

    class Constant(Product):
        value = 0.0

        def forward(self, x: Tensor) -> Tensor:
            return self.value + 0 * x.sum(1)

    for Constant.value, bound in ((0.0, top), (float("nan"), 0.0)):
        torch.manual_seed(0)
        energy = Constant()
        limit = f"{parameter} went to .*, the end of its range, where the acceptance is {int(bound > 0)}"
        with torch.inference_mode(), pytest.warns(UserWarning, match=limit):
            frozen, x = TargetAcceptance(parameter=parameter, gain=50.0).tune(
                sampler, energy, energy.domain.random(1), 100
            )
        found = getattr(frozen, parameter)
        assert found > 0 and (found < 1 or parameter != "probability") and found.isfinite()
        assert found == pytest.approx(bound, rel=0.01, abs=1e-5)
        energy.domain.validate(x)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: TargetAcceptance(parameter="probability").check(DMALA(0.1)),
            "DMALA has no probability to tune; it has step_",
        ),
        (lambda: TargetAcceptance().check(ACS()), "ACS has no step_size to tune; it has step_sizes, balances"),
        (lambda: TargetAcceptance().check(BlockGibbs()), "BlockGibbs has no step_size to tune; it has nothing"),
        (lambda: TargetAcceptance().check(DULA(0.1)), "this DULA accepts proposals without a Metropolis decision"),
        (lambda: TargetAcceptance().check(Langevin(0.1)), "this Langevin accepts proposals without"),
        (lambda: TargetAcceptance().tune(DMALA(1.0), Product(), torch.ones(1, 50), 0), "num_steps is 0"),
        (lambda: TargetAcceptance(1.0), "rate is 1.0"),
        (lambda: TargetAcceptance(window=0), "window is 0"),
        (lambda: TargetAcceptance(gain=0.0), "gain is 0.0, but must be positive"),
    ],
)
def test_wrong_use(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        call()


def test_the_result_is_the_mean_log_of_the_second_half(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows 0, 1 and 2 of this kernel are all accepted: window t adds t^-0.6 times 1 / rate to the log."""
    torch.manual_seed(0)
    energy, sampler = Product(), DMALA(1e-5)
    tuned, _ = TargetAcceptance(rate=0.5, window=1, gain=0.1).tune(sampler, energy, energy.domain.random(50), 3)
    steps = 0.1 * torch.tensor([1.0, 2**-0.6, 3**-0.6]) / 0.5
    logs = sampler.step_size.log() + steps.cumsum(0)
    torch.testing.assert_close(tuned.step_size.log(), logs[1:].mean(), rtol=0, atol=1e-4)
