"""Compiled temperatures of annealed importance sampling: those of the plain walk, number by number."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers_finite import DOMAINS, Target
from helpers_grbm import make_grbm
from helpers_mutants import mutant

import ebmlab.engine.annealed as annealed
import ebmlab.evaluation.annealing as annealing
import ebmlab.evaluation.walk as walk
from ebmlab.domains import Binary
from ebmlab.energies import GRBM, RBM, Base, Bernoulli, Bridge, Energy, Gaussian, ResNet, Solved, reference
from ebmlab.errors import UserError
from ebmlab.evaluation import LogZ, ais, exact_log_z, exact_samples, reverse_ais
from ebmlab.evaluation.ladder import Ladder
from ebmlab.evaluation.pilot import pilot_ladder
from ebmlab.evaluation.population import Population
from ebmlab.samplers import ACS, DMALA, GWG, AnyScale, BlockGibbs, Gibbs, GibbsLangevin, PathAuxiliary, Sampler

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
CYCLE = ACS(step_sizes=[2.0, 0.6, 0.3], balances=[0.8, 0.6, 0.5])
KERNELS: list[Sampler] = [DMALA(0.4), CYCLE, AnyScale("first", 0.5, balance=0.6), GWG(), PathAuxiliary(2), GWG(2)]


def energies() -> list[Energy]:
    torch.manual_seed(3)
    rbm = RBM(6, 4).double()
    for parameter in rbm.parameters():
        torch.nn.init.normal_(parameter)
    return [rbm.requires_grad_(False), Target(DOMAINS["binary"], "cubic"), Target(DOMAINS["spin"], "cubic")]


def weak_rbm() -> RBM:
    rbm = energies()[0]
    assert isinstance(rbm, RBM)
    with torch.no_grad():
        for parameter in rbm.parameters():
            parameter *= 0.3
    return rbm


CORRELATED = Gaussian(torch.zeros(2), torch.tensor([[1.0, 0.5], [0.5, 1.0]]))


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """The functions as they are, not compiled."""

    @contextlib.contextmanager
    def compiling(function: Any, *_: Any) -> Iterator[Any]:
        yield function

    monkeypatch.setattr(annealed, "compiling", compiling)
    monkeypatch.setattr(walk, "require_compiler", lambda *_: None)


def both(sampler: Sampler, energy: Energy, **settings: Any) -> tuple[LogZ, LogZ]:
    """The result of the plain walk and of the other, from the same random numbers."""
    results = []
    for compile in (False, True):
        torch.manual_seed(0)
        results.append(ais(energy, sampler, num_chains=60, num_temperatures=21, compile=compile, **settings))
    return results[0], results[1]


def same(a: LogZ, b: LogZ) -> bool:
    assert a.path is not None and b.path is not None
    equal = torch.equal(a.samples, b.samples) and torch.allclose(a.log_weights, b.log_weights, rtol=0, atol=1e-5)
    return equal and torch.allclose(a.path, b.path, rtol=1e-4)


@pytest.mark.parametrize("sampler", KERNELS, ids=lambda sampler: type(sampler).__name__)
@pytest.mark.parametrize("which", [0, 1, 2], ids=["RBM", "binary", "spin"])
@pytest.mark.usefixtures("plain")
def test_the_walk_is_the_plain_one(sampler: Sampler, which: int) -> None:
    a, b = both(sampler, energies()[which])
    assert same(a, b) and a.log_weights.std() > 0.01


JOINT: dict[str, tuple[Sampler, Energy, Base | None]] = {  # samplers that draw hidden units
    "block Gibbs": (BlockGibbs(), energies()[0], None),
    "from bits": (BlockGibbs(), energies()[0], Bernoulli(torch.linspace(0.1, 0.9, 6).double())),
    "from a model": (
        BlockGibbs(),
        energies()[0],
        Solved(weak := weak_rbm(), float(exact_log_z(weak)), samples=weak.random(60)),
    ),
    "GRBM": (BlockGibbs(), make_grbm(2), None),
}


@pytest.mark.parametrize("name", JOINT)
@pytest.mark.usefixtures("plain")
def test_the_walk_along_the_joint_law_is_the_plain_one(name: str) -> None:
    sampler, energy, base = JOINT[name]
    a, b = both(sampler, energy.requires_grad_(False), base=base)
    assert same(a, b) and a.log_weights.std() > 0.01


@pytest.mark.usefixtures("plain")
def test_gibbs_langevin_finds_log_z() -> None:
    """It draws hidden units where the walk begins, and so has other random numbers than the plain walk."""
    grbm = make_grbm(2).requires_grad_(False)
    torch.manual_seed(0)
    result = ais(grbm, GibbsLangevin(0.3, 4, adjust_from=0), num_chains=4000, num_temperatures=20, compile=True)
    weights = (result.log_weights.flatten() - float(exact_log_z(grbm))).exp()
    assert abs(weights.mean() - 1) < 4 * weights.std() / len(weights) ** 0.5


@pytest.mark.usefixtures("plain")
def test_the_path_that_is_walked_keeps_its_beta() -> None:
    energy = energies()[0]
    path = Bridge(reference(energy.domain), energy, beta=0.3)
    for compile in (False, True):
        walk.anneal(path, DMALA(0.4), Population(energy.random(5)), Ladder([0.0, 0.5, 1.0]), compile=compile)
    pilot_ladder(path, DMALA(0.4), 10, 5)
    assert path.beta == 0.3 and path.at(0.5).beta == 0.5


@pytest.mark.usefixtures("plain")
def test_other_bases_ladders_and_step_sizes() -> None:
    energy = Target(DOMAINS["binary"], "cubic")
    assert same(*both(GWG(), energy, base=Bernoulli(torch.full(energy.domain.shape, 0.2)), schedule="sigmoid"))
    ladder = Ladder([0.0, 0.1, 0.15, 0.4, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0], [1.0, 2.0, 0.5, 1.0, 3.0, 1, 1, 2, 0.3, 0.7])
    assert same(*both(DMALA(0.4), energy, schedule=ladder))
    assert same(*both(DMALA(0.4), energy, schedule="adaptive"))


class Forbidding(Energy):
    """Bits of which the first two may not both be 1."""

    domains = (Binary,)
    domain = Binary(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sum(1).masked_fill(x[:, 0] * x[:, 1] == 1, torch.inf)

    def value_and_grad(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self(x), torch.ones_like(x)


@pytest.mark.usefixtures("plain")
def test_backward_chains_end_at_the_base() -> None:
    """There beta is 0, and an energy that forbids a state must not forbid it any more."""
    energy, results = Forbidding(), []
    for compile in (False, True):
        torch.manual_seed(0)
        results.append(
            reverse_ais(energy, DMALA(0.4), exact_samples(energy, 200), num_temperatures=12, compile=compile)
        )
    assert same(*results)
    assert (results[1].samples[:, :2].sum(1) == 2).any()


@pytest.mark.usefixtures("plain")
def test_temperatures_that_float32_does_not_tell_apart_weigh_nothing() -> None:
    a, b = both(DMALA(0.4), Forbidding(), schedule=Ladder([0.0, 1e-9, 0.5, 0.5 + 1e-9, 1 - 1e-9, 1.0]))
    assert abs(a.log_z - b.log_z) < 1e-5


MUTANTS = {
    "the law of the last temperature": ("path.beta = beta\n", "pass\n"),
    "values at the last x": ("x, known = state.x, state.known", "x = state.x"),
    "weights of other temperatures": ("path.increment(x, beta, known)", "path.increment(x, beta + 0.01, known)"),
}


@pytest.mark.parametrize(("old", "new"), MUTANTS.values(), ids=MUTANTS)
@pytest.mark.parametrize("sampler", [DMALA(0.4), GWG()], ids=lambda s: type(s).__name__)
@pytest.mark.usefixtures("plain")
def test_mutants_differ(sampler: Sampler, old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    energy, wrong = Target(DOMAINS["binary"], "cubic"), mutant(annealed.temperatures, old, new)
    wrong.__wrapped__.__globals__["compiling"] = annealed.compiling
    monkeypatch.setattr(walk, "temperatures", wrong)
    assert not same(*both(sampler, energy))


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("sampler", [DMALA(0.4), CYCLE, GWG(), BlockGibbs()], ids=lambda s: type(s).__name__)
def test_compiled_temperatures_find_log_z(sampler: Sampler) -> None:
    torch.manual_seed(1)
    energy = energies()[0].float()
    result = ais(energy, sampler, num_chains=2000, num_temperatures=60, compile=True)
    assert abs(result.log_z - float(exact_log_z(energy))) < 4 * result.std_error
    law = (-energy(energy.domain.enumerate())).softmax(0)
    found = torch.bincount((result.samples.long() * 2 ** torch.arange(5, -1, -1)).sum(1), minlength=64) / 2000
    assert (found - law).abs().max() < 0.05


@pytest.mark.usefixtures("plain")
def test_an_interrupted_walk_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ebmlab.evaluation.saved_chains.EVERY", 0.0)
    energy, calls = energies()[0], iter(range(10))

    def stop() -> None:
        if next(calls) == 2:
            raise KeyboardInterrupt

    torch.manual_seed(0)
    whole = ais(energy, DMALA(0.4), num_chains=50, num_temperatures=30, compile=True)
    torch.manual_seed(0)
    with pytest.raises(KeyboardInterrupt):
        ais(
            energy,
            DMALA(0.4),
            num_chains=50,
            num_temperatures=30,
            saved=tmp_path / "chains.pt",
            check=stop,
            compile=True,
        )
    torch.manual_seed(0)
    assert same(
        whole, ais(energy, DMALA(0.4), num_chains=50, num_temperatures=30, saved=tmp_path / "chains.pt", compile=True)
    )


@needs_compiler
@pytest.mark.slow
def test_an_energy_that_cannot_be_compiled_is_named() -> None:
    class Branching(RBM):
        def value_and_grad(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return super().value_and_grad(x if x.sum() > 0 else 1 - x)

    with pytest.raises(
        UserError, match=r"ais\(compile=True\): Branching cannot be compiled \(.+\): leave compilation out$"
    ):
        ais(Branching(6, 3).requires_grad_(False), DMALA(0.4), num_chains=4, num_temperatures=8, compile=True)


def test_a_missing_compiler_is_told_before_the_pilot_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr(annealing, "pilot_ladder", None)
    with pytest.raises(UserError, match=r"ais\(compile=True\) needs a C\+\+ compiler, and none of g"):
        ais(RBM(6, 3), DMALA(0.4), num_chains=4, num_temperatures=8, schedule="adaptive", compile=True)


@pytest.mark.parametrize(
    ("sampler", "energy", "settings", "message"),
    [
        (BlockGibbs(), GRBM(2, 3), {"base": CORRELATED}, r"BlockGibbs draws all of v at once on the way from a Gaus"),
        (Gibbs(), Target(DOMAINS["binary"], "cubic"), {}, r"ais\(compile=True\): Gibbs on Rugged cannot be compiled"),
        (DMALA(0.4), ResNet((1, 8, 8), channels=4), {}, r"ais\(compile=True\): DMALA on ResNet cannot be compiled"),
        (DMALA(0.4), RBM(6, 3), {"resample": 0.5}, r"resample is 0\.5 and num_moves 1, but compiled temperatures"),
        (
            DMALA(0.4),
            RBM(6, 3),
            {"num_moves": 2},
            r"resample is 0\.0 and num_moves 2, but compiled temperatures",
        ),
    ],
)
def test_what_cannot_be_compiled_is_one_line(sampler: Sampler, energy: Energy, settings: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        ais(energy, sampler, num_chains=4, num_temperatures=3, compile=True, **settings)
