"""Steps as functions of tensors: those of `chain`, number by number; compiled, they are the same functions."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers_finite import DOMAINS, Target
from helpers_mutants import mutant
from torch import Tensor

import ebmlab.samplers.compiled as compiled
import ebmlab.samplers.pure_steps as pure
import ebmlab.samplers.sampler as base
from ebmlab.domains import Real
from ebmlab.energies import GRBM, MLP, RBM, Energy, Ising, ResNet
from ebmlab.errors import UserError
from ebmlab.learners import AdaptiveDMALA
from ebmlab.numerics import noise
from ebmlab.samplers import ACS, DMALA, GWG, AnyScale, BlockGibbs, ChromaticGibbs, Cosine, Gibbs, Langevin, Sampler

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
CYCLE = ACS(step_sizes=[2.0, 0.6, 0.3], balances=[0.8, 0.6, 0.5])
KERNELS: list[Sampler] = [DMALA(0.4), DMALA(0.6, balance=0.7), CYCLE, AnyScale("first", 0.5, 0.6), GWG()]
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


def make_rbm() -> RBM:
    torch.manual_seed(0)
    rbm = RBM(6, 4)
    for parameter in rbm.parameters():
        torch.nn.init.normal_(parameter)
    return rbm.requires_grad_(False)


def plain_steps(sampler: Sampler, energy: Energy, x: Tensor, num_steps: int, step: Any = None) -> list[Tensor]:
    kernel = sampler.pure_steps(energy)
    assert kernel is not None
    step, settings = step or kernel.step, kernel.settings.to(x)
    with torch.no_grad():
        states = [kernel.start(energy, x, settings[0])]
        for k in range(num_steps):
            states.append(step(energy, states[-1], settings[k % len(settings)]))
    return [state[0] for state in states[1:]]


def follows(
    sampler: Sampler, energy: Energy, step: Any = None, same: Callable[[Tensor, Tensor], bool] = torch.equal
) -> bool:
    """Whether the chain of pure steps is at the states of `Sampler.chain`, from the same random numbers."""
    torch.manual_seed(0)
    x = energy.domain.random(100)
    torch.manual_seed(1)
    expected = [state.x for state, _ in sampler.chain(energy, x, 9)]
    assert not torch.equal(expected[-1], x)
    torch.manual_seed(1)
    return all(map(same, plain_steps(sampler, energy, x, 9, step), expected))


@pytest.mark.parametrize("sampler", KERNELS, ids=lambda sampler: type(sampler).__name__)
@pytest.mark.parametrize("make", ENERGIES.values(), ids=ENERGIES)
def test_pure_steps_are_those_of_the_chain(sampler: Sampler, make: Any) -> None:
    assert follows(sampler, make())


def test_block_gibbs_draws_the_same_bits() -> None:
    assert follows(BlockGibbs(), make_rbm())


@pytest.mark.parametrize(
    "energy", [Ising.lattice(4, 0.3, field=0.1), Ising.lattice(20, 0.3), Ising.barabasi_albert(30, 2, 0.2)]
)
def test_sweeps_draw_the_same_spins(energy: Ising) -> None:
    assert follows(ChromaticGibbs(), energy)


@pytest.mark.parametrize("adjust_from", [None, 0])
@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_langevin_moves_alike(adjust_from: int | None, temperature: float) -> None:
    sampler = Langevin(0.1, adjust_from, temperature=temperature)
    assert follows(sampler, Cubic(), same=lambda a, b: torch.allclose(a, b, atol=1e-5))


MUTANTS = {
    "no reverse term": ("* flips).flatten(1).sum(1) - there[1] + here[1]", "* flips).flatten(1).sum(1) * 0"),
    "one acceptance per batch": ("log_ratio.clamp(max=0).exp()", "log_ratio[:1].clamp(max=0).exp()"),
    "no Metropolis": ("uniform(log_ratio) <", "-uniform(log_ratio) <"),
    "another step size": ("logit_0 + weight * fall", "2 * logit_0 + weight * fall"),
}


@pytest.mark.parametrize(("old", "new"), MUTANTS.values(), ids=MUTANTS)
@pytest.mark.parametrize(("sampler", "step"), [(DMALA(0.6), pure.step_flips), (CYCLE, pure.step_cycle)])
def test_mutants_differ(sampler: Sampler, step: Any, old: str, new: str) -> None:
    assert not follows(sampler, Target(DOMAINS["spin"], "cubic"), mutant(step, old, new))


def test_mutants_of_the_law_of_a_step_differ() -> None:
    """A law that was made with the settings of the step before, and Gibbs with gradients without the way back."""
    target = Target(DOMAINS["spin"], "cubic")
    assert not follows(CYCLE, target, mutant(pure.step_cycle, "_law(there, settings)", "_law(there, 2 * settings)"))
    assert not follows(GWG(), target, mutant(pure.step_gwg, "there[2].gather(1, chosen) - ", ""))


LANGEVIN_MUTANTS = {
    "no reverse term": ("/ temperature - back + forth", "/ temperature"),
    "no temperature": ("/ temperature - back", "- back"),
    "another noise": ("(2 * alpha * temperature).sqrt() * noise", "(alpha * temperature).sqrt() * noise"),
}


@pytest.mark.parametrize(("old", "new"), LANGEVIN_MUTANTS.values(), ids=LANGEVIN_MUTANTS)
def test_mutants_of_adjusted_langevin_differ(old: str, new: str) -> None:
    wrong = mutant(pure.step_adjusted, old, new)
    same = lambda a, b: torch.allclose(a, b, atol=1e-5)  # noqa: E731
    assert not follows(Langevin(0.1, 0, temperature=0.5), Cubic(), wrong, same)


def test_both_colours_are_redrawn() -> None:
    wrong = mutant(pure.step_sweep, "in energy.colours:", "in energy.colours[:1]:")
    assert not follows(ChromaticGibbs(), Ising.lattice(4, 0.3), wrong)


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("few", [0, 2**40], ids=["torch's random numbers", "the program's"])
@pytest.mark.parametrize("sampler", [DMALA(0.4), CYCLE, GWG(), BlockGibbs()], ids=lambda s: type(s).__name__)
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
    y = sampler.run(rbm, x, 19, compile=True)
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
    "many spins, dense couplings": (ChromaticGibbs(), lambda: Ising.lattice(10, 0.3), 1000),
    "autograd": (DMALA(0.4), lambda: Target(DOMAINS["binary"], "cubic"), 100),
    "a network": (DMALA(0.4), lambda: MLP(6), 100),
    "one chain of DMALA": (DMALA(0.4), lambda: make_rbm().requires_grad_(), 1),
    "one chain of block Gibbs": (BlockGibbs(), lambda: make_rbm().requires_grad_(), 1),
    "Langevin": (Langevin(0.1), Cubic, 100),
    "adjusted Langevin": (Langevin(0.1, 0), Cubic, 100),
}


@needs_compiler
@pytest.mark.slow
@pytest.mark.skipif(torch.__version__ < "2.7", reason="older programs draw random numbers in another order")
@pytest.mark.parametrize(("sampler", "make", "chains"), COMPILED.values(), ids=COMPILED)
def test_a_compiled_chain_is_the_plain_one(
    sampler: Sampler, make: Callable[[], Energy], chains: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With torch's own random numbers in place of the compiler's."""
    monkeypatch.setattr(compiled, "FEW_NUMBERS", 0)
    torch.manual_seed(0)
    energy = make()
    x = energy.domain.random(chains)
    torch.manual_seed(1)
    expected = plain_steps(sampler, energy, x, 20)[-1]
    torch.manual_seed(1)
    found = sampler.run(energy, x, 20, compile=True)
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
        UserError, match=r"run\(compile=True\): Branching cannot be compiled \(.+\): leave compilation out$"
    ):
        Langevin(0.1).run(Branching(), torch.randn(5, 4), 8, compile=True)


def test_a_site_without_a_valid_law_is_not_masked() -> None:
    energy = Ising.lattice(4, 0.3)
    energy.field[3] = torch.nan
    found = plain_steps(ChromaticGibbs(), energy, energy.random(5), 2)
    assert found[0][:, 3].isnan().all() and found[-1].isnan().sum() > 5


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
        (GWG(num_flips=2), RBM(6, 3)),
        (BlockGibbs(), GRBM(6, 3)),
        (DMALA(0.2, window=1), Target(DOMAINS["ordinal"], "cubic")),
        (DMALA(0.2), ResNet((1, 8, 8), channels=4)),
        (AdaptiveDMALA(0.2), RBM(6, 3)),
        (Langevin(0.1, adjust_from=5), Cubic()),
        (Langevin(0.1, schedule=Cosine()), Cubic()),
        (ChromaticGibbs(), Ising(torch.ones(9, 9) - torch.eye(9))),
    ],
)
def test_kernels_without_pure_steps_are_refused(sampler: Sampler, energy: Energy) -> None:
    with pytest.raises(UserError, match=r"run\(compile=True\): .* cannot be compiled with these settings"):
        sampler.run(energy, energy.domain.random(2), 3, compile=True)


def test_a_missing_compiler_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    rbm = make_rbm()
    with pytest.raises(UserError, match="needs a C\\+\\+ compiler, and none of g"):
        DMALA(0.2).run(rbm, rbm.random(2), 8, compile=True)
