"""The Hamming ball sampler: exact transition matrices, reversibility, the ball itself, mutants."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from helpers_blocks import Sum, Table, block_matrix
from helpers_errors import refused
from helpers_finite import DOMAINS, MOSTLY_CUBIC, MOSTLY_TWO_DOMAINS, Exact, Target, invariance_p
from helpers_grbm import FAIL, PASS
from helpers_mutants import mutant
from helpers_tier import cases
from torch import Tensor

from ebmlab.domains import Binary, Categorical, Finite, Ordinal, Real, Spin
from ebmlab.energies import Energy
from ebmlab.samplers.blocks import ball, redraw
from ebmlab.samplers.gibbs import Gibbs
from ebmlab.samplers.hamming_ball import HammingBall

every_domain = pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)
SETTINGS = {
    "HB-10-1": (10, 1),
    "HB-1-1": (1, 1),
    "HB-2-1": (2, 1),
    "HB-2-2": (2, 2),
    "HB-3-2": (3, 2),
    "HB-2-9": (2, 9),
}
every_setting = pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
mostly_three = cases("setting", SETTINGS, fast=("HB-1-1", "HB-2-2", "HB-2-9"))


@mostly_three
@MOSTLY_CUBIC
@MOSTLY_TWO_DOMAINS
def test_the_law_is_invariant(domain: Finite, kind: str, setting: tuple[int, int]) -> None:
    energy = Target(domain, kind)
    flow = Exact(energy).probabilities.unsqueeze(1) * block_matrix(HammingBall(*setting), energy)
    assert float((flow.sum(0) - Exact(energy).probabilities).abs().max()) < 1e-12
    torch.testing.assert_close(flow, flow.T, rtol=1e-9, atol=1e-14)  # the kernel is reversible


@MOSTLY_TWO_DOMAINS
def test_a_ball_as_large_as_the_block_is_gibbs(domain: Finite) -> None:
    energy = Target(domain, "cubic")
    expected = block_matrix(Gibbs(2, scan="random"), energy)
    torch.testing.assert_close(block_matrix(HammingBall(2, 2), energy), expected, rtol=1e-9, atol=1e-14)


@MOSTLY_TWO_DOMAINS
def test_exact_draws_stay_exact(domain: Finite) -> None:
    assert invariance_p(HammingBall(10, 1), Table(Target(domain, "cubic"))) > PASS


@pytest.mark.parametrize(("num_values", "width", "radius"), [(2, 4, 1), (2, 4, 2), (3, 3, 2), (4, 2, 5), (1, 3, 1)])
def test_the_ball_holds_all_configurations_within_the_radius(num_values: int, width: int, radius: int) -> None:
    everything = itertools.product(range(num_values), repeat=width)
    expected = {s for s in everything if sum(v != 0 for v in s) <= radius}
    shifts = [tuple(s) for s in ball(num_values, width, radius, torch.device("cpu")).tolist()]
    assert len(shifts) == len(set(shifts)) and set(shifts) == expected
    assert [sum(v != 0 for v in s) for s in shifts] == sorted(sum(v != 0 for v in s) for s in shifts)


def test_one_step_moves_no_further_than_twice_the_radius_and_counts_the_ball() -> None:
    energy = Target(Categorical(7, 3), "flat", scale=0.0)
    torch.manual_seed(0)
    x = energy.domain.random(2_000)
    for radius in (1, 2):
        sampler = HammingBall(5, radius)
        _, info = sampler.sample(energy, x, 1)
        assert info.hops.max() == 2 * radius
        assert info.evaluations == sum(math.comb(5, j) * 2**j for j in range(radius + 1))


def test_a_radius_of_one_uses_the_energys_own_differences() -> None:
    class Independent(Energy):
        domain = Spin(6)

        def forward(self, x: Tensor) -> Tensor:
            raise AssertionError("materialised")

        def flip_differences(self, x: Tensor, index: Tensor | None = None) -> Tensor:
            assert index is not None and index.shape == (5, 4)
            return -2 * x.gather(1, index)

    HammingBall(4).sample(Independent(), Spin(6).random(5), 5)


@pytest.mark.parametrize("radius", [1, 2])
def test_infinite_energies_are_not_entered_and_nan_stays_visible(radius: int) -> None:
    class Walled(Target):
        bad = float("inf")

        def forward(self, x: Tensor) -> Tensor:
            return torch.where(x[:, 0] == 2, self.bad, super().forward(x))

    energy, x = Walled(Ordinal(3, 3), "cubic"), torch.ones(200, 3, dtype=torch.float64)
    for energy.bad in (float("inf"), float("nan")):
        torch.manual_seed(0)
        for state, info in HammingBall(2, radius).chain(energy, x, 30):
            assert not (state.x[:, 0] == 2).any()
            assert (info.hops[info.acceptance.isnan()] == 0).all()
        assert energy.bad == energy.bad or info.acceptance.isnan().any()


@cases("dtype", [torch.float32, torch.float64], fast=[0])
@mostly_three
def test_extreme_energies_of_one_chain(setting: tuple[int, int], dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    for domain in DOMAINS.values():
        x, info = HammingBall(*setting).sample(Target(domain, "cubic", scale=1e4), domain.random(1).to(dtype), 20)
        domain.validate(x)
        assert x.dtype == info.acceptance.dtype == dtype and (info.acceptance == 1).all()


@every_setting
def test_one_state(setting: tuple[int, int]) -> None:
    x, info = HammingBall(*setting).sample(Sum(Ordinal(3, 1)), torch.zeros(2, 3), 4)
    assert not x.any() and not info.hops.any() and (info.acceptance == 1).all() and info.evaluations == 1


MUTANTS = {
    "ball around x": ("(centre.unsqueeze(1) + shifts)", "(old.unsqueeze(1) + shifts)"),
    "energies around x": ("change_differences(energy, at, block)", "change_differences(energy, x, block)"),
    "u depends on x": ("(old + away) %", "(old + away * (old[:, :1] % 2)) %"),
}


@cases(("old", "new"), MUTANTS, fast=list(MUTANTS)[:1])
def test_mutants_are_caught(old: str, new: str) -> None:
    wrong = mutant(HammingBall, "y, info = redraw(", "y, info = wrong(", wrong=mutant(redraw, old, new))
    assert invariance_p(wrong(3, 1), Table(Target(Ordinal(3, 3), "cubic"))) < FAIL


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: HammingBall(0), r"HammingBall: block_size is 0, but must be at least 1"),
        (lambda: HammingBall(4, 0), r"radius is 0, but must be at least 1"),
        (lambda: HammingBall(18, 18).check(Target(Binary(20), "quadratic")), r"Binary\(20\) has 262144 configurations"),
        (lambda: HammingBall().check(Sum(Real(2))), r"HammingBall samples Binary or"),
    ],
)
def test_errors_name_what_is_wrong(make: Any, message: str) -> None:
    with refused(message):
        make()
    HammingBall(18, 2).check(Target(Binary(20), "quadratic"))
