"""RandomWalk: exact transition matrices, densities by enumeration, mutants."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers_batch import alone_and_together
from helpers_blocks import Sum, Table
from helpers_errors import refused
from helpers_finite import (
    DOMAINS,
    MOSTLY_CUBIC,
    Exact,
    Target,
    bias,
    convergence_distance,
)
from helpers_mutants import mutant
from helpers_tier import cases

from ebmlab.domains import Binary, Categorical, Finite, Ordinal, Real, Spin
from ebmlab.samplers import MetropolisSampler
from ebmlab.samplers.random_walk import RandomWalk
from ebmlab.testing import transition_matrix

SETTINGS: dict[str, dict[str, Any]] = {
    "1": {},
    "2": {"num_flips": 2},
    "p": {"probability": 0.3},
    "p 1": {"probability": 1.0},
}
WINDOWS: dict[str, dict[str, Any]] = {
    "window": {"window": 1},
    "wide window, 2": {"window": 2, "num_flips": 2},
    "window, p": {"window": 2, "probability": 0.4},
    "window of all": {"window": 9, "probability": 0.4},
}
CASES = [
    *[(domain, s) for domain in DOMAINS.values() for s in SETTINGS.values()],
    *[(Ordinal(2, 5), s) for s in WINDOWS.values()],
]
IDS = [*[f"{d}-{s}" for d in DOMAINS for s in SETTINGS], *WINDOWS]
every_case = pytest.mark.parametrize(("domain", "settings"), CASES, ids=IDS)
FEW = ("spin-1", "categorical-1", "binary-2", "ordinal-2", "spin-p", "categorical-p", *WINDOWS)
mostly_few = cases(("domain", "settings"), dict(zip(IDS, CASES, strict=True)), fast=FEW)


@MOSTLY_CUBIC
@mostly_few
def test_the_law_is_invariant(domain: Finite, settings: dict[str, Any], kind: Any) -> None:
    assert bias(RandomWalk(**settings), Target(domain, kind)) < 1e-12


@cases(
    ("domain", "settings"),
    dict(zip(IDS, CASES, strict=True)),
    fast=("spin-1", "ordinal-2", "categorical-p", "window, p"),
)
def test_the_law_is_reached(domain: Finite, settings: dict[str, Any]) -> None:
    energy = Table(Target(domain, "cubic"))
    irreducible = domain.num_values > 2 or settings not in (SETTINGS["2"], SETTINGS["p 1"])
    distance = convergence_distance(RandomWalk(**settings), energy, num_steps=150, num_chains=2_000)
    assert distance < 0.08 if irreducible else distance > 0.1


def test_an_even_number_of_flips_keeps_the_parity() -> None:
    torch.manual_seed(0)
    x = Binary(5).random(100)
    last, _ = RandomWalk(2).sample(Table(Target(Binary(5), "cubic")), x, 30)
    assert torch.equal(last.sum(1) % 2, x.sum(1) % 2) and not torch.equal(last, x)


def test_the_window_at_the_edges() -> None:
    """From (0, 2) on {0, ..., 4}^2 with window 1, the value 0 can only become 1, and 2 becomes 1 or 3."""
    energy = Target(Ordinal(2, 5), "cubic")
    x = torch.tensor([[0.0, 2.0]], dtype=torch.float64)
    y = torch.tensor([[1.0, 2.0], [0.0, 1.0], [0.0, 3.0], [0.0, 4.0], [1.0, 1.0], [0.0, 2.0]], dtype=torch.float64)
    sampler = RandomWalk(window=1)
    law = sampler.proposal(energy, sampler.init(energy, x.expand_as(y)))
    torch.testing.assert_close(
        law.log_prob(y).exp(), torch.tensor([0.5, 0.25, 0.25, 0.0, 0.0, 0.0], dtype=torch.float64)
    )


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_one_energy_a_step_and_no_gradient(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    energy = Sum(Spin(6))
    monkeypatch.delattr(type(energy).__mro__[1], "value_and_grad")
    calls: list[int] = []
    energy.register_forward_pre_hook(lambda _, args: calls.append(len(args[0])))
    _, info = RandomWalk(**settings).sample(energy, Spin(6).random(7), 5)
    assert calls == [7] * 6 and info.evaluations == 1


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_a_chain_does_not_depend_on_its_batch(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    domain = Categorical(3, 4)
    start = domain.random(8).double()
    alone_and_together(RandomWalk(**settings), Table(Target(domain, "cubic")), start, monkeypatch, num_steps=20)


@cases("dtype", [torch.float32, torch.float64], fast=[0])
@mostly_few
def test_extreme_energies_of_one_chain(domain: Finite, settings: dict[str, Any], dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    energy, x = Target(domain, "cubic", scale=1e4), domain.random(1).to(dtype)
    last, info = RandomWalk(**settings).sample(energy, x, 60)
    domain.validate(last)
    assert last.dtype == info.acceptance.dtype == dtype and info.acceptance.isfinite().all()
    assert energy(last) <= energy(x)


@pytest.mark.parametrize("settings", [*SETTINGS.values(), *WINDOWS.values()], ids=[*SETTINGS, *WINDOWS])
def test_one_state(settings: dict[str, Any]) -> None:
    x, info = RandomWalk(**settings).sample(Sum(Ordinal(3, 1)), torch.zeros(2, 3), 4)
    assert not x.any() and not info.hops.any() and (info.acceptance == 1).all()


def test_the_probability_is_a_setting_that_can_be_tuned() -> None:
    sampler = RandomWalk(probability=0.4)
    assert dict(sampler.named_buffers()).keys() == {"probability"} and not sampler.state_dict()
    sampler.probability = torch.tensor(0.9)
    all_flip = transition_matrix(sampler, Target(Binary(3), "flat", scale=0.0))[0, 7]
    assert float(all_flip) == pytest.approx(0.9**3)
    assert not dict(RandomWalk().named_buffers())


MUTANTS: dict[str, tuple[dict[str, Any], str, str]] = {
    "the window's edges ignored": ({"window": 1}, "(high - low).log()", "(0 * high).log1p()"),
    "one-sided window": (
        {"window": 2},
        "(values + reach).clamp(max=largest)",
        "(values + reach).clamp(max=largest).minimum(values + 1)",
    ),
    "may stay": ({}, "drawn + (drawn >= values)", "drawn"),
}


@pytest.mark.parametrize(("settings", "old", "new"), MUTANTS.values(), ids=MUTANTS)
def test_mutants_are_caught(settings: dict[str, Any], old: str, new: str) -> None:
    energy = Table(Target(Ordinal(2, 5), "cubic"))
    sampler = mutant(RandomWalk, old, new)(**settings)
    assert bias(sampler, energy) > 1e-3


def test_no_reverse_term_is_caught() -> None:
    wrong = mutant(
        MetropolisSampler,
        "self.potential(state) - self.potential(new) + back - forth",
        "self.potential(state) - self.potential(new)",
    )
    sampler = type("Wrong", (RandomWalk,), {"step": wrong.step})(window=1)
    assert bias(sampler, Target(Ordinal(2, 5), "cubic")) > 1e-3


def test_acceptance_is_computed_from_the_density() -> None:
    """With probability p, each coordinate of two values changes with probability p."""
    energy = Target(Spin(4), "cubic")
    states = Exact(energy).states
    sampler = RandomWalk(probability=0.25)
    state = sampler.init(energy, states[:1].expand_as(states))
    changes = (states != states[0]).sum(1)
    expected = 0.25**changes * 0.75 ** (4 - changes)
    torch.testing.assert_close(sampler.proposal(energy, state).log_prob(states).exp(), expected.double())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RandomWalk(0), r"RandomWalk: num_flips is 0, but must be at least 1"),
        (lambda: RandomWalk(probability=1.5), r"RandomWalk: probability is 1.5, but must be above 0 and at most 1"),
        (lambda: RandomWalk(window=0), r"RandomWalk: window is 0, but must be at least 1, or null"),
        (lambda: RandomWalk(5).check(Sum(Binary(4))), r"RandomWalk: num_flips is 5, but Binary\(4\) has 4 coordinates"),
        (lambda: RandomWalk(window=1).check(Sum(Binary(4))), r"RandomWalk: a window needs an Ordinal domain, but Sum"),
        (lambda: RandomWalk().check(Sum(Real(4))), r"RandomWalk samples Binary or Spin or .*, but Sum lives on Real"),
    ],
)
def test_errors_name_what_is_wrong(make: Any, message: str) -> None:
    with refused(message):
        make()
