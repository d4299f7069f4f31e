"""NUTS: agrees with its definition by recursion, is exact on hard targets, and known-wrong kernels are caught."""

from __future__ import annotations

import contextlib
import functools
import math
import shutil
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from helpers_batch import alone_and_together
from helpers_grbm import FAIL, PASS, Banana, invariance_p, make_grbm
from helpers_mutants import mutant
from helpers_tier import cases
from torch import Tensor

from ebmlab.energies import GRBM, Energy
from ebmlab.energies.paths.tempering import TemperedEnergy
from ebmlab.engine import uneven
from ebmlab.errors import UserError
from ebmlab.evaluation import ais, exact_log_z
from ebmlab.samplers import NUTS, Info, Sampler, Tempered
from ebmlab.samplers.hmc import HMCState
from ebmlab.samplers.nuts import drawn
from ebmlab.samplers.nuts_tree import begun, tick, turned_inside, turns_back
from ebmlab.samplers.nuts_walk import Marks, Options

STEP = 0.3
SCALES = {"none": None, "diagonal": [0.6, 1.4], "dense": [[0.6, 0.0], [0.5, 1.2]]}
MUTANTS = {  # what to replace in the source of nuts_tree.py, with what
    "stretches inside are not asked": ("(ends & turns)", "(ends & ~ends)"),
    "only stretches of two states are asked": ("(ends & turns)", "(ends & turns)[:, :1]"),
    "stretches begin one leaf late": ("(half.leaf, half.leaf + 1)", "(half.leaf - 1, half.leaf + 1)"),
    "the last state in place of a drawn one": ("front.where(takes, half.chosen)", "front"),
    "the new half always replaces": ("(half.log_weight - path.log_weight).clamp(max=0).exp()", "2"),
    "the new half never replaces, but the first": (
        "(half.log_weight - path.log_weight).clamp(max=0).exp()",
        "(3 * (path.depth == 0) - 1)",
    ),
    "weights without the velocity": ("+ (kinetic(velocity) - path.kinetic)", ""),
    "wrong mass in the weights": ("+ (kinetic(velocity) - path.kinetic)", "+ (kinetic(velocity) - path.kinetic) / 2"),
    "weights all alike": ("half.log_weight, -rise)", "half.log_weight, 0 * rise)"),
    "always in the direction of time": ("side < 0.5", "side < -1"),
    "a uniform number that is used twice": (
        "torch.where(takes, half.chance / share, (half.chance - share) / (1 - share))",
        "half.chance",
    ),
    "only the front is asked": (
        "((front * way).sum(-1) <= 0) | ((back * way).sum(-1) <= 0)",
        "(front * way).sum(-1) <= 0",
    ),
    "the back leads the wrong way": ("back_velocity=-velocity", "back_velocity=velocity"),
    "the weight of the first half alone": ("torch.logaddexp(path.log_weight, half.log_weight)", "path.log_weight"),
    "the sum keeps its sign": ("total=-path.total", "total=path.total"),
    "a half that turns inside stays": ("~(rise <= DIVERGED) | turns", "~(rise <= DIVERGED)"),
}
SUBTLE = {  # whose law is too close to be told apart by so many draws
    "only stretches of two states are asked",
    "stretches begin one leaf late",
    "the new half always replaces",
    "weights all alike",
    "the weight of the first half alone",
    "the sum keeps its sign",
}


def wrong_nuts(old: str, new: str) -> type[NUTS]:
    """NUTS on a changed tree."""
    tree = mutant(tick, old, new).__globals__
    kind: type[NUTS] = mutant(NUTS, "exact = True", "exact = True")  # a copy
    kind.check.__globals__.update(begun=tree["begun"], tick=tree["tick"])
    return kind


def banana_p(sampler: Sampler, num_chains: int, num_steps: int = 2) -> float:
    torch.manual_seed(0)
    target = Banana(2)
    return target.p_value(sampler.sample(target, target.sample(num_chains), num_steps)[0])


@cases("scale", list(SCALES), fast=[2])
def test_leaves_the_mixture_invariant(scale: str) -> None:
    assert invariance_p(NUTS(0.8, scale=SCALES[scale]), make_grbm(2), 2, num_chains=50_000) > PASS


@cases(("scale", "max_depth"), [("none", 10), ("diagonal", 10), ("dense", 10), ("none", 2)], fast=[1, 3])
def test_leaves_a_quartic_invariant(scale: str, max_depth: int) -> None:
    sampler = NUTS(STEP, scale=SCALES[scale], max_depth=max_depth)
    assert sampler.exact and banana_p(sampler, 50_000) > PASS


@pytest.mark.slow
@pytest.mark.parametrize("step_size", [0.1, 0.5])
def test_leaves_a_quartic_invariant_at_many_draws(step_size: float) -> None:
    assert banana_p(NUTS(step_size), 400_000, 1) > PASS


@cases("name", sorted(MUTANTS.keys() - SUBTLE), fast=[0])
def test_mutants_break_the_law(name: str) -> None:
    assert banana_p(wrong_nuts(*MUTANTS[name])(0.35, max_depth=5), 40_000) < FAIL


class ByDefinition:
    """One step of one chain, as the papers define it: every stretch of a tree is asked, with its states in hand.

    Args:
        target: E.
        epsilon: of a leapfrog step.
        S: the metric's factor, `(d, d)`.
    """

    def __init__(self, target: Banana, epsilon: float, S: Tensor) -> None:
        self.target, self.epsilon, self.S = target, epsilon, S

    def leap(self, x: Tensor, v: Tensor, sign: int) -> tuple[Tensor, Tensor]:
        epsilon = sign * self.epsilon
        v = v - epsilon / 2 * self.S.T @ self.target.gradient(x[None])[0]
        x = x + epsilon * self.S @ v
        return x, v - epsilon / 2 * self.S.T @ self.target.gradient(x[None])[0]

    def weight(self, x: Tensor, v: Tensor) -> float:
        return math.exp(-float(self.target(x[None])) - float(v @ v) / 2)

    def turns(self, states: list[tuple[Tensor, Tensor]]) -> bool:
        """Whether the states, in the order of time, turn (generalised criterion, by the trapezoid rule)."""
        first, last = states[0][1], states[-1][1]
        way = sum(v for _, v in states) - (first + last) / 2
        return float(first @ way) <= 0 or float(last @ way) <= 0

    def step(self, x: Tensor, v: Tensor, chance: Tensor) -> tuple[Tensor, int]:
        """The next x, and how many states were visited, from the uniform numbers of a step."""
        path, leaps, direction = [(x, v)], 0, 1
        for side, inside, swap in chance.tolist():
            direction = -direction if side < 0.5 else direction
            new: list[tuple[Tensor, Tensor]] = []
            state = path[-1] if direction > 0 else path[0]
            for _ in range(len(path)):
                state = self.leap(*state, direction)
                new.append(state)
                leaps += 1
                ended = [new[-(2**k) :] for k in range(1, 11) if len(new) % 2**k == 0]
                if any(self.turns(part if direction > 0 else part[::-1]) for part in ended):
                    return x, leaps
            weights = torch.tensor([self.weight(*s) for s in new], dtype=torch.float64)
            old = sum(self.weight(*s) for s in path)
            if swap < float(weights.sum()) / old:
                x = new[self.chosen(weights, inside)][0]
            path = path + new if direction > 0 else new[::-1] + path
            if self.turns(path):
                return x, leaps
        return x, leaps

    @staticmethod
    def chosen(weights: Tensor, chance: float) -> int:
        """State n replaces the earlier ones with probability w_n / (w_0 + ... + w_n); the number is stretched."""
        choice = 0
        for n in range(1, len(weights)):
            share = float(weights[n] / weights[: n + 1].sum())
            choice, chance = (n, chance / share) if chance < share else (choice, (chance - share) / (1 - share))
        return choice


class Fixed:
    """A step of chains with fixed numbers.

    Args:
        epsilon: of a leapfrog step.
        num_chains: how many.
    """

    def __init__(self, epsilon: float, num_chains: int) -> None:
        generator = torch.Generator().manual_seed(0)
        self.epsilon, self.target = epsilon, Banana(2)
        self.x = torch.randn(num_chains, 2, generator=generator).double()
        self.velocity = torch.randn(num_chains, 2, generator=generator).double()
        self.chance = torch.rand(num_chains, 8, 3, generator=generator).double()

    def expected(self, scale: str) -> tuple[Tensor, Tensor]:
        """The next x, and how many states each chain has visited, by the definition."""
        S = torch.eye(2) if scale == "none" else torch.tensor(SCALES[scale])
        alone = ByDefinition(self.target, self.epsilon, S.double())
        steps = [alone.step(*numbers) for numbers in zip(self.x, self.velocity, self.chance, strict=True)]
        return torch.stack([x for x, _ in steps]), torch.tensor([n for _, n in steps]).double()

    def found(self, kind: type[NUTS], scale: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Tensor, float]:
        monkeypatch.setattr(torch, "randn_like", lambda like: self.velocity)
        monkeypatch.setattr(torch, "rand_like", lambda like: self.chance)
        sampler = kind(self.epsilon, max_depth=8, scale=SCALES[scale])
        state, info = sampler.step(self.target, sampler.init(self.target, self.x))
        return state.x, info.evaluations


FINE, COARSE = Fixed(0.0625, 20), Fixed(0.375, 80)


@functools.cache
def expected(fixed: Fixed, scale: str) -> tuple[Tensor, Tensor]:
    return fixed.expected(scale)


@cases(("fixed", "scale"), [(FINE, "dense"), (COARSE, "dense"), (COARSE, "none")], fast=[0, 2])
def test_steps_are_those_of_the_definition(fixed: Fixed, scale: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chains of unequal length move together as each does alone by the definition."""
    x, evaluations = fixed.found(NUTS, scale, monkeypatch)
    y, leaps = expected(fixed, scale)
    torch.testing.assert_close(x, y, rtol=0, atol=1e-9)
    assert evaluations == pytest.approx(leaps.mean().item()) and leaps.max() > 4 * leaps.min()


@cases("name", list(MUTANTS), fast=[0])
def test_mutants_differ_from_the_definition(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong, differ = wrong_nuts(*MUTANTS[name]), False
    for fixed in (FINE, COARSE):
        x, evaluations = fixed.found(wrong, "dense", monkeypatch)
        y, leaps = expected(fixed, "dense")
        differ |= bool((x - y).abs().max() > 1e-3) or abs(evaluations - leaps.mean()) > 0.01
    assert differ


def test_each_leaf_is_asked_for_all_stretches_that_end_there() -> None:
    """Chains at the leaves 0 to 15 of their halves, as in `chain`, where they do not wait for each other."""
    torch.manual_seed(0)
    target, options = Banana(2), Options(5, None)
    state = NUTS(STEP).init(target, x := torch.randn(16, 2).double())
    half = begun(state, drawn(x, 1, 1, options), options).half
    half = replace(half, leaf=torch.arange(16), total=torch.randn_like(x))
    marks = Marks(*torch.randn(2, 16, 5, 2, dtype=torch.float64))
    velocity, total = torch.randn(2, 16, 2, dtype=torch.float64)
    turns = [turns_back(velocity, marks.velocity[:, k], total - marks.before[:, k]).tolist() for k in range(5)]
    expected = [any(turns[k][n] for k in range(5) if (n + 1) % 2 ** (k + 1) == 0) for n in range(16)]
    assert turned_inside(marks, velocity, half, total, options)[1].tolist() == expected
    assert 3 < sum(expected) < 8


def test_evaluations_are_those_that_the_energy_sees() -> None:
    torch.manual_seed(0)
    target, rows = Banana(2), []
    target.register_forward_pre_hook(lambda _, args: rows.append(len(args[0])))
    sampler = NUTS(STEP)
    state = sampler.init(target, target.sample(500))
    for _ in range(3):
        rows.clear()
        state, info = sampler.step(target, state)
        assert sum(rows) / 500 == pytest.approx(info.evaluations) and rows[0] == 500 > rows[-1]


def test_evaluations_of_blocks_are_the_mean_over_all_chains() -> None:
    reports = [Info(torch.ones(1), torch.ones(1), evaluations=1.0), Info(torch.ones(3), torch.ones(3), evaluations=5.0)]
    assert Info.cat(reports).evaluations == 4.0


def test_a_chain_does_not_depend_on_its_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    target = Banana(2)
    alone_and_together(NUTS(STEP), target, target.sample(64), monkeypatch, others=3 * torch.randn(64, 2).double())


def test_what_a_state_keeps_belongs_to_x() -> None:
    torch.manual_seed(0)
    target = Banana(2)
    for state, _ in NUTS(STEP).chain(target, target.sample(300), 3):
        value, grad = target.value_and_grad(state.x)
        torch.testing.assert_close((state.energy, state.grad), (value, grad))


def test_chains_converge_from_one_bad_start() -> None:
    torch.manual_seed(0)
    target = Banana(2)
    x = NUTS(STEP).last_states(target, torch.full((3000, 2), -2.0, dtype=torch.float64), 8)
    assert target.p_value(x) > PASS


def test_chains_of_unequal_temperatures_follow_their_own_laws() -> None:
    """Chains that go on while others have stopped keep their own temperature."""
    torch.manual_seed(0)
    cold, warm = Banana(2), Banana(2, temperature=2.0)
    betas = torch.tensor([1.0, 0.5], dtype=torch.float64).repeat(25_000)
    x = torch.stack([cold.sample(25_000), warm.sample(25_000)], 1).flatten(0, 1)
    x = NUTS(STEP).last_states(TemperedEnergy(Banana(2), betas), x, 2)
    assert cold.p_value(x[::2]) > PASS and warm.p_value(x[1::2]) > PASS


def test_replica_exchange_around_it_converges() -> None:
    torch.manual_seed(0)
    target = Banana(2)
    start = torch.full((2000, 2), -2.0, dtype=torch.float64)
    x = Tempered(NUTS(STEP, max_depth=4), betas=[1.0, 0.5]).last_states(target, start, 8)
    assert target.p_value(x) > PASS


def test_an_annealed_chain_finds_log_z() -> None:
    torch.manual_seed(0)
    grbm = GRBM(4, 3).double()
    result = ais(grbm, NUTS(0.6, max_depth=4), num_chains=200, num_temperatures=40)
    assert abs(result.log_z - exact_log_z(grbm).item()) < 5 * result.std_error


def test_a_state_of_nan_energy_is_not_entered_and_is_reported() -> None:
    class Walled(Banana):
        def forward(self, x: Tensor) -> Tensor:
            return torch.where(x[:, 0] > 0.5, float("nan"), super().forward(x))

    torch.manual_seed(0)
    x, info = NUTS(STEP).sample(Walled(2), -Banana(2).sample(200).abs(), 20)
    assert (x[:, 0] <= 0.5).all() and info.hops.min() > 0 and info.acceptance.isnan().any()


def test_a_trajectory_has_at_most_so_many_states() -> None:
    target = Banana(2)
    for max_depth in (1, 3):
        info = NUTS(1e-3, max_depth=max_depth).sample(target, target.sample(20), 2)[1]
        assert info.evaluations == 2**max_depth - 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: NUTS(0.0), "step_size is 0.0"),
        (lambda: NUTS(0.1, max_depth=0), "max_depth is 0"),
        (lambda: NUTS(0.1, scale=[1.0, -1.0]), "scale"),
        (lambda: NUTS(0.1, max_depth=21), "max_depth is 21, but must be at most 20"),
        (lambda: Stepwise(0.1).sample(make_grbm(2), torch.zeros(1, 2), 1, compile=True), "cannot be compiled"),
    ],
)
def test_refusals(make: object, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make()  # type: ignore[operator]


class Stepwise(NUTS):
    """NUTS that looks at its steps, which programs would not take."""

    def step(self, energy: Energy, state: HMCState) -> tuple[HMCState, Info]:
        return super().step(energy, state)


AHEAD = {  # what breaks only chains that are ahead of each other
    "a chain that is done moves on": ("full & live &", "full &"),
    "a chain that is done is counted": ("counted = ended & live", "counted = ended"),
    "the velocity of the first step": ("numbers.velocity[step, walk.chain]", "numbers.velocity[0, walk.chain]"),
    "the chances of the first step": ("numbers.chance[step, walk.chain,", "numbers.chance[0 * step, walk.chain,"),
    "the next half goes on with the old sum": ("total=torch.zeros_like(half.total)", "total=half.total"),
    "the next trajectory goes on with the old weight": ("energy=at.energy", "energy=0 * at.energy"),
}


def loop(
    going: Callable[..., Tensor], once: Callable[..., tuple[Tensor, ...]], tensors: tuple[Tensor, ...]
) -> tuple[Tensor, ...]:
    while going(*tensors):
        tensors = once(*tensors)
    return tensors


def ahead(kind: type[NUTS], monkeypatch: pytest.MonkeyPatch, num_steps: int = 9) -> tuple[Tensor, Info]:
    """Chains as a program moves them, without the compiler; all numbers are drawn for four steps at a time."""
    torch.compile(torch.neg, backend="eager")(torch.zeros(1))  # the compiler notes is_compiling at its first use
    monkeypatch.setattr(uneven, "compiling", lambda function, *_, **__: contextlib.nullcontext(function))
    monkeypatch.setattr(uneven, "AHEAD", 4)
    monkeypatch.setattr(uneven, "while_loop", loop)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    torch.manual_seed(0)
    target = Banana(2)
    return kind(0.2, max_depth=6, scale=SCALES["dense"]).sample(target, target.sample(40), num_steps, compile=True)


@functools.cache
def one_by_one() -> tuple[Tensor, Info]:
    torch.manual_seed(0)
    target = Banana(2)
    return NUTS(0.2, max_depth=6, scale=SCALES["dense"]).sample(target, target.sample(40), 9)


@pytest.mark.slow
def test_chains_that_are_ahead_of_each_other_take_the_same_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    x, info = one_by_one()
    y, found = ahead(NUTS, monkeypatch)
    torch.testing.assert_close(y, x, rtol=0, atol=1e-9)
    torch.testing.assert_close((found.acceptance, found.hops), (info.acceptance, info.hops), rtol=1e-9, atol=1e-9)
    assert found.evaluations == pytest.approx(info.evaluations)


@cases("name", list(AHEAD), fast=[0])
def test_mutants_that_are_ahead_of_each_other_differ(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = wrong_nuts(*AHEAD[name])
    x, info = one_by_one()
    y, found = ahead(wrong, monkeypatch)
    assert (y - x).abs().max() > 1e-3 or abs(found.evaluations - info.evaluations) > 0.01


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
@pytest.mark.slow
def test_compiled_chains_are_those_that_run_step_by_step() -> None:
    target, found = Banana(2), []
    x = target.sample(200)
    for compile in (False, True):
        torch.manual_seed(1)
        found.append(NUTS(STEP, max_depth=5).sample(target, x, 5, compile=compile))
    (x, info), (y, same) = found
    torch.testing.assert_close(y, x, rtol=0, atol=1e-6)
    torch.testing.assert_close(same.acceptance, info.acceptance)
    assert same.evaluations == pytest.approx(info.evaluations)
