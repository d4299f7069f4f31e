"""Samplers on posteriors and hard laws: eight schools, a funnel, a rotated Gaussian, two modes."""

from __future__ import annotations

import pytest
import torch
from helpers_grbm import FAIL, PASS
from helpers_mutants import mutant
from helpers_real import EightSchools, Funnel, Normal, TwoModes, normal_p
from helpers_tier import cases
from torch import Tensor

from ebmlab.evaluation import effective_sample_size
from ebmlab.samplers import HMC, NUTS, Sampler, UnderdampedLangevin
from ebmlab.samplers.tuners import WarmUp

ROTATED = Normal.rotated(6, 1000.0)
FACTOR = ROTATED.factor.tolist()
TARGETS = {"eight schools": EightSchools(), "funnel": Funnel(), "rotated": ROTATED, "two modes": TwoModes()}
KERNELS: dict[str, dict[str, Sampler]] = {
    "eight schools": {
        "HMC": HMC(0.5, 5),
        "NUTS": NUTS(0.5),
        "UnderdampedLangevin": UnderdampedLangevin(0.5, 0.5, adjusted=True),
    },
    "funnel": {  # a step fits only part of the funnel: elsewhere it is refused or diverges
        "HMC": HMC(0.3, 5),
        "NUTS": NUTS(0.5, max_depth=5),
        "UnderdampedLangevin": UnderdampedLangevin(0.4, 0.5, adjusted=True),
    },
    "rotated": {
        "HMC": HMC(0.7, 3, scale=FACTOR),
        "NUTS": NUTS(0.9, scale=FACTOR),
        "UnderdampedLangevin": UnderdampedLangevin(0.8, 0.5, adjusted=True, scale=FACTOR),
    },
    "two modes": {
        "HMC": HMC(0.7, 5),
        "NUTS": NUTS(0.7),
        "UnderdampedLangevin": UnderdampedLangevin(0.7, 0.5, adjusted=True),
    },
}
PAIRS = [(target, name) for target, kernels in KERNELS.items() for name in kernels]
FAST = [k for k, (target, name) in enumerate(PAIRS) if name != "NUTS" or target == "two modes"]


def invariance(sampler: Sampler, target: str, num_chains: int = 30_000, num_steps: int = 2) -> float:
    """p-value of the hypothesis that exact draws are exact draws after some steps."""
    torch.manual_seed(0)
    law = TARGETS[target]
    return normal_p(law.normals(sampler.last_states(law, law.sample(num_chains), num_steps)), 6)


@pytest.mark.parametrize("target", TARGETS)
def test_exact_draws_are_exact(target: str) -> None:
    torch.manual_seed(0)
    law = TARGETS[target]
    x = law.sample(200_000)
    assert normal_p(law.normals(x), 6) > PASS > FAIL > normal_p(law.normals(1.05 * x + 0.02), 6)


@cases(("target", "name"), PAIRS, fast=FAST)
def test_exact_draws_stay_exact(target: str, name: str) -> None:
    assert invariance(KERNELS[target][name], target) > PASS


@pytest.mark.parametrize("target", TARGETS)
def test_a_wrong_mass_shows_on_each(target: str) -> None:
    wrong = mutant(HMC, "- kinetic_rise(end, begin)", "- kinetic_rise(end, begin) / 2")
    right = KERNELS[target]["HMC"]
    sampler = wrong(2 * float(right.step_size), right.num_leapfrog, scale=right.scale)
    assert invariance(sampler, target, num_steps=6) < FAIL


@pytest.mark.slow
def test_both_modes_are_found_from_one() -> None:
    torch.manual_seed(0)
    law = TwoModes()
    x = HMC(0.7, 5).last_states(law, torch.tensor([[-2.0, 0.0]]).double().expand(4000, 2), 120)
    assert normal_p(law.normals(x), 6) > PASS


def run(sampler: Sampler, target: str, num_chains: int, num_steps: int) -> Tensor:
    """States `(num_steps, num_chains, d)` of chains whose settings and starts come from a warm-up."""
    law = TARGETS[target]
    x = 2 * torch.randn(num_chains, law.domain.size, dtype=torch.float64)
    tuned, x = WarmUp(dense=target == "rotated").tune(sampler, law, x, 150)
    return torch.stack([state.x for state, _ in tuned.chain(law, x, num_steps)])


@pytest.mark.slow
def test_no_chain_stays_where_the_energy_is_stiff() -> None:
    """One of forty begins where tau is large, and the step size that suits the others is too large for it."""
    torch.manual_seed(0)
    law = EightSchools()
    x = 2 * torch.randn(40, 10, dtype=torch.float64)
    tuned, x = WarmUp().tune(HMC(0.1, 6), law, x, 150)
    assert tuned.sample(law, x, 50)[1].acceptance.min() > 0.3


@pytest.mark.slow
@pytest.mark.parametrize("sampler", [NUTS(0.1), HMC(0.1, 6)], ids=lambda s: type(s).__name__)
def test_eight_schools_from_far_away(sampler: Sampler) -> None:
    """Means agree with quadrature within 4.5 standard errors."""
    torch.manual_seed(0)
    law = EightSchools()
    x = run(sampler, "eight schools", 30, 300)
    found = {name: value.view(x.shape[:2]) for name, value in law.statistics(x.flatten(0, 1)).items()}
    for name, (mean, std) in law.moments().items():
        error = std / float(effective_sample_size(found[name])) ** 0.5
        assert abs(float(found[name].mean()) - mean) < 4.5 * error < 0.25 * std, name


@pytest.mark.slow
def test_a_rotated_gaussian_from_far_away() -> None:
    torch.manual_seed(0)
    x = run(NUTS(0.1), "rotated", 30, 200)
    z = torch.linalg.solve_triangular(ROTATED.factor, x.flatten(0, 1).T, upper=False).T.view_as(x)
    size = effective_sample_size(z.square())
    assert ((z.square().mean((0, 1)) - 1).abs() < 4.5 * (2 / size).sqrt()).all() and size.min() > 1000


@pytest.mark.slow
def test_nuts_finds_both_modes_from_one() -> None:
    torch.manual_seed(0)
    law = TwoModes()
    x = NUTS(0.7).last_states(law, torch.tensor([[-2.0, 0.0]]).double().expand(3000, 2), 150)
    assert normal_p(law.normals(x), 5) > PASS
