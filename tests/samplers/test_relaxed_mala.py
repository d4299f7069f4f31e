"""MALA on the relaxation: chi-square tests of one step from exact draws, mutants, robustness."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers_finite import DOMAINS, MOSTLY_CUBIC, Exact, Target, convergence_distance, invariance_p
from helpers_grbm import FAIL, PASS
from helpers_mutants import mutant
from helpers_tier import cases
from torch import Tensor

from ebmlab.domains import Binary, Finite, Ordinal, Spin
from ebmlab.energies import Energy
from ebmlab.errors import UserError
from ebmlab.samplers import MetropolisSampler
from ebmlab.samplers.proposals import Gaussian
from ebmlab.samplers.relaxed_mala import RelaxedMALA, harden, lift, soften

TWO_VALUED = {name: DOMAINS[name] for name in ("binary", "spin")}
two_valued = pytest.mark.parametrize("domain", TWO_VALUED.values(), ids=TWO_VALUED)


@MOSTLY_CUBIC
@two_valued
def test_leaves_the_law_invariant(domain: Finite, kind: str) -> None:
    energy = Target(domain, kind)
    assert invariance_p(RelaxedMALA(0.4), energy) > PASS
    assert invariance_p(RelaxedMALA(0.1, temperature=0.3), energy, num_chains=50_000) > PASS


@two_valued
def test_converges_from_the_worst_start(domain: Finite) -> None:
    assert convergence_distance(RelaxedMALA(0.4), Target(domain, "quadratic"), 60, num_chains=5000) < 0.04


@two_valued
def test_z_stays_standard_normal_in_size(domain: Finite) -> None:
    """Given x, |z_i| is half normal: each of ten equally likely bins holds 10 % of 200,000 draws, within 0.3 %."""
    torch.manual_seed(0)
    energy = Target(domain, "quadratic")
    state = RelaxedMALA(0.4).init(energy, Exact(energy).sample(200_000))
    for _ in range(3):
        state, _ = RelaxedMALA(0.4).step(energy, state)
    level = 2 * torch.special.ndtr(state.z.abs()) - 1
    for i in range(4):
        share = torch.histc(level[:, i], 10, 0, 1) / len(level)
        torch.testing.assert_close(share, torch.full_like(share, 0.1), atol=0.003, rtol=0)
    assert torch.equal(state.x, harden(domain, state.z))


MUTANTS = {
    "the stand-in's energy decides": (RelaxedMALA, "x=x, energy=energy(x)", "x=x, energy=energy(soft)"),
    "no base law": (RelaxedMALA, "+ state.z.square().flatten(1).sum(1) / 2", ""),
    "no reverse term": (MetropolisSampler, "+ back - forth", ""),
    "reverse from the old mean": (MetropolisSampler, "back = (draw.log_prob, there", "back = (draw.log_prob, here"),
    "noise of half the variance": (
        Gaussian,
        "self.mean + self.variance.sqrt()",
        "self.mean + self.variance.sqrt() / 2**0.5",
    ),
}


@pytest.mark.parametrize(("cls", "old", "new"), MUTANTS.values(), ids=MUTANTS)
def test_mutants_are_caught(cls: type, old: str, new: str) -> None:
    wrong = mutant(cls, old, new)
    if cls is not RelaxedMALA:
        wrong = part(cls, wrong)
    energy = Target(DOMAINS["spin"], "quadratic")
    assert invariance_p(wrong(0.4), energy, num_steps=3, num_chains=100_000) < FAIL


def part(cls: type, wrong: Any) -> Any:
    """RelaxedMALA that uses the mutant `wrong` of the class `cls`."""
    use = "return Gaussian(" if cls is Gaussian else "class RelaxedMALA(MetropolisSampler)"
    return mutant(RelaxedMALA, use, use.replace(cls.__name__, "Wrong"), Wrong=wrong)


def test_the_right_sampler_passes_the_test_of_mutants() -> None:
    energy = Target(DOMAINS["spin"], "quadratic")
    assert invariance_p(RelaxedMALA(0.4), energy, num_steps=3, num_chains=100_000) > PASS


@two_valued
def test_relaxation(domain: Finite) -> None:
    torch.manual_seed(0)
    x = domain.random(1000).double()
    z = lift(x)
    assert torch.equal(harden(domain, z), x)
    z.requires_grad_()
    soft, slope = soften(domain, z, 0.7)
    torch.testing.assert_close(torch.autograd.grad(soft.sum(), z)[0], slope)
    torch.testing.assert_close(soften(domain, z, 1e-4)[0].detach(), x, atol=0.3, rtol=0)
    assert soft.min() > domain.values.min() and soft.max() < domain.values.max()


@two_valued
def test_the_drift_is_cut_to_one_unit_in_either_direction(domain: Finite) -> None:
    torch.manual_seed(0)
    state = RelaxedMALA(0.4).init(energy := Target(domain, "cubic", scale=100), domain.random(200).double())
    drift = 0.4 * state.drift
    assert drift.min() < -1 and drift.max() > 1 and (drift.abs() < 1).any()
    proposal = RelaxedMALA(0.4).proposal(energy, state)
    cut = torch.where(drift.abs() > 1, drift.sign(), drift)
    torch.testing.assert_close((proposal.mean, proposal.variance.double()), (0.6 * state.z - cut, cut.new_tensor(0.8)))


class Counting(Target):
    calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return super().forward(x)


def test_two_evaluations_a_step() -> None:
    energy = Counting(Spin(4), "cubic")
    state = RelaxedMALA(0.3).init(energy, energy.domain.random(5).double())
    energy.calls = 0
    for k in range(4):
        state, info = RelaxedMALA(0.3).step(energy, state)
        assert info.evaluations == 2 and energy.calls == 2 * (k + 1) and state.step == k + 1
        torch.testing.assert_close(state.energy, energy(state.x))
        soft, slope = soften(energy.domain, state.z, 1.0)
        torch.testing.assert_close(state.drift, energy.value_and_grad(soft)[1] * slope)
        energy.calls -= 2


@pytest.mark.parametrize("scale", [0.0, 1e4])
@cases("dtype", [torch.float32, torch.float64], fast=[0])
@cases("domain", TWO_VALUED, fast=("spin",))
def test_flat_and_steep_energies(domain: Finite, dtype: torch.dtype, scale: float) -> None:
    """From the least likely state, one chain reaches the most likely one of a steep energy."""
    torch.manual_seed(0)
    energy = Target(domain, "quadratic", scale=scale)
    exact = Exact(energy)
    values = energy(exact.states)
    worst = exact.states[values.argmax()][None].to(dtype)
    with torch.inference_mode():
        x, info = RelaxedMALA(0.4).sample(energy, worst, 400)
    assert x.dtype == info.acceptance.dtype == dtype and info.acceptance.isfinite().all() and info.hops > 0
    assert scale == 0 or torch.equal(x[0].double(), exact.states[values.argmin()])


def test_infinite_and_nan_energies_are_not_entered() -> None:
    class Walled(Target):
        bad = float("nan")

        def forward(self, x: Tensor) -> Tensor:
            return torch.where(x[:, 0] == 1, self.bad, super().forward(x))

    energy = Walled(Spin(4), "cubic")
    for Walled.bad in (float("nan"), float("inf")):
        torch.manual_seed(0)
        start = torch.tensor([[-1.0, 1, -1, 1]]).expand(64, 4)
        x, info = RelaxedMALA(0.4).sample(energy, start, 30)
        assert (x[:, 0] == -1).all() and info.hops.min() > 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: RelaxedMALA(0.0), "step_size is 0.0"),
        (lambda: RelaxedMALA(0.1, temperature=-1.0), "temperature is -1.0"),
        (lambda: RelaxedMALA(0.1).check(Target(Ordinal(2, 3), "cubic")), "Binary or Spin domains, but Rugged lives on"),
    ],
)
def test_wrong_use(call: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        call()


def test_contract() -> None:
    sampler: Any = RelaxedMALA(0.1)
    assert sampler.exact and not sampler.state_dict() and set(dict(sampler.named_buffers())) == {"step_size"}
    energy: Energy = Target(Binary(4), "cubic")
    sampler.check(energy)
    start = energy.domain.random(3).double()
    x, info = sampler.sample(energy, start, 0)
    assert torch.equal(x, start) and info.evaluations == 0
