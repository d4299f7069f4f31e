"""The search in groups: its rounds on a walker with a known best, and what it finds where the best is far away."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest
import torch
from helpers_tier import cases
from helpers_walker import Bernoulli, Nothing, Walker

from ebmlab.errors import UserError
from ebmlab.samplers import DMALA, Gibbs
from ebmlab.samplers.any_scale import AnyScale
from ebmlab.samplers.tuners import AnyScaleTuner, PatternSearch
from ebmlab.studies.targets import LatticeGaussian


def run(length: Any, num_steps: int = 600, others: Any = (), chains: int = 10, **start: float) -> tuple[Walker, bool]:
    torch.manual_seed(0)
    walker = Walker(length, **start)
    _, over = PatternSearch(5).search(walker, Nothing(), torch.zeros(chains, 1), num_steps, others=others)
    return walker, over


def log2_away(walker: Walker, sigma: float) -> float:
    return abs(float((walker.step_size / sigma).log2()))


@cases("chains", [1, 3, 10], fast=[1])
def test_a_best_setting_that_is_far_away_is_found(chains: int) -> None:
    """Twelve rounds of at most 1.2 times each, as in Alg. 3, end at 0.9."""
    walker, over = run(
        lambda s, a: 30 - abs(torch.tensor(s / 300).log2()) - 5 * abs(a - 0.9), 3000, chains=chains, step_size=0.1
    )
    assert over and log2_away(walker, 300) < 0.3 and float(walker.balance) == pytest.approx(0.9, abs=0.04)


def test_other_starts_win_where_a_ridge_leads_away() -> None:
    """Two peaks; the search climbs the lower one unless its first round sees the higher one."""

    def peaks(s: float, a: float) -> float:
        low, high = (max(0.0, h - abs(float(torch.tensor(s / at).log2()))) for h, at in ((3, 1), (6, 2000)))
        return max(low, high) + 0.1

    assert log2_away(run(peaks)[0], 1) < 0.3
    assert log2_away(run(peaks, others=[(1000.0, 0.5)])[0], 2000) < 0.3


def test_all_chains_take_all_steps_and_every_round_deals_them_anew() -> None:
    walker, _ = run(lambda s, a: 1.0, 100, chains=7)
    assert len(walker.log) > 100
    seen: list[int] = []
    search, x = PatternSearch(5), torch.arange(7.0).unsqueeze(1)
    last, _ = search.search(
        Walker(lambda s, a: 1.0), Nothing(), x, 100, observe=lambda b, a: seen.extend([0] * len(a.x))
    )
    assert torch.equal(last, x + 100) and len(seen) == 7 * 100


@pytest.mark.parametrize(("acceptance", "factor"), [(0.4, 1 / 4), (0.6, 4.0)])
def test_where_nothing_moves_a_round_changes_the_step_by_four(acceptance: float, factor: float) -> None:
    walker, over = run(lambda s, a: 0.0, 3, step_size=8.0, balance=0.3, acceptance=acceptance)
    assert not over and float(walker.step_size) == pytest.approx(8 * factor**3)
    assert float(walker.balance) == pytest.approx(0.3)


@pytest.mark.slow
def test_frozen_chains_get_other_steps() -> None:
    """Rejections mean that the steps are too large; without them, that no change was proposed."""
    walker, over = run(lambda s, a: float(s < 0.02), step_size=50.0, acceptance=0.01)
    assert over and float(walker.step_size) < 0.02
    walker, over = run(lambda s, a: float(s > 50), step_size=0.02)
    assert over and float(walker.step_size) > 50
    for acceptance, first, last in ((0.0, 1e-5, 1e-6), (1.0, 1e8, 1e9)):  # chains that never move
        walker, over = run(lambda s, a: 0.0, 2000, step_size=first, acceptance=acceptance)
        assert not over and float(walker.step_size) == pytest.approx(last)


def test_chains_that_relax_do_not_end_the_search() -> None:
    """The best setting moves during the first pass; one pass would stop where it was at first."""
    taken = {"steps": 0}

    def length(s: float, a: float) -> float:
        taken["steps"] += 1
        best = 0.5 if taken["steps"] < 5 * 20 else 8.0
        return 9 - abs(float(torch.tensor(s / best).log2()))

    walker, over = run(length, 2000, step_size=0.02)
    assert over and log2_away(walker, 8) < 0.3


@pytest.mark.slow
def test_a_search_without_enough_steps_says_so() -> None:
    energy = Bernoulli(torch.zeros(20))
    with pytest.warns(UserWarning, match="ran out of steps, at .* give the tuner more steps"):
        PatternSearch().tune(DMALA(0.01), energy, energy.domain.random(20), 8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tuned, last = PatternSearch(5).tune(sampler := DMALA(0.01), energy, x := energy.domain.random(20), 600)
    assert isinstance(tuned, DMALA) and tuned.step_size > 2 and float(sampler.step_size) == pytest.approx(0.01)
    energy.domain.validate(last)
    assert not torch.equal(last, x)


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["shift", "max", "trace"])
def test_the_second_search_finds_that_a_quadratic_needs_no_rejections(variant: Any) -> None:
    """The sparse Gaussian, where a search that begins at the first one's setting stopped at acceptance 0.3."""
    torch.manual_seed(0)
    energy = LatticeGaussian.sparse(size=20, condition=10.0)
    sampler = AnyScale(variant)
    before = copy.deepcopy(dict(sampler.named_buffers()))
    tuned, x = AnyScaleTuner(PatternSearch(5)).tune(sampler, energy, energy.domain.random(50), 800)
    assert all(torch.equal(before[k], v) for k, v in sampler.named_buffers())
    assert isinstance(tuned, AnyScale) and float(tuned.balance) > 0.9 and float(tuned.step_size) > 1000
    assert tuned.sample(energy, x, 20)[1].acceptance.mean() > 0.8


def test_errors_say_what_would_be_right() -> None:
    with pytest.raises(UserError, match="window is 0, but must be at least 1"):
        PatternSearch(0)
    with pytest.raises(UserError, match="PatternSearch tunes step_size and balance together, which Gibbs does not"):
        PatternSearch().check(Gibbs())
    with pytest.raises(UserError, match="AnyScaleTuner tunes AnyScale samplers, not DMALA; try PatternSearch"):
        AnyScaleTuner().check(DMALA(0.1))
