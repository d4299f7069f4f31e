"""Kernels as programs take them, with tensors for settings: the steps of `chain`, number by number, and compiled."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers_finite import DOMAINS, Target
from helpers_grbm import make_grbm
from torch import Tensor

import ebmlab.engine.compiled as compiled
import ebmlab.samplers.sampler as base
from ebmlab.domains import Binary, Real
from ebmlab.energies import GRBM, MLP, RBM, Energy, Ising, ResNet
from ebmlab.energies.pairwise.scalar_potts import ScalarPotts
from ebmlab.errors import UserError
from ebmlab.learners import AdaptiveDMALA
from ebmlab.native import block_gibbs, dmala, draws, ising_sweeps, word_sweeps
from ebmlab.numerics import noise
from ebmlab.samplers import (
    ACS,
    DLMC,
    DMALA,
    DULA,
    GWG,
    AnyScale,
    BlockGibbs,
    ChromaticGibbs,
    Cosine,
    DiscreteHAMS,
    EnergyState,
    Gibbs,
    GibbsLangevin,
    Info,
    Kernel,
    Langevin,
    PathAuxiliary,
    RegularisedLangevin,
    Sampler,
    Tempered,
)
from ebmlab.samplers.metropolis import metropolis

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
CYCLE = ACS(step_sizes=[2.0, 0.6, 0.3], balances=[0.8, 0.6, 0.5])
KERNELS: list[Sampler] = [
    DMALA(0.4),
    DMALA(0.6, balance=0.7),
    DULA(0.4),
    CYCLE,
    AnyScale("first", 0.5, balance=0.6),
    GWG(),
    GWG(2),
    PathAuxiliary(2),
    DLMC(0.5),
    DLMC(0.5, solver="euler"),
    RegularisedLangevin(0.9),
    DiscreteHAMS(0.9),
]
ENERGIES = {
    "binary": lambda: Target(DOMAINS["binary"], "cubic"),
    "spin": lambda: Target(DOMAINS["spin"], "cubic"),
    "RBM": lambda: make_rbm(),
}


class Cubic(Energy):
    """x^4 / 4 + x^3 / 5 of each coordinate, and a product of neighbours; differentiated by autograd."""

    domains = (Real,)

    def __init__(self) -> None:
        super().__init__()
        self.domain = Real(4)

    def forward(self, x: Tensor) -> Tensor:
        return (x**4 / 4 + x**3 / 5).sum(1) + 0.3 * (x[:, 1:] * x[:, :-1]).sum(1)


class Halves(Sampler):
    """A user's sampler: proposes to flip each bit with probability one half."""

    domains, exact = (Binary,), True

    def kernel_on(self, energy: Energy) -> Kernel:
        def start(energy: Energy, x: Tensor, settings: Any) -> EnergyState:
            return EnergyState(x=x, energy=energy(x))

        return Kernel(start, half_step)


def half_step(energy: Energy, state: EnergyState, settings: Any) -> tuple[EnergyState, Info]:
    y = (noise.uniform(state.x) < 0.5).to(state.x)
    new = EnergyState(x=y, energy=energy(y))
    accepted, probability = metropolis(state.energy - new.energy)
    after = new.where(accepted, state)
    return after, Info(probability, lambda: energy.domain.hops(after.x, state.x))


class OwnSteps(DMALA):
    """Changes the steps of its base, and so takes no kernel from it."""

    def step(self, energy: Energy, state: Any) -> Any:
        return super().step(energy, state)


def make_rbm() -> RBM:
    torch.manual_seed(0)
    rbm = RBM(6, 4)
    for parameter in rbm.parameters():
        torch.nn.init.normal_(parameter)
    return rbm.requires_grad_(False)


def plain_steps(sampler: Sampler, energy: Energy, x: Tensor, num_steps: int) -> list[Tensor]:
    kernel = sampler.kernel_on(energy)
    assert kernel is not None
    rows = kernel.settings.to(torch.promote_types(x.dtype, torch.float32))
    with torch.no_grad():
        states = [kernel.start(energy, x, rows[0].unbind(), *kernel.options)]
        for k in range(num_steps):
            states.append(kernel.step(energy, states[-1], rows[k % len(rows)].unbind(), *kernel.options)[0])
    return [state.x for state in states[1:]]


def follows(sampler: Sampler, energy: Energy, same: Callable[[Tensor, Tensor], bool] = torch.equal) -> bool:
    """Whether steps with tensors for settings are those of `Sampler.chain`, from the same random numbers."""
    torch.manual_seed(0)
    x = energy.domain.random(100)
    torch.manual_seed(1)
    expected = [state.x for state, _ in sampler.chain(energy, x, 9)]
    assert not torch.equal(expected[-1], x)
    torch.manual_seed(1)
    return all(map(same, plain_steps(sampler, energy, x, 9), expected))


@pytest.mark.parametrize("sampler", KERNELS, ids=lambda sampler: type(sampler).__name__)
@pytest.mark.parametrize("make", ENERGIES.values(), ids=ENERGIES)
def test_settings_may_be_tensors(sampler: Sampler, make: Any) -> None:
    assert follows(sampler, make())


def test_block_gibbs_draws_the_same_bits() -> None:
    assert follows(BlockGibbs(), make_rbm())


@pytest.mark.parametrize(
    "energy", [Ising.lattice(4, 0.3, field=0.1), Ising.lattice(20, 0.3), Ising.barabasi_albert(30, 2, coupling=0.2)]
)
def test_sweeps_draw_the_same_spins(energy: Ising) -> None:
    assert follows(ChromaticGibbs(), energy)


@pytest.mark.parametrize("adjust_from", [None, 0])
@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_langevin_moves_alike(adjust_from: int | None, temperature: float) -> None:
    sampler = Langevin(0.1, adjust_from, temperature=temperature)
    assert follows(sampler, Cubic(), same=lambda a, b: torch.allclose(a, b, atol=1e-5))


@pytest.mark.parametrize("adjust_from", [None, 0])
def test_gibbs_langevin_moves_alike(adjust_from: int | None) -> None:
    sampler = GibbsLangevin(0.3, 4, adjust_from=adjust_from, temperature=0.7)
    assert follows(sampler, make_grbm(2).float(), same=lambda a, b: torch.allclose(a, b, atol=1e-5))


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("few", [0, 2**40], ids=["torch's random numbers", "the program's"])
@pytest.mark.parametrize("sampler", [DMALA(0.4), CYCLE, GWG(), BlockGibbs(), Halves()], ids=lambda s: type(s).__name__)
def test_compiled_chains_follow_the_law(sampler: Sampler, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """20,000 exact draws, in 3 blocks, are as well spread over the 64 states after 16 compiled steps and 3 others."""
    monkeypatch.setattr(compiled, "FEW_NUMBERS", few)
    monkeypatch.setattr(base, "CACHED", 1)
    monkeypatch.setattr(base, "SMALLEST", 7_000)
    rbm = make_rbm()
    states = rbm.domain.enumerate()
    law = (-rbm(states)).softmax(0)
    torch.manual_seed(0)
    x = states[law.multinomial(20_000, replacement=True)]
    y = sampler.last_states(rbm, x, 19, compile=True)
    assert (x != y).any(1).float().mean() > 0.2
    counts = torch.bincount((y.long() * 2 ** torch.arange(5, -1, -1)).sum(1), minlength=64)
    expected = 20_000 * law
    chi_square = float(((counts - expected).square() / expected).sum())
    assert chi_square < 103.4  # of 63 degrees of freedom: one right sampler in a thousand fails


COMPILED: dict[str, tuple[Sampler, Callable[[], Energy], int]] = {
    "DMALA": (DMALA(1.6), lambda: Ising.lattice(3, 0.3), 100),
    "ACS": (CYCLE, lambda: Ising.lattice(3, 0.3), 100),
    "sweeps": (ChromaticGibbs(), lambda: Ising.lattice(4, 0.3), 100),
    "many spins": (ChromaticGibbs(), lambda: Ising.lattice(20, 0.3), 100),  # bits of numpy's generator
    "paths": (PathAuxiliary(2), lambda: Ising.lattice(3, 0.3), 100),
    "without Metropolis": (DULA(0.4), lambda: Ising.lattice(3, 0.3), 100),
    "levels": (DMALA(0.8, window=1), lambda: Target(DOMAINS["ordinal"], "cubic"), 100),
    "classes": (DMALA(0.8), lambda: Target(DOMAINS["categorical"], "cubic"), 100),
    "many spins, dense couplings": (ChromaticGibbs(), lambda: Ising.lattice(10, 0.3), 1000),
    "autograd": (DMALA(0.4), lambda: Target(DOMAINS["binary"], "cubic"), 100),
    "a network": (DMALA(0.4), lambda: MLP(6), 100),
    "one chain of DMALA": (DMALA(0.4), lambda: make_rbm().requires_grad_(), 1),
    "one chain of block Gibbs": (BlockGibbs(), lambda: make_rbm().requires_grad_(), 1),
    "Langevin": (Langevin(0.1), Cubic, 100),
    "adjusted Langevin": (Langevin(0.1, 0), Cubic, 100),
    "Gibbs-Langevin": (GibbsLangevin(0.3, 4), lambda: make_grbm(2).float(), 100),
    "adjusted Gibbs-Langevin": (GibbsLangevin(0.3, 4, adjust_from=0), lambda: make_grbm(2).float(), 100),
}


@needs_compiler
@pytest.mark.slow
@pytest.mark.skipif(torch.__version__ < "2.7", reason="older programs draw random numbers in another order")
@pytest.mark.parametrize(("sampler", "make", "chains"), COMPILED.values(), ids=COMPILED)
def test_a_compiled_chain_is_the_plain_one(
    sampler: Sampler, make: Callable[[], Energy], chains: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With torch's own random numbers in place of the compiler's, and without kernels in C++."""
    for module in (dmala, block_gibbs):
        monkeypatch.setattr(module, "checked", lambda: None)
    monkeypatch.setattr(word_sweeps, "kernel", lambda: None)
    monkeypatch.setattr(ising_sweeps, "kernels", lambda: None)
    monkeypatch.setattr(draws, "ENOUGH", 2**40)
    monkeypatch.setenv("EBMLAB_CACHE", str(tmp_path))  # programs that are kept do not notice it
    monkeypatch.setattr(compiled, "FEW_NUMBERS", 0)
    torch.manual_seed(0)
    energy = make()
    x = energy.domain.random(chains)
    torch.manual_seed(1)
    expected = plain_steps(sampler, energy, x, 20)[-1]
    torch.manual_seed(1)
    found = sampler.last_states(energy, x, 20, compile=True)
    assert not torch.equal(found, x) and found.is_contiguous()
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
    assert all(parameter.requires_grad for parameter in energy.parameters())


@needs_compiler
@pytest.mark.slow
def test_an_energy_that_cannot_be_compiled_is_one_line() -> None:
    class Branching(Cubic):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) if x.sum() > 0 else x.square().sum(1)

    with pytest.raises(
        UserError, match=r"last_states\(compile=True\): Branching cannot be compiled \(.+\): leave compilation out$"
    ):
        Langevin(0.1).last_states(Branching(), torch.randn(5, 4), 8, compile=True)


def test_a_damaged_cache_of_programs_is_named() -> None:
    rbm = RBM(4, 3)
    expected = (
        r"mine: torch's cache of programs is damaged \(a.so: file too short\), .*: remove /.+, or name another folder"
    )
    with (
        pytest.raises(UserError, match=expected),
        compiled.compiling(lambda energy, x: energy(x), rbm, rbm.random(2), "mine"),
    ):
        raise torch._dynamo.exc.InternalTorchDynamoError("a.so: file too short")


@needs_compiler
@pytest.mark.slow
def test_a_compiled_report_is_the_plain_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over two programs and three more steps, in blocks of which the last is filled up."""
    monkeypatch.setattr(compiled, "FEW_NUMBERS", 0)
    rbm, reports = make_rbm(), []
    for few in (2**19, 1):
        monkeypatch.setattr(base, "CACHED", few)
        monkeypatch.setattr(base, "SMALLEST", 40)
        x = rbm.random(100)
        for compile in (False, True):
            torch.manual_seed(1)
            last, info = DMALA(0.4).sample(rbm, x, 19, compile=compile)
            reports.append((last, info.acceptance, info.hops))
            assert info.evaluations == 1 and info.hops.shape == (100,)
    torch.testing.assert_close(reports[1], reports[0], atol=1e-4, rtol=1e-4)
    means = [[value.mean() for value in report] for report in reports]
    torch.testing.assert_close(means[3], means[0], atol=0.1, rtol=0)


@needs_compiler
@pytest.mark.slow
def test_a_compiled_report_of_spins_is_the_plain_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their states lie across memory, which the compiler does not take for an output."""
    monkeypatch.setattr(compiled, "FEW_NUMBERS", 0)
    energy = Ising.lattice(6, 0.3)
    x, reports = energy.random(50), []
    for compile in (False, True):
        torch.manual_seed(1)
        last, info = ChromaticGibbs().sample(energy, x, 19, compile=compile)
        reports.append((last, info.acceptance, info.hops))
    torch.testing.assert_close(reports[1], reports[0], atol=1e-5, rtol=1e-5)


def test_words_are_what_the_compiler_thinks() -> None:
    seed = torch.randint(2**62, (3,))
    torch.library.opcheck(
        noise._words_in_programs, (torch.rand(30, 20).T, seed), test_utils=("test_schema", "test_faketensor")
    )


def test_gradients_are_detached_in_programs_of_the_user() -> None:
    network = MLP(4)
    value, grad = torch.compile(network.value_and_grad, backend="eager")(network.random(3))
    assert not value.requires_grad and not grad.requires_grad


@pytest.mark.parametrize(
    ("sampler", "energy"),
    [
        (Gibbs(), RBM(6, 3)),
        (Tempered(GWG()), RBM(6, 3)),
        (OwnSteps(0.2), RBM(6, 3)),
        (DMALA(0.2), ResNet((1, 8, 8), channels=4)),
        (AdaptiveDMALA(0.2), RBM(6, 3)),
        (Langevin(0.1, adjust_from=5), Cubic()),
        (GibbsLangevin(0.1, adjust_from=5), GRBM(2, 3)),
        (Langevin(0.1, schedule=Cosine()), Cubic()),
        (ChromaticGibbs(), ScalarPotts(torch.ones(9, 9) - torch.eye(9)).double()),
    ],
)
def test_samplers_without_a_kernel_are_refused(sampler: Sampler, energy: Energy) -> None:
    with pytest.raises(UserError, match=r"last_states\(compile=True\): .* cannot be compiled with these settings"):
        sampler.last_states(energy, energy.domain.random(2), 3, compile=True)


def test_a_missing_compiler_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    rbm = make_rbm()
    with pytest.raises(UserError, match="needs a C\\+\\+ compiler, and none of g"):
        DMALA(0.2).last_states(rbm, rbm.random(100), 8, compile=True)
    monkeypatch.setenv("CXX", "")
    with pytest.raises(UserError, match="needs a C\\+\\+ compiler, and CXX is empty: unset it"):
        DMALA(0.2).last_states(rbm, rbm.random(100), 8, compile=True)


def test_programs_divide_the_chain_where_they_can() -> None:
    """Of 19 steps, three follow two programs one by one."""
    assert [compiled.unrolled(steps) for steps in (8, 40, 20, 18, 14, 12, 25, 19)] == [8, 8, 10, 9, 7, 6, 5, 8]
