"""Steps as functions of tensors: those of `step`, number by number; compiled, they are the same function."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
import torch
from helpers_finite import DOMAINS, Target
from helpers_mutants import mutant

import ebmlab.samplers.pure_steps as pure
from ebmlab.energies import GRBM, RBM, Energy, Ising
from ebmlab.errors import UserError
from ebmlab.learners import AdaptiveDMALA
from ebmlab.samplers import ACS, DMALA, GWG, AnyScale, BlockGibbs, Gibbs, Sampler

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
KERNELS: list[Sampler] = [DMALA(0.4), DMALA(0.6, balance=0.7), AnyScale("first", 0.5, 0.6), GWG()]
ENERGIES = {
    "binary": lambda: Target(DOMAINS["binary"], "cubic"),
    "spin": lambda: Target(DOMAINS["spin"], "cubic"),
    "RBM": lambda: make_rbm(),
}


def make_rbm() -> RBM:
    torch.manual_seed(0)
    rbm = RBM(6, 4)
    for parameter in rbm.parameters():
        torch.nn.init.normal_(parameter)
    return rbm.requires_grad_(False)


def plain_steps(kernel: pure.PureSteps, energy: Energy, x: torch.Tensor, num_steps: int) -> list[torch.Tensor]:
    with torch.no_grad():
        states = [kernel.start(energy, x, *kernel.settings)]
        for _ in range(num_steps):
            states.append(kernel.step(energy, states[-1], *kernel.settings))
    return [state[0] for state in states[1:]]


def follows(sampler: Sampler, energy: Energy, step: Any = None) -> bool:
    """Whether the chain of pure steps is at the states of `Sampler.chain`, from the same random numbers."""
    torch.manual_seed(0)
    x = energy.random(100)
    kernel = sampler.pure_steps(make_rbm())  # for these targets, which are differentiated by autograd, it has none
    assert kernel is not None
    if step is not None:
        kernel = kernel._replace(step=step)
    torch.manual_seed(1)
    expected = [state.x for state, _ in sampler.chain(energy, x, 9)]
    assert not torch.equal(expected[-1], x)
    torch.manual_seed(1)
    return all(map(torch.equal, plain_steps(kernel, energy, x, 9), expected))


@pytest.mark.parametrize("sampler", KERNELS, ids=lambda sampler: type(sampler).__name__)
@pytest.mark.parametrize("make", ENERGIES.values(), ids=ENERGIES)
def test_pure_steps_are_those_of_the_chain(sampler: Sampler, make: Any) -> None:
    assert follows(sampler, make())


def test_block_gibbs_draws_the_same_bits() -> None:
    assert follows(BlockGibbs(), make_rbm())


MUTANTS = {
    "no reverse term": ("flatten(1).sum(1) - normaliser_y + normaliser", "flatten(1).sum(1) * 0"),
    "one acceptance per batch": ("log_ratio.clamp(max=0).exp()", "log_ratio[:1].clamp(max=0).exp()"),
    "no Metropolis": ("torch.rand_like(log_ratio) <", "-torch.rand_like(log_ratio) <"),
    "another step size": ("else 2.0) / alpha", "else 2.0) / alpha / 2"),
}


@pytest.mark.parametrize(("old", "new"), MUTANTS.values(), ids=MUTANTS)
def test_mutants_differ(old: str, new: str) -> None:
    assert not follows(DMALA(0.6), Target(DOMAINS["spin"], "cubic"), mutant(pure.step_langevin, old, new))


def test_mutants_of_gibbs_with_gradients_differ() -> None:
    wrong = mutant(pure.step_gwg, "there[2].gather(1, chosen) - ", "")
    assert not follows(GWG(), Target(DOMAINS["binary"], "cubic"), wrong)


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("sampler", [DMALA(0.4), GWG(), BlockGibbs()], ids=lambda sampler: type(sampler).__name__)
def test_compiled_chains_follow_the_law(sampler: Sampler) -> None:
    """20,000 exact draws are as well spread over the 64 states after 16 compiled steps and 3 others."""
    rbm = make_rbm()
    states = rbm.domain.enumerate()
    law = (-rbm(states)).softmax(0)
    torch.manual_seed(0)
    x = states[law.multinomial(20_000, replacement=True)]
    y = sampler.run(rbm, x, 19, compile=True)
    assert (x != y).any(1).float().mean() > 0.2
    counts = torch.bincount((y.long() * 2 ** torch.arange(5, -1, -1)).sum(1), minlength=64)
    expected = 20_000 * law
    chi_square = float(((counts - expected).square() / expected).sum())
    assert chi_square < 103.4  # of 63 degrees of freedom: one right sampler in a thousand fails


@needs_compiler
@pytest.mark.slow
def test_a_compiled_chain_is_the_plain_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """With torch's own random numbers in place of the compiler's."""
    import torch._inductor.config as inductor

    monkeypatch.setattr(inductor, "fallback_random", True)
    torch._dynamo.reset()
    energy, sampler = Ising.lattice(3, 0.3), DMALA(1.6)
    x = energy.random(50)
    kernel = sampler.pure_steps(energy)
    assert kernel is not None
    torch.manual_seed(1)
    expected = plain_steps(kernel, energy, x, 20)[-1]
    torch.manual_seed(1)
    assert torch.equal(sampler.run(energy, x, 20, compile=True), expected)


@pytest.mark.parametrize(
    ("sampler", "energy"),
    [
        (Gibbs(), RBM(6, 3)),
        (ACS(2.0, 0.1, 3), RBM(6, 3)),
        (GWG(num_flips=2), RBM(6, 3)),
        (BlockGibbs(), GRBM(6, 3)),
        (DMALA(0.2, window=1), Target(DOMAINS["ordinal"], "cubic")),
        (DMALA(0.2), Target(DOMAINS["binary"], "cubic")),
        (AdaptiveDMALA(0.2), RBM(6, 3)),
    ],
)
def test_kernels_without_pure_steps_are_refused(sampler: Sampler, energy: Energy) -> None:
    with pytest.raises(UserError, match=r"run\(compile=True\): .* cannot be compiled; DMALA"):
        sampler.run(energy, energy.domain.random(2), 3, compile=True)


def test_a_missing_compiler_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    rbm = make_rbm()
    with pytest.raises(UserError, match="needs a C\\+\\+ compiler, and none of g"):
        DMALA(0.2).run(rbm, rbm.random(2), 8, compile=True)


def test_half_precision_has_the_right_odds() -> None:
    torch.manual_seed(0)
    logits = torch.full((400_000,), -7.0, dtype=torch.bfloat16)
    share = float(pure._bits(logits).float().mean())
    assert share == pytest.approx(float(torch.sigmoid(torch.tensor(-7.0))), rel=0.2)
