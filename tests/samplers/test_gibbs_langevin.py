"""Gibbs-Langevin: its inner law is Eq. 11, its adjusted kernel is exact, known-wrong kernels are caught."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from helpers_grbm import FAIL, PASS, ExactGRBM, invariance_p, last_state, make_grbm
from helpers_mutants import mutant
from helpers_tier import cases
from scipy import stats
from torch import Tensor

from ebmlab.errors import UserError
from ebmlab.samplers import GibbsLangevin
from ebmlab.samplers.gibbs_langevin import inner_law
from ebmlab.samplers.state import Leg

SETTINGS = [
    (0.6, 1),
    (0.3, 4),
    (0.08, 10),
    (0.5, 10),
]  # (step_size, num_inner_steps)
MUTANTS = {  # what to replace in the source of gibbs_langevin.py, with what, and the temperature at which it shows
    "no reverse proposal": ("+ back - forth", "", 1.0),
    "proposal ratio upside down": ("+ back - forth", "- back + forth", 1.0),
    "energy ratio upside down": ("state.marginal - new.marginal", "new.marginal - state.marginal", 1.0),
    "reverse drift flipped": (
        "torch.lerp(start.mean, start.x, start.law.decay)",
        "start.x + (start.x - start.mean) / 4",
        1.0,
    ),
    "reverse proposal without its new h": (
        "back = _log_density(state.x, new)",
        "back = _log_density(state.x, GibbsLangevinState(x=x, mean=state.mean, law=state.law))",
        1.0,
    ),
    "everything accepted": ("new = new.overwritten(accepted, state)", "pass", 1.0),
    "stale W h": (
        "new = new.overwritten(accepted, state)",
        "new = new.overwritten(accepted, state); new.mean = state.mean",
        1.0,
    ),
    "stale energy": (
        "new = new.overwritten(accepted, state)",
        "new = new.overwritten(accepted, state); new.marginal = state.marginal",
        1.0,
    ),
    "h of the proposal, x of the old": (
        "new = new.overwritten(accepted, state)",
        "hidden = new.hidden.clone(); new = new.overwritten(accepted, state); new.hidden = hidden",
        1.0,
    ),
    "one uniform for the whole batch": (
        "accepted, probability = metropolis(state.marginal - new.marginal + back - forth)",
        "accepted = torch.rand(()) < (state.marginal - new.marginal + back - forth).exp()",
        1.0,
    ),
    "one ratio for the whole batch": (
        "metropolis(state.marginal - new.marginal + back - forth)",
        "metropolis((state.marginal - new.marginal + back - forth).mean().expand(len(x)))",
        1.0,
    ),
    "temperature outside of the sum over h": (
        "energy.marginal_energy(x, logits, temperature=temperature)",
        "energy.marginal_energy(x, logits) / temperature",
        2.0,
    ),
    "temperature not in the energy": (
        "energy.marginal_energy(x, logits, temperature=temperature)",
        "energy.marginal_energy(x, logits)",
        2.0,
    ),
    "temperature not in h": ("logits / temperature if temperature != 1.0 else logits", "logits", 2.0),
}


def equation_11(alpha: list[float], variance: float, temperature: float) -> tuple[float, float, float]:
    """beta_0, the sum of beta_k alpha_k / sigma^2, and the variance, by the printed sums."""
    steps = range(1, len(alpha) + 1)
    beta = [math.prod(1 - alpha[j - 1] / variance for j in steps if j > k) for k in range(len(alpha) + 1)]
    drift = sum(beta[k] * alpha[k - 1] for k in steps) / variance
    return beta[0], drift, sum(2 * temperature * alpha[k - 1] * beta[k] ** 2 for k in steps)


def cosine(alpha_0: float, num_inner_steps: int) -> list[float]:
    return [alpha_0 * (1 + math.cos(math.pi * k / num_inner_steps)) / 2 for k in range(num_inner_steps)]


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("num_inner_steps", [1, 2, 5, 10, 50])
@pytest.mark.parametrize("alpha_0", [0.02, 0.4, 1.1])  # the last overshoots: factors 1 - alpha / sigma^2 < 0
def test_inner_law_is_equation_11(alpha_0: float, num_inner_steps: int, temperature: float) -> None:
    variance = torch.tensor([0.6, 1.5, 1.0], dtype=torch.float64)
    alpha = cosine(alpha_0, num_inner_steps)
    law = inner_law(torch.tensor(alpha, dtype=torch.float64), variance, temperature)
    for i, s2 in enumerate(variance.tolist()):
        beta_0, drift, noise = equation_11(alpha, s2, temperature)
        assert law.decay[i].item() == pytest.approx(beta_0, rel=1e-12, abs=1e-14)
        assert 1 - law.decay[i].item() == pytest.approx(drift, rel=1e-12, abs=1e-14)
        assert law.std[i].item() == pytest.approx(noise**0.5, rel=1e-12)


def test_init_takes_the_cosine_in_units_of_the_mean_variance() -> None:
    grbm, x = make_grbm(2), torch.zeros(3, 2, dtype=torch.float64)
    law = GibbsLangevin(0.25, num_inner_steps=4, temperature=2.0).init(grbm, x).law
    variance = grbm.log_var.detach().exp()
    for i, s2 in enumerate(variance.tolist()):
        beta_0, _, noise = equation_11(cosine(0.25 * variance.mean().item(), 4), s2, 2.0)
        assert law.decay[i].item() == pytest.approx(beta_0, rel=1e-6)
        assert law.std[i].item() == pytest.approx(noise**0.5, rel=1e-6)


@pytest.mark.parametrize(
    ("step_size", "num_inner_steps", "temperature"), [(0.3, 1, 1.0), (0.3, 5, 1.0), (0.1, 10, 3.0)]
)
def test_one_draw_is_distributed_as_the_simulated_inner_steps(
    step_size: float, num_inner_steps: int, temperature: float
) -> None:
    """Two-sample Kolmogorov-Smirnov tests against K Langevin steps at fixed h, coordinate by coordinate."""
    torch.manual_seed(0)
    grbm, n = make_grbm(2), 50_000
    sampler = GibbsLangevin(step_size, num_inner_steps, temperature=temperature)
    state = sampler.init(grbm, torch.tensor([[1.5, -2.0]], dtype=torch.float64).expand(n, 2))
    drawn, _ = sampler.step(grbm, state)
    variance, v = grbm.log_var.detach().exp(), state.x
    assert state.hidden is not None
    centre = (state.hidden @ grbm.W.T + grbm.mu).detach()
    for alpha in cosine(step_size * variance.mean().item(), num_inner_steps):
        v = v - alpha * (v - centre) / variance + (2 * alpha * temperature) ** 0.5 * torch.randn_like(v)
    for i in range(2):
        assert stats.ks_2samp(drawn.x[:, i].numpy(), v[:, i].numpy()).pvalue > PASS
        assert stats.ks_2samp(1.05 * drawn.x[:, i].numpy(), v[:, i].numpy()).pvalue < FAIL
    correlation = torch.corrcoef(torch.stack([drawn.x[:, 0] - centre[:, 0], drawn.x[:, 1] - centre[:, 1]]))[0, 1]
    assert abs(correlation) < 5 / n**0.5


@cases(("step_size", "num_inner_steps"), SETTINGS, fast=[0, 1])
@cases("num_visible", [1, 2], fast=[1])
def test_adjusted_leaves_the_joint_law_invariant(num_visible: int, step_size: float, num_inner_steps: int) -> None:
    sampler = GibbsLangevin(step_size, num_inner_steps, adjust_from=0)
    assert sampler.exact
    for num_steps in (1, 3):
        assert invariance_p(sampler, make_grbm(num_visible), num_steps) > PASS


@pytest.mark.parametrize("temperature", [0.5, 2.0])
@pytest.mark.parametrize("num_visible", [1, 2])
def test_adjusted_at_a_temperature_leaves_the_tempered_joint_law_invariant(
    num_visible: int, temperature: float
) -> None:
    sampler = GibbsLangevin(0.3, 4, adjust_from=0, temperature=temperature)
    assert not sampler.exact
    assert invariance_p(sampler, make_grbm(num_visible), temperature=temperature) > PASS


@pytest.mark.parametrize("num_visible", [1, 2])
def test_unadjusted_with_a_large_step_fails_the_same_test(num_visible: int) -> None:
    sampler = GibbsLangevin(0.6, 1)
    assert not sampler.exact and not GibbsLangevin(0.6, 1, adjust_from=1).exact
    assert invariance_p(sampler, make_grbm(num_visible), num_steps=1) < FAIL


@cases("name", list(MUTANTS), fast=[0, 1])
def test_mutants_are_caught(name: str) -> None:
    old, new, temperature = MUTANTS[name]
    sampler = mutant(GibbsLangevin, old, new)(0.5, 2, adjust_from=0, temperature=temperature)
    assert invariance_p(sampler, make_grbm(2), num_chains=100_000, temperature=temperature) < FAIL


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_chains_converge_from_one_bad_start(temperature: float) -> None:
    torch.manual_seed(0)
    grbm = make_grbm(2)
    start = torch.full((5000, 2), 9.0, dtype=torch.float64)
    state = last_state(GibbsLangevin(0.3, 5, adjust_from=0, temperature=temperature), grbm, start, 150)
    assert ExactGRBM(grbm, temperature, num_bins=6).p_value(state.x, state.hidden) > PASS


def test_long_inner_chains_with_small_steps_are_block_gibbs() -> None:
    """Without adjustment the inner law tends to p(v | h) as K grows and the step shrinks."""
    assert invariance_p(GibbsLangevin(5e-3, 4000), make_grbm(2), num_chains=20_000) > PASS


def test_first_steps_are_not_adjusted() -> None:
    torch.manual_seed(0)
    grbm = make_grbm(2)
    x = torch.randn(1000, 2, dtype=torch.float64)
    acceptance = [i.acceptance.mean().item() for _, i in GibbsLangevin(0.5, 2, adjust_from=5).chain(grbm, x, 9)]
    assert acceptance[:5] == [1.0] * 5
    assert all(0.2 < a < 0.99 for a in acceptance[5:])


def test_legs_of_a_chain_are_adjusted_from_the_same_step() -> None:
    torch.manual_seed(0)
    grbm, sampler, acceptance = make_grbm(2), GibbsLangevin(0.5, 2, adjust_from=3), []
    x = torch.randn(1000, 2, dtype=torch.float64)
    for first in range(0, 6, 2):
        for state, info in sampler.chain(grbm, x, 2, Leg(first=first)):
            acceptance.append(info.acceptance.mean().item())
            x = state.x
    assert acceptance[:3] == [1.0] * 3 and all(0.2 < a < 0.99 for a in acceptance[3:])


def test_acceptance_is_equation_12() -> None:
    """For the drawn values, the ratio of joint densities, q(h | v) and q(v' | v, h) is written out (Eq. 32)."""
    grbm, sampler = make_grbm(2), GibbsLangevin(0.5, 3)
    x = 2 * torch.randn(50, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.manual_seed(0)
    old = sampler.init(grbm, x)
    new, _ = sampler.step(grbm, old)  # without adjustment the new state is the proposal
    adjusted = GibbsLangevin(0.5, 3, adjust_from=0)
    torch.manual_seed(0)
    start = adjusted.init(grbm, x)
    _, info = adjusted.step(grbm, start)
    assert old.hidden is not None and new.hidden is not None and start.hidden is not None
    assert torch.equal(start.hidden, old.hidden)

    def log_q_hidden(v: Tensor, h: Tensor) -> Tensor:
        logits = v / grbm.log_var.exp() @ grbm.W + grbm.b
        return (h * logits - torch.log1p(logits.exp())).sum(1)

    def log_q_visible(to: Tensor, v: Tensor, h: Tensor) -> Tensor:
        mean = h @ grbm.W.T + grbm.mu
        return -((to - mean - old.law.decay * (v - mean)) / old.law.std).square().sum(1) / 2

    with torch.no_grad():
        log_ratio = grbm.joint_energy(old.x, old.hidden) - grbm.joint_energy(new.x, new.hidden)
        log_ratio += log_q_hidden(old.x, old.hidden) - log_q_hidden(new.x, new.hidden)
        log_ratio += log_q_visible(old.x, new.x, new.hidden) - log_q_visible(new.x, old.x, old.hidden)
    torch.testing.assert_close(info.acceptance, log_ratio.clamp(max=0).exp(), rtol=1e-9, atol=1e-12)


def test_a_temperature_of_the_noise_alone_leaves_the_hidden_units_at_their_own() -> None:
    torch.manual_seed(0)
    grbm, n = make_grbm(2), 100_000
    plain, noisy = GibbsLangevin(0.2, 3), GibbsLangevin(0.2, 3, noise_temperature=50.0)
    start = plain.init(grbm, grbm.random(1).to(grbm.dtype).repeat(n, 1))
    state = replace(start, law=noisy.init(grbm, start.x[:1]).law)
    assert torch.allclose(state.law.decay, start.law.decay) and not noisy.exact
    assert torch.allclose(state.law.std, start.law.std * 50**0.5)
    new, _ = noisy.step(grbm, state)
    residue = (new.x - torch.lerp(state.mean, state.x, state.law.decay)) / state.law.std
    assert abs(float(residue.var()) - 1) < 0.02
    assert new.logits is not None and new.hidden is not None
    assert float((new.hidden - torch.sigmoid(new.logits)).mean().abs()) < 0.01
    same, _ = GibbsLangevin(0.2, 3, adjust_from=0, noise_temperature=1.0).sample(grbm, start.x[:3], 2)
    assert same.isfinite().all()
    with pytest.raises(UserError, match="adjusted steps need the same"):
        GibbsLangevin(0.2, adjust_from=0, noise_temperature=50.0)
    with pytest.raises(UserError, match="noise_temperature is 0"):
        GibbsLangevin(0.2, noise_temperature=0.0)
