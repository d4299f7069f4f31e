"""Langevin: exact with Metropolis on mixtures and on non-quadratic targets, and known-wrong kernels are caught."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from helpers_grbm import FAIL, PASS, Banana, ExactGRBM, invariance_p, make_grbm
from helpers_mutants import mutant
from helpers_tier import cases

from ebmlab.samplers import Cosine, Langevin, Sampler
from ebmlab.samplers.metropolis import metropolis

STEP = {1: 1.4, 2: 1.0}  # large: 70 to 80 % are accepted, and without Metropolis the law is visibly wrong
BANANA_STEP = 0.25
NOISE, DRIFT = "root(alpha * (2 * temperature))", "-alpha, state.grad"
ARRIVE = "new = start(energy, y, settings, temperature, adjusted if next_adjusted is None else next_adjusted)"
MUTANTS = {  # what to replace in the source of langevin.py, with what, and the temperature at which it shows
    "no reverse proposal": ("- back + forth", "+ 0 * (back + forth)", 1.0),
    "no forward proposal": ("- back + forth", "- back", 1.0),
    "proposal ratio upside down": ("- back + forth", "+ back - forth", 1.0),
    "reverse drift flipped": ("alpha, new.grad)", "-alpha, new.grad)", 1.0),
    "reverse drift from the old gradient": ("alpha, new.grad)", "alpha, state.grad)", 1.0),
    "stale gradient": (ARRIVE, f"{ARRIVE}\nnew.grad = state.grad", 1.0),
    "stale energy": (ARRIVE, f"{ARRIVE}\nnew.energy = state.energy", 1.0),
    "proposals kept only if better": ("metropolis(log_ratio)", "((log_ratio >= 0), log_ratio.exp())", 1.0),
    "everything accepted": ("after = new.overwritten(accepted, state)", "after = new", 1.0),
    "x of the proposal, cache of the old": (
        "new.overwritten(accepted, state)",
        "replace(state.where(accepted, state), x=new.overwritten(accepted, state).x)",
        1.0,
    ),
    "one uniform for the whole batch": (
        "accepted, probability = metropolis(log_ratio)",
        "accepted, probability = torch.rand(()) < log_ratio.exp(), log_ratio.exp()",
        1.0,
    ),
    "one ratio for the whole batch": (
        "metropolis(log_ratio)",
        "metropolis(log_ratio.mean().expand_as(log_ratio))",
        1.0,
    ),
    "noise without sqrt(2)": (NOISE, "root(alpha * temperature)", 1.0),
    "temperature not in the noise": (NOISE, "root(alpha * 2)", 2.0),
    "temperature not in the ratio": (
        "(state.energy - new.energy) / temperature",
        "(state.energy - new.energy)",
        2.0,
    ),
    "temperature not in the reverse density": ("(4 * alpha * temperature)", "(4 * alpha)", 2.0),
}


def banana_p(
    sampler: Sampler, num_visible: int, num_steps: int = 3, temperature: float = 1.0, num_chains: int = 200_000
) -> float:
    torch.manual_seed(0)
    target = Banana(num_visible, temperature)
    return target.p_value(sampler.sample(target, target.sample(num_chains), num_steps)[0])


@pytest.mark.parametrize("num_steps", [1, 3])
@pytest.mark.parametrize("num_visible", [1, 2])
def test_adjusted_leaves_the_mixture_invariant(num_visible: int, num_steps: int) -> None:
    sampler = Langevin(STEP[num_visible], adjust_from=0)
    assert sampler.exact
    assert invariance_p(sampler, make_grbm(num_visible), num_steps) > PASS


@cases("temperature", [0.5, 1.0, 2.0], fast=[0, 1])
@cases("num_visible", [1, 2], fast=[1])
def test_adjusted_leaves_a_tempered_quartic_invariant(num_visible: int, temperature: float) -> None:
    sampler = Langevin(BANANA_STEP, adjust_from=0, temperature=temperature)
    assert sampler.exact == (temperature == 1.0)
    assert banana_p(sampler, num_visible, temperature=temperature) > PASS


@pytest.mark.parametrize("num_visible", [1, 2])
def test_unadjusted_with_a_large_step_fails_the_same_test(num_visible: int) -> None:
    sampler = Langevin(STEP[num_visible])
    assert not sampler.exact and not Langevin(STEP[num_visible], adjust_from=1).exact
    assert invariance_p(sampler, make_grbm(num_visible), num_steps=1) < FAIL
    assert banana_p(Langevin(BANANA_STEP), num_visible, num_steps=1) < FAIL


def test_unadjusted_with_a_tiny_step_is_nearly_right() -> None:
    """The bias is of first order in the step size, and here too small for 5,000 chains to detect."""
    assert invariance_p(Langevin(1e-3), make_grbm(2), num_steps=100, num_chains=5000) > PASS


@cases("name", list(MUTANTS), fast=[0, 1])
def test_mutants_are_caught(name: str) -> None:
    old, new, temperature = MUTANTS[name]
    wrong = mutant(Langevin, old, new)
    if temperature == 1.0:
        assert invariance_p(wrong(STEP[2], adjust_from=0), make_grbm(2), num_chains=50_000) < FAIL
    sampler = wrong(BANANA_STEP, adjust_from=0, temperature=temperature)
    assert banana_p(sampler, 2, temperature=temperature, num_chains=50_000) < FAIL


@pytest.mark.parametrize(
    "wrong",
    ["alpha, state.grad", "-2 * alpha, state.grad"],
)
def test_wrong_drift_without_metropolis_is_caught(wrong: str) -> None:
    sampler = mutant(Langevin, DRIFT, wrong)(1e-2)
    assert invariance_p(sampler, make_grbm(2), num_steps=30, num_chains=20_000) < FAIL


@pytest.mark.parametrize("num_visible", [1, 2])
def test_chains_converge_from_one_bad_start(num_visible: int) -> None:
    torch.manual_seed(0)
    grbm = make_grbm(num_visible)
    start = torch.full((5000, num_visible), 9.0, dtype=torch.float64)
    x, _ = Langevin(STEP[num_visible], adjust_from=0).sample(grbm, start, 200)
    assert ExactGRBM(grbm, num_bins=10).p_value(x) > PASS


def test_chains_converge_from_one_bad_start_on_a_quartic() -> None:
    torch.manual_seed(0)
    target = Banana(2)
    x, _ = Langevin(BANANA_STEP, adjust_from=0).sample(target, torch.full((5000, 2), -2.0, dtype=torch.float64), 200)
    assert target.p_value(x) > PASS


@pytest.mark.parametrize("num_steps", [1, 4])
def test_cosine_annealed_and_adjusted_is_still_exact(num_steps: int) -> None:
    assert invariance_p(Langevin(0.9, adjust_from=0, schedule=Cosine()), make_grbm(2), num_steps) > PASS
    assert banana_p(Langevin(0.4, adjust_from=0, schedule=Cosine()), 2, num_steps) > PASS


def test_steps_are_the_equation_with_the_cosine_step_size() -> None:
    """x - alpha_k dE/dx + sqrt(2 alpha_k T) noise, alpha_0 times the mean variance (Eq. 6, Alg. 3)."""
    grbm, sampler = make_grbm(2), Langevin(0.25, schedule=Cosine(), temperature=2.0)
    x = torch.randn(7, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    state = sampler.init(grbm, x, 4)
    for k, factor in enumerate([1.0, 0.5 + 0.5**0.5 / 2, 0.5, 0.5 - 0.5**0.5 / 2]):
        torch.manual_seed(k)
        noise = torch.randn(7, 2, dtype=torch.float64)
        alpha = 0.25 * factor * float(grbm.log_var.detach().exp().mean())
        expected = state.x - alpha * grbm.value_and_grad(state.x)[1] + (2 * alpha * 2.0) ** 0.5 * noise
        torch.manual_seed(k)
        state, _ = sampler.step(grbm, state)
        torch.testing.assert_close(state.x, expected)


def written_out(sampler: Langevin) -> tuple[torch.Tensor, torch.Tensor]:
    """Four unadjusted steps by `last_states`, and by the equation from the same numbers."""
    target = Banana(2)
    x = torch.randn(7, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.manual_seed(1)
    last = sampler.last_states(target, x, 4)
    torch.manual_seed(1)
    for factor in (1.0, 0.5 + 0.5**0.5 / 2, 0.5, 0.5 - 0.5**0.5 / 2):
        alpha = 0.05 * factor
        noise = torch.empty(2, 7, dtype=torch.float64).normal_().T
        x = x - alpha * target.value_and_grad(x)[1] + (2 * alpha * 1.5) ** 0.5 * noise
    return last, x


def test_unadjusted_chains_written_out_follow_the_equation() -> None:
    last, expected = written_out(Langevin(0.05, schedule=Cosine(), temperature=1.5))
    torch.testing.assert_close(last, expected)
    assert last.is_contiguous()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("gradient(energy), alpha=-alpha", "gradient(energy), alpha=alpha"),
        ("math.sqrt(alpha * (2 * self.temperature))", "math.sqrt(alpha * 2)"),
        ("factor(step, num_steps)", "factor(0, num_steps)"),
        ("for step in range(num_steps):", "for step in range(num_steps - 1):"),
    ],
)
def test_mutants_of_the_written_out_chain_are_caught(old: str, new: str) -> None:
    last, expected = written_out(mutant(Langevin, old, new)(0.05, schedule=Cosine(), temperature=1.5))
    assert (last - expected).abs().max() > 1e-3


def test_a_subclass_with_steps_of_its_own_is_run_by_them() -> None:
    class Still(Langevin):
        def step(self, energy, state):
            return replace(state, step=state.step + 1), None

    target, x = Banana(2), torch.randn(5, 2, dtype=torch.float64)
    assert torch.equal(Still(0.1).last_states(target, x, 3), x)


def test_first_steps_are_not_adjusted() -> None:
    torch.manual_seed(0)
    grbm = make_grbm(2)
    x = torch.randn(1000, 2, dtype=torch.float64)
    acceptance = [i.acceptance.mean().item() for _, i in Langevin(0.9, adjust_from=5).chain(grbm, x, 9)]
    assert acceptance[:5] == [1.0] * 5
    assert all(0.2 < a < 0.95 for a in acceptance[5:])


def test_metropolis_probabilities_at_extreme_ratios() -> None:
    torch.manual_seed(0)
    ratio = torch.tensor([-1e4, -1.0, 0.0, 3.0, 1e4, float("nan"), float("-inf")], dtype=torch.float64)
    accepted, probability = metropolis(ratio.repeat(100_000, 1).flatten())
    frequency = accepted.view(-1, 7).double().mean(0)
    assert frequency[[0, 5, 6]].eq(0).all() and frequency[[2, 3, 4]].eq(1).all()
    p = torch.tensor(-1.0).exp().item()
    assert abs(frequency[1].item() - p) < 5 * (p * (1 - p) / 100_000) ** 0.5
    expected = torch.tensor([0.0, p, 1.0, 1.0, 1.0, float("nan"), 0.0], dtype=torch.float64)
    torch.testing.assert_close(probability[:7], expected, equal_nan=True)


def test_where_mixes_chains_and_keeps_what_all_share() -> None:
    grbm, sampler = make_grbm(2), Langevin(0.3)
    old = sampler.init(grbm, torch.zeros(3, 2, dtype=torch.float64), 9)
    new = replace(sampler.init(grbm, torch.ones(3, 2, dtype=torch.float64), 9), step=1)
    mixed = new.where(torch.tensor([True, False, True]), old)
    assert mixed.x.tolist() == [[1, 1], [0, 0], [1, 1]] and mixed.step == 1
    for field in ("energy", "grad", "logits"):
        for i, source in enumerate((new, old, new)):
            assert torch.equal(getattr(mixed, field)[i], getattr(source, field)[i])
    assert mixed.step_size == old.step_size and mixed.horizon == 9
