"""The search by jump distance: the paper's rule step by step, and what it finds on a target with a known best."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from helpers_errors import refused
from helpers_walker import Bernoulli, Nothing, Walker

from ebmlab.domains import Categorical, Ordinal, Spin
from ebmlab.errors import UserError
from ebmlab.samplers import DMALA, TrajectoryTempered
from ebmlab.samplers.any_scale import AnyScale
from ebmlab.samplers.sampler import Sampler
from ebmlab.samplers.tuners.jump_distance import JumpDistance, jump_distance


def run(length: Any, num_steps: int, window: int = 2, **settings: Any) -> Any:
    walker = Walker(length, **{k: settings.pop(k) for k in ("step_size", "balance", "acceptance") if k in settings})
    tuner = JumpDistance(window=window, **settings)
    state = tuner.search(walker, Nothing(), walker.init(Nothing(), torch.zeros(3, 1)), num_steps)
    assert len(walker.log) == num_steps
    return walker, state


def test_a_block_probes_p_then_a_larger_then_a_smaller_value() -> None:
    walker, _ = run(lambda s, a: s, 12)
    expected = [(1, 0.5), (1.2, 0.5), (0.8, 0.5), (1.2, 0.5), (1.2, 0.6), (1.2, 0.4)]
    assert walker.log == [pytest.approx(e) for e in expected for _ in range(2)]
    assert float(walker.step_size) == pytest.approx(1.2)


@pytest.mark.parametrize(
    ("length", "found"),
    [
        (lambda s, a: s + a, (1.2, 0.6)),
        (lambda s, a: -s - a, (1.2, 0.6)),  # the distance is an absolute value
        (lambda s, a: 9 - s - a, (0.8, 0.4)),
        (lambda s, a: 9 - abs(s - 1) - abs(a - 0.5), (1.0, 0.5)),
        (lambda s, a: 0.0, (1.2, 0.6)),  # on a tie the setting grows, as in the paper
        (lambda s, a: float("nan"), (1.0, 0.5)),
    ],
)
def test_the_longest_jump_wins(length: Any, found: tuple[float, float]) -> None:
    walker, _ = run(length, 12)
    assert (float(walker.step_size), float(walker.balance)) == pytest.approx(found)


@pytest.mark.parametrize(
    ("acceptance", "factor"), [(0.01, 0.8), (0.3, 0.8), (float("nan"), 0.8), (0.5, 1.2), (0.9, 1.2)]
)
def test_chains_frozen_by_rejections_get_smaller_steps(acceptance: float, factor: float) -> None:
    """Frozen are chains of which less than half of the proposals are accepted, in the mean over steps and probes."""
    walker, _ = run(lambda s, a: 0.0, 12, acceptance=acceptance)
    assert (float(walker.step_size), float(walker.balance)) == pytest.approx((factor, factor / 2))


def test_a_smaller_value_that_jumps_no_further_is_not_taken() -> None:
    walker, _ = run(lambda s, a: float(s <= 1 and a <= 0.5), 12)
    assert (float(walker.step_size), float(walker.balance)) == (1.0, 0.5)


def test_the_rate_decays_when_a_round_moves_nothing() -> None:
    walker, _ = run(lambda s, a: 9 - abs(s - 1) - abs(a - 0.5), 36, decay=0.5)
    assert sorted({s for s, _ in walker.log}) == pytest.approx([0.8, 0.9, 0.95, 1, 1.05, 1.1, 1.2])
    walker, _ = run(lambda s, a: s, 36, decay=0.5)  # sigma changes, so that the rate stays
    assert float(walker.step_size) == pytest.approx(1.2**3)
    walker, _ = run(lambda s, a: 9 - abs(s - 1) + a, 36, decay=0.5)  # a round is one over all settings
    assert (float(walker.step_size), float(walker.balance)) == pytest.approx((1.0, 0.5 * 1.2**3))


def test_the_observer_sees_every_step() -> None:
    walker, seen = Walker(lambda s, a: s), []
    start = walker.init(Nothing(), torch.zeros(3, 1))
    JumpDistance(window=2).search(
        walker, Nothing(), start, 13, observe=lambda old, new: seen.append(float((new.x - old.x)[0]))
    )
    assert seen == pytest.approx([s for s, _ in walker.log]) and len(seen) == 13


def test_balance_stays_at_most_one() -> None:
    walker, _ = run(lambda s, a: a, 120)
    assert max(a for _, a in walker.log) == float(walker.balance) == 1


def test_any_setting_and_any_budget() -> None:
    walker, _ = run(lambda s, a: s + a, 13, parameters=["balance"])
    assert {s for s, _ in walker.log} == {1.0} and float(walker.balance) == pytest.approx(0.72)
    assert walker.log[-1][1] == pytest.approx(0.72), "the step that fits no probe runs with what was found"
    walker, _ = run(lambda s, a: s + a, 8, window=100)
    assert float(walker.step_size) == pytest.approx(1.2), "a short budget shortens the window"
    walker, _ = run(lambda s, a: s + a, 14, window=100)
    assert walker.log[-1] == pytest.approx((1.2, 0.6)) and walker.log.count(walker.log[-1]) == 4
    walker, _ = run(lambda s, a: s + a, 5)
    assert [s for s, _ in walker.log] == pytest.approx([1, 1.2, 0.8, 1.2, 1.2])
    walker, _ = run(lambda s, a: s + a, 2)
    assert float(walker.step_size) == 1


def test_the_distance_is_l1_and_hops_for_classes() -> None:
    new, old = torch.tensor([[0.0, 5.0], [2.0, 2.0]]), torch.tensor([[3.0, 1.0], [2.0, 2.0]])
    assert jump_distance(Ordinal(2, 6), new, old).tolist() == [7, 0]
    assert jump_distance(Spin(2), torch.ones(1, 2), -torch.ones(1, 2)).tolist() == [4]
    domain = Categorical((3,), 4)
    a, b = (domain.from_index(torch.tensor([i])) for i in ([0, 1, 2], [0, 3, 1]))
    assert jump_distance(domain, a, b).tolist() == [2]


def test_tuning_does_not_change_the_argument_and_returns_the_last_states() -> None:
    torch.manual_seed(0)
    energy, sampler = Bernoulli(torch.randn(100)), AnyScale("first")
    before = copy.deepcopy(dict(sampler.named_buffers()))
    x = energy.domain.random(16)
    tuned, last = JumpDistance(window=5).tune(sampler, energy, x, 300)
    assert all(torch.equal(v, before[k]) for k, v in sampler.named_buffers())
    assert isinstance(tuned, AnyScale) and tuned.step_size > 3 * sampler.step_size
    energy.domain.validate(last)
    assert not torch.equal(last, x) and not last.requires_grad
    with torch.inference_mode():
        tuned, _ = JumpDistance(window=5).tune(sampler, energy, x, 60)
    tuned, _ = JumpDistance(window=5).tune(tuned, energy, x, 60)
    _, none = JumpDistance().tune(sampler, energy, x, 0)
    assert torch.equal(none, x)


@pytest.mark.slow
def test_it_finds_nearly_the_best_of_a_grid() -> None:
    """For Figure 1's target, 100 independent bits, sigma infinite and alpha 1 are best: they give independent draws."""
    torch.manual_seed(0)
    energy = Bernoulli(2 * torch.randn(100))
    x = torch.bernoulli(energy.logits.sigmoid().expand(64, -1))

    def distance(sampler: Sampler) -> float:
        return float(sampler.sample(energy, x, 30)[1].hops.mean())

    grid = {
        (s, a): distance(AnyScale("first", s, balance=a))
        for s in (0.1, 0.3, 1, 3, 10, 100)
        for a in (0.5, 0.6, 0.8, 0.9, 1)
    }
    tuned, _ = JumpDistance(window=8).tune(AnyScale("first"), energy, x, 2400)
    assert isinstance(tuned, AnyScale)
    best = max(grid.values())
    assert distance(tuned) > 0.8 * best
    assert max(v for (_, a), v in grid.items() if a == 0.5) < 0.3 * best, "a free alpha is what it takes"
    assert tuned.balance > 0.6 and tuned.step_size > 0.5


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rate": 1.0}, "rate is 1.0, but must be above 0 and below 1"),
        ({"decay": 0.0}, "decay is 0.0"),
        ({"window": 0}, "window is 0, but must be at least 1"),
        ({"parameters": ()}, "parameters is empty"),
        ({"parameters": ("speed",)}, "cannot tune speed of AnyScale; its settings: balance, step_size"),
    ],
)
def test_errors_say_what_would_be_right(settings: dict[str, Any], message: str) -> None:
    with refused(message):
        JumpDistance(**settings).check(AnyScale())


def test_settings_of_a_kernel_within_are_not_the_samplers() -> None:
    with pytest.raises(UserError, match=r"cannot tune kernel\.step_size of TrajectoryTempered; its settings: none"):
        JumpDistance(parameters=("kernel.step_size",)).check(TrajectoryTempered(DMALA(0.2), []))
