"""Underdamped Langevin: exact with Metropolis, BAOAB as written in the paper without it, and mutants are caught."""

from __future__ import annotations

import shutil

import pytest
import torch
from helpers_grbm import FAIL, PASS, Banana, invariance_p, last_state, make_grbm
from helpers_mutants import mutant
from helpers_real import Normal, banana_joint_p
from helpers_tier import cases

from ebmlab.energies import GRBM
from ebmlab.errors import UserError
from ebmlab.evaluation import ais, exact_log_z
from ebmlab.samplers import HMC, MALA, Sampler, UnderdampedLangevin
from ebmlab.samplers.underdamped_langevin import Options, UnderdampedState, start, step

STEP, FRICTION = 0.45, 0.4  # about nine in ten are accepted, and a velocity lives for five steps
SCALES = {"none": None, "diagonal": [0.6, 1.4], "dense": [[0.6, 0.0], [0.5, 1.2]]}
RATIO = "metropolis(state.energy - new.energy - kinetic_rise(end, begin))"
MUTANTS = {  # what to replace in the adjusted step, with what
    "no turn of a rejected velocity": ("velocity=-begin", "velocity=begin"),
    "a rejected velocity is the old one": ("velocity=-begin", "velocity=state.velocity"),
    "no kick at the beginning": ("velocity = kick(begin, scale, half, state.grad)", "velocity = begin"),
    "no kick at the end": ("end = kick(velocity, scale, half, new.grad)", "end = velocity"),
    "the old gradient at the end": (
        "end = kick(velocity, scale, half, new.grad)",
        "end = kick(velocity, scale, half, state.grad)",
    ),
    "a whole kick at the end": ("end = kick(velocity, scale, half,", "end = kick(velocity, scale, epsilon,"),
    "wrong mass in the acceptance": ("- kinetic_rise(end, begin)", "- kinetic_rise(end, begin) / 2"),
    "kinetic energy left out": ("- kinetic_rise(end, begin)", ""),
    "kinetic energy from before the refreshment": ("kinetic_rise(end, begin)", "kinetic_rise(end, state.velocity)"),
    "everything accepted": (RATIO, "torch.ones(len(begin)) > 0, torch.ones(len(begin))"),
    "noise too small": ("root(1 - kept * kept)", "root(1 - kept)"),
    "one ratio for the whole batch": (
        RATIO,
        "metropolis((state.energy - new.energy - kinetic_rise(end, begin)).mean().expand(len(begin)))",
    ),
}
UNADJUSTED = {  # and in BAOAB
    "no kick at the beginning": (
        "velocity = kick(state.velocity, scale, half, state.grad)",
        "velocity = state.velocity",
    ),
    "no kick at the end": ("velocity=kick(velocity, scale, half, new.grad)", "velocity=velocity"),
    "the old gradient at the end": (
        "velocity=kick(velocity, scale, half, new.grad)",
        "velocity=kick(velocity, scale, half, state.grad)",
    ),
    "a whole drift at the beginning": (
        "drift(state.x, scale, half, velocity)",
        "drift(state.x, scale, epsilon, velocity)",
    ),
    "noise too small": ("root(1 - kept * kept)", "root(1 - kept)"),
}


def exact(**settings: object) -> UnderdampedLangevin:
    return UnderdampedLangevin(STEP, FRICTION, adjusted=True, **settings)


def banana_state(sampler: Sampler, num_chains: int, num_steps: int = 4) -> tuple[Banana, UnderdampedState]:
    torch.manual_seed(0)
    target = Banana(2)
    return target, last_state(sampler, target, target.sample(num_chains), num_steps)


@pytest.mark.parametrize("scale", SCALES)
def test_leaves_the_mixture_invariant(scale: str) -> None:
    sampler = UnderdampedLangevin(0.9, FRICTION, adjusted=True, scale=SCALES[scale])
    assert sampler.exact and invariance_p(sampler, make_grbm(2)) > PASS


@pytest.mark.parametrize("scale", SCALES)
def test_leaves_the_joint_law_of_a_quartic_invariant(scale: str) -> None:
    target, state = banana_state(exact(scale=SCALES[scale]), 200_000)
    assert target.p_value(state.x) > PASS and banana_joint_p(target, state.x, state.velocity) > PASS


@cases("name", list(MUTANTS), fast=[0, 1])
def test_mutants_are_caught(name: str) -> None:
    wrong = mutant(UnderdampedLangevin, *MUTANTS[name])
    target, state = banana_state(wrong(0.6, 0.2, adjusted=True), 100_000)
    assert min(target.p_value(state.x), banana_joint_p(target, state.x, state.velocity)) < FAIL


def test_moments_are_those_of_quadrature_from_one_bad_start() -> None:
    torch.manual_seed(0)
    target, x = Banana(2), torch.full((20_000, 2), -2.0, dtype=torch.float64)
    x = exact().last_states(target, x, 100)
    assert target.p_value(x) > PASS
    weights = (-target.energy_of_x(target._grid)).exp()
    for power in (1, 2, 3):
        expected = float((weights * target._grid**power).sum() / weights.sum())
        found = x[:, 0] ** power
        assert abs(found.mean().item() - expected) < 4.5 * found.std().item() / 20_000**0.5


def test_trajectories_are_reversible(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without refreshment, steps with the velocity turned round lead back, to rounding."""
    monkeypatch.setattr(
        "ebmlab.samplers.underdamped_langevin.metropolis", lambda r: (torch.ones_like(r) > 0, torch.ones_like(r))
    )
    torch.manual_seed(0)
    target, x = Banana(2), 2 * torch.randn(50, 2, dtype=torch.float64)
    settings, options = (0.05, 1.0), Options(True, torch.tensor([[0.6, 0.0], [0.5, 1.2]]).double())
    state = begin = start(target, x, settings, options)
    for _ in range(40):
        state, _ = step(target, state, settings, options)
    assert (state.x - x).norm(dim=1).min() > 0.05
    state.velocity = -state.velocity
    for _ in range(40):
        state, _ = step(target, state, settings, options)
    torch.testing.assert_close(state.x, x, rtol=0, atol=1e-9)
    torch.testing.assert_close(-state.velocity, begin.velocity, rtol=0, atol=1e-9)


def written_out(sampler: UnderdampedLangevin) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """x and v after three steps, by the sampler and by the five maps B, A, O, A, B from the same numbers."""
    target, epsilon, kept = Banana(2), float(torch.tensor(0.3)), float(torch.tensor(-0.3 * 0.7).exp())
    x = torch.randn(7, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.manual_seed(1)
    state = last_state(sampler, target, x, 3)
    torch.manual_seed(1)
    v = torch.randn(7, 2, dtype=torch.float64)
    for _ in range(3):
        v = v - epsilon / 2 * target.value_and_grad(x)[1]
        x = x + epsilon / 2 * v
        v = kept * v + (1 - kept**2) ** 0.5 * torch.randn(7, 2, dtype=torch.float64)
        x = x + epsilon / 2 * v
        v = v - epsilon / 2 * target.value_and_grad(x)[1]
    return state.x, state.velocity, x, v


def test_unadjusted_steps_are_baoab() -> None:
    x, velocity, expected, v = written_out(UnderdampedLangevin(0.3, 0.7))
    torch.testing.assert_close((x, velocity), (expected, v), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", UNADJUSTED)
def test_mutants_of_baoab_are_caught(name: str) -> None:
    x, velocity, expected, v = written_out(mutant(UnderdampedLangevin, *UNADJUSTED[name])(0.3, 0.7))
    assert max((x - expected).abs().max(), (velocity - v).abs().max()) > 1e-3


def in_place(sampler: UnderdampedLangevin) -> tuple[torch.Tensor, torch.Tensor]:
    """x after three steps in place, and by the maps of BAOAB from the same numbers."""
    target, epsilon, kept = Banana(2), float(torch.tensor(0.3)), float(torch.tensor(-0.3 * 0.7).exp())
    x = torch.randn(7, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.manual_seed(1)
    last = sampler.last_states(target, x, 3)
    torch.manual_seed(1)
    v = torch.randn(2, 7, dtype=torch.float64).T
    for _ in range(3):
        v = v - epsilon / 2 * target.value_and_grad(x)[1]
        x = x + epsilon / 2 * v
        v = kept * v + (1 - kept**2) ** 0.5 * torch.empty(2, 7, dtype=torch.float64).normal_().T
        x = x + epsilon / 2 * v
        v = v - epsilon / 2 * target.value_and_grad(x)[1]
    return last, x


def test_steps_in_place_are_baoab() -> None:
    last, expected = in_place(UnderdampedLangevin(0.3, 0.7))
    torch.testing.assert_close(last, expected, rtol=1e-6, atol=1e-6)
    assert last.is_contiguous()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("alpha=-epsilon if k else -epsilon / 2", "alpha=-epsilon"),
        ("alpha=-epsilon if k else -epsilon / 2", "alpha=-epsilon / 2"),
        ("move.add_(velocity, alpha=epsilon / 2)", "move.add_(velocity, alpha=epsilon)"),
        ("velocity, alpha=kept, out", "velocity, alpha=1, out"),
        ("normal_(noise, std=std)", "normal_(noise)"),
        ("for k in range(num_steps):", "for k in range(num_steps - 1):"),
    ],
)
def test_mutants_of_the_steps_in_place_are_caught(old: str, new: str) -> None:
    last, expected = in_place(mutant(UnderdampedLangevin, old, new)(0.3, 0.7))
    assert (last - expected).abs().max() > 1e-3


def test_positions_in_a_harmonic_well_are_exact_at_any_step() -> None:
    """What singles BAOAB out among the splittings (Leimkuhler & Matthews 2013, Sec. 4)."""
    torch.manual_seed(0)
    target = Normal(torch.tensor([[1.0]]).double())
    x = UnderdampedLangevin(1.5, 1.0).last_states(target, target.sample(200_000), 30)
    assert abs(x.square().mean().item() - 1) < 4.5 * (2 / 200_000) ** 0.5


def test_unadjusted_steps_are_biased_where_they_are_large() -> None:
    sampler = UnderdampedLangevin(0.45, 1.0)
    target, state = banana_state(sampler, 100_000)
    assert not sampler.exact and target.p_value(state.x) < FAIL


def test_with_new_velocities_it_is_mala() -> None:
    """At a large friction nothing is kept of a velocity: HMC with one leapfrog step, MALA of half the squared step."""
    torch.manual_seed(0)
    grbm, x = make_grbm(2), torch.randn(100_000, 2, dtype=torch.float64)
    found = [
        s.sample(grbm, x, 5)[1].acceptance.mean().item()
        for s in (UnderdampedLangevin(0.8, 100.0, adjusted=True), MALA(0.8**2 / 2), HMC(0.8, 1))
    ]
    assert max(found) - min(found) < 0.005


def test_an_annealed_chain_finds_log_z() -> None:
    torch.manual_seed(0)
    grbm = GRBM(4, 3).double()
    result = ais(grbm, UnderdampedLangevin(0.4, adjusted=True), num_chains=400, num_temperatures=400)
    assert abs(result.log_z - exact_log_z(grbm).item()) < 5 * result.std_error


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
@pytest.mark.slow
@pytest.mark.parametrize("scale", SCALES)
def test_compiled_chains_are_exact(scale: str) -> None:
    torch.manual_seed(0)
    target = Banana(2)
    x, info = exact(scale=SCALES[scale]).sample(target, target.sample(50_000), 8, compile=True)
    assert target.p_value(x) > PASS and info.evaluations == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: UnderdampedLangevin(0.0), "step_size is 0.0"),
        (lambda: UnderdampedLangevin(0.1, -1.0), "friction is -1.0"),
        (lambda: UnderdampedLangevin(0.1, scale=[1.0, 0.0]), "scale"),
        (lambda: UnderdampedLangevin(0.1, scale=[[1.0, 0.0], [0.0, -1.0]]), "the diagonal of scale"),
        (lambda: UnderdampedLangevin(0.1, scale=[1.0]).sample(make_grbm(2), torch.zeros(1, 2), 1), r"shape \(1,\)"),
        (
            lambda: UnderdampedLangevin(0.1, scale=[[1.0, 0.5], [0.5, 1.0]]).sample(make_grbm(2), torch.zeros(1, 2), 1),
            "zero above the diagonal",
        ),
    ],
)
def test_refusals(make: object, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make()  # type: ignore[operator]
