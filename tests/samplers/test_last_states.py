"""`Sampler.last_states`: the states of `sample`, and in blocks the same law in the same order."""

from __future__ import annotations

import itertools
import weakref
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
import torch
from helpers_finite import DOMAINS, Exact, Target
from helpers_grbm import PASS, Banana, make_grbm
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import ebmlab.samplers.sampler as base
from ebmlab.domains import Binary, Categorical, Finite, Ordinal, Real
from ebmlab.energies import RBM, Energy, Ising, Potts, ProductMLP
from ebmlab.energies.paths.tempering import tempered
from ebmlab.engine.compiled import Ran
from ebmlab.errors import UserError
from ebmlab.product import Product
from ebmlab.samplers import (
    DMALA,
    DULA,
    GWG,
    MALA,
    ULA,
    Alternate,
    BlockGibbs,
    ChromaticGibbs,
    ChromaticMetropolis,
    DiscreteSVGD,
    Gibbs,
    GibbsLangevin,
    GibbsSweep,
    Info,
    Langevin,
    Sampler,
    State,
    UnderdampedLangevin,
    sampler,
    tally,
)
from ebmlab.samplers.by_chain import Moved, Sure
from ebmlab.samplers.kernel import Kernel
from ebmlab.samplers.multi_spin import MultiSpin
from ebmlab.samplers.schedules import Constant, Cosine

at_once = import_module("ebmlab.samplers.at_once")


@pytest.fixture(autouse=True)
def by_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred chains of a small RBM are moved by programs and steps, and not by the kernels of a few."""
    monkeypatch.setattr(at_once, "MORE", 1)


CASES = [
    (DMALA(0.4), RBM(6, 4)),
    (DULA(0.4), RBM(6, 4)),
    (GWG(), RBM(6, 4)),
    (BlockGibbs(), RBM(6, 4)),
    (ChromaticGibbs(), Ising.lattice(20, 0.3)),
    (Langevin(0.1), make_grbm(2).float()),
    (Langevin(0.1), Banana(2)),
    (UnderdampedLangevin(0.3), Banana(2)),
    (Langevin(0.1, adjust_from=2), make_grbm(2).float()),
]


@pytest.mark.parametrize(("kernel", "energy"), CASES, ids=lambda part: type(part).__name__)
def test_gives_the_last_states_of_sample(kernel: Sampler, energy: Energy) -> None:
    torch.manual_seed(0)
    x = energy.random(5)
    torch.manual_seed(1)
    expected, _ = kernel.sample(energy, x, 7)
    torch.manual_seed(1)
    assert torch.equal(kernel.last_states(energy, x, 7), expected) and not torch.equal(expected, x)


def start(energy: Energy, x: Tensor, settings: Any) -> State:
    return State(x=x)


def stay(energy: Energy, state: State, settings: Any) -> tuple[State, Info]:
    return State(x=state.x), Info(torch.ones(len(state.x)), torch.zeros(len(state.x)))


IN_PLACE = [
    (ChromaticGibbs(), Ising.lattice(4, 0.3)),
    (ChromaticMetropolis(), Ising.lattice(4, 0.3)),
    (GibbsSweep(), Potts(5, 3)),
    (ULA(0.1), Banana(2)),
    (UnderdampedLangevin(0.3), Banana(2)),
]


@pytest.mark.parametrize(("kernel", "energy"), IN_PLACE, ids=lambda part: type(part).__name__)
def test_a_kernel_of_ones_own_makes_the_steps(kernel: Sampler, energy: Energy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not what moves the chains of its base in place, or in words."""
    monkeypatch.setattr(MultiSpin, "pays", lambda *_: True)
    x = energy.random(100)
    assert not torch.equal(kernel.last_states(energy, x, 9), x)
    kernel.__class__ = type("Own", (type(kernel),), {"kernel_on": lambda self, energy: Kernel(start, stay)})
    assert torch.equal(kernel.last_states(energy, x, 9), x)
    last, info = kernel.sample(energy, x, 9)
    assert torch.equal(last, x) and not info.hops.any()


@pytest.mark.parametrize(
    ("kernel", "energy"),
    [
        (Langevin(0.1), Banana(2)),
        (Langevin(0.1, schedule=Cosine()), Banana(2)),
        (UnderdampedLangevin(0.3), Banana(2)),
        (ChromaticGibbs(), Ising.lattice(4, 0.3)),
    ],
    ids=["Langevin", "Cosine", "UnderdampedLangevin", "ChromaticGibbs"],
)
@pytest.mark.parametrize("num_steps", [0, 1, 5])
def test_what_moves_in_place_reports_each_step(kernel: Sampler, energy: Energy, num_steps: int) -> None:
    """The mean distance between the states that fewer steps lead to, from the same random numbers."""
    torch.manual_seed(0)
    start = energy.random(7)

    def after(steps: int) -> Tensor:
        torch.manual_seed(1)
        return start if steps == 0 else kernel.last_states(energy, start, steps)

    if isinstance(kernel, Langevin) and num_steps and not isinstance(kernel.schedule, Constant):
        num_steps = 1  # a schedule over fewer steps is another one
    torch.manual_seed(1)
    last, info = kernel.sample(energy, start, num_steps)
    states = [after(k) for k in range(num_steps + 1)]
    assert torch.equal(last, states[-1])
    moved = [energy.domain.hops(new, old) for old, new in itertools.pairwise(states)]
    expected = torch.stack(moved).mean(0) if moved else torch.zeros(7)
    torch.testing.assert_close(info.hops, expected, rtol=1e-4, atol=1e-6)
    assert info.acceptance.tolist() == [float(num_steps > 0)] * 7 and info.evaluations == (num_steps > 0)


def test_a_subclass_that_writes_step_is_run_by_it() -> None:
    """Also where its base moves all chains in place."""

    class Still(ChromaticGibbs):
        def step(self, energy: Energy, state: State) -> tuple[State, Info]:
            return replace(state, step=state.step + 1), Info(torch.ones(len(state.x)), torch.zeros(len(state.x)))

    ising = Ising.lattice(4, 0.3)
    x = ising.random(3)
    assert torch.equal(Still().last_states(ising, x, 2), x) and torch.equal(Still().sample(ising, x, 2)[0], x)


def test_blocks_of_chains_follow_the_law_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler, "CACHED", 1)
    monkeypatch.setattr(sampler, "SMALLEST", 30_000)
    torch.manual_seed(0)
    target = Target(DOMAINS["binary"], "cubic")
    exact = Exact(target)
    x = exact.sample(100_000)
    kernel = DMALA(0.8)
    assert torch.equal(kernel.last_states(target, x, 0), x)
    y = kernel.last_states(target, x, 2)
    assert exact.p_value(y) > PASS
    assert all((new != old).any() for new, old in zip(y.chunk(4), x.chunk(4), strict=True))


def test_compiled_blocks_have_one_shape_and_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = []

    def program(kernel: object, energy: Energy, x: Tensor, num_steps: int, caller: str, report: bool) -> Ran:
        shapes.append(tuple(x.shape))
        return Ran(1 - x)

    monkeypatch.setattr(sampler, "CACHED", 1)
    monkeypatch.setattr(sampler, "SMALLEST", 40)
    monkeypatch.setattr(sampler.engine, "run_compiled", program)
    rbm = RBM(6, 4)
    x = rbm.random(250)
    assert torch.equal(DMALA(0.4).last_states(rbm, x, 8, compile=True), 1 - x)
    assert shapes == [(36, 6)] * 7


def test_particles_that_repel_each_other_stay_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler, "CACHED", 1)
    monkeypatch.setattr(sampler, "SMALLEST", 2)
    kernel, energy = DiscreteSVGD(0.1), RBM(6, 4)
    x = energy.random(8)
    torch.manual_seed(1)
    expected, _ = kernel.sample(energy, x, 3)
    torch.manual_seed(1)
    assert torch.equal(kernel.last_states(energy, x, 3), expected)


def test_a_report_is_made_when_it_is_read() -> None:
    calls: list[str] = []

    def noted(name: str, value: float) -> Tensor:
        calls.append(name)
        return torch.full((2,), value)

    info = Info(lambda: noted("acceptance", 1.0), lambda: noted("hops", 0.0))
    assert not calls
    assert info.hops.tolist() == info.hops.tolist() == [0, 0] and calls == ["hops"]
    assert (info + info).acceptance.tolist() == [2, 2] and calls == ["hops", "acceptance"]


def test_no_chains_are_refused() -> None:
    rbm = RBM(4, 3)
    for call in (GWG().sample, GWG().last_states):
        with pytest.raises(UserError, match=r"GWG: there are no chains, as x has shape \(0, 4\)"):
            call(rbm, rbm.random(3)[:0], 5)


class Counted(TorchDispatchMode):
    """Counts torch's operations, views among them."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("kernel", "energy"),
    [
        *CASES[:4],
        *CASES[5:7],
        (UnderdampedLangevin(0.1), Banana(2)),
        (MALA(0.1), Banana(2)),
    ],
    ids=lambda part: type(part).__name__,
)
def test_reports_of_few_chains_take_few_operations(kernel: Sampler, energy: Energy) -> None:
    """Of 64 steps, less than one operation each in the mean: those of many steps are done at once."""
    x, counts = energy.random(5), []
    for run in (kernel.last_states, kernel.sample):
        torch.manual_seed(1)
        with Counted() as counted:
            run(energy, x, 64)
        counts.append(counted.count)
    assert counts[1] - counts[0] < 64


SAMPLED = [
    *CASES,
    (UnderdampedLangevin(0.1), Banana(2)),
    (MALA(0.1), Banana(2)),
    (GibbsLangevin(0.1), make_grbm(2).float()),
    (Gibbs(), Potts(4, 3)),
    (DMALA(0.4), Potts(4, 3)),
    (Alternate(bits=DMALA(0.5), place=MALA(0.1)), ProductMLP(Product(bits=Binary(3), place=Real(2)), hidden_dim=4)),
]


@pytest.mark.parametrize(("kernel", "energy"), SAMPLED, ids=lambda part: type(part).__name__)
@pytest.mark.parametrize("together", [1, 40, 2**17])
def test_the_report_is_the_mean_of_those_of_the_steps(
    kernel: Sampler, energy: Energy, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many steps are read at once, and with a rest."""
    monkeypatch.setattr(tally, "TOGETHER", together)
    monkeypatch.setattr(tally, "MOST", 3)
    x = energy.random(5)
    torch.manual_seed(1)
    _, info = kernel.sample(energy, x, 7)
    torch.manual_seed(1)
    if isinstance(kernel, ChromaticGibbs) or isinstance(energy, Banana):  # they move all chains in place otherwise
        pairs = kernel.chain(energy, x, 7)
        _, info = tally.tallied(energy.domain, x, pairs)
        info = info / 7
        torch.manual_seed(1)
    acceptance, hops, old = [], [], x
    for state, step in kernel.chain(energy, x, 7):
        acceptance.append(step.acceptance)
        moved = energy.domain.hops(state.x, old)
        torch.testing.assert_close(step.hops, moved)
        hops.append(moved)
        old = state.x.clone()
    torch.testing.assert_close(info.acceptance, torch.stack(acceptance).mean(0))
    torch.testing.assert_close(info.hops, torch.stack(hops).mean(0))


def test_a_law_that_is_nan_in_one_step_stays_in_the_sum() -> None:
    """Also among reports that are numbers, or functions."""
    domain, x = Real(2), torch.zeros(3, 2)
    bad = torch.tensor([[0.0], [torch.nan], [torch.inf]])
    reports = [
        Info(Sure(x), torch.ones(3)),
        Info(Sure(x, torch.zeros(3, 1)), Moved(domain, x + 3, x)),
        Info(Sure(x, bad), lambda: torch.ones(3)),
        Info(torch.full((3,), 0.5), Moved(domain, x, x)),
        Info(lambda: torch.full((3,), 0.5), torch.ones(3), evaluations=2.0),
    ]
    last, total = tally.tallied(domain, x, [(State(x=x + k), info) for k, info in enumerate(reports)])
    torch.testing.assert_close(total.acceptance, torch.tensor([4.0, torch.nan, 4.0]), equal_nan=True)
    torch.testing.assert_close(total.hops, torch.full((3,), 3 + 3 * 2**0.5))
    assert total.evaluations == 6 and torch.equal(last, x + 4)
    assert Sure(x, bad)().isnan().tolist() == [False, True, False]


@pytest.mark.parametrize("together", [1, 2**17])
@pytest.mark.parametrize("domain", [Binary(2), Categorical(2, 3), Ordinal(2, 600)], ids=repr)
def test_changes_of_a_long_chain_are_counted(domain: Finite, together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In bytes, of more steps and values than a byte holds, also where a step begins elsewhere."""
    monkeypatch.setattr(tally, "TOGETHER", together)
    x, new, reports, expected = domain.random(3), domain.random(300 * 3).split(3), [], torch.zeros(3)
    old = x
    for step, y in enumerate(new):
        if step == 200:
            old = domain.random(3)
        reports.append((State(x=y), Info(Sure(y), torch.ones(3) if step == 250 else Moved(domain, y, old))))
        expected += 1 if step == 250 else domain.hops(y, old)
        old = y
    assert torch.equal(tally.tallied(domain, x, reports)[1].hops, expected)


def test_a_chain_holds_no_state_but_the_last_while_it_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the next step can take the memory of the one before, where chains are many."""
    monkeypatch.setattr(tally, "TOGETHER", 1)
    alive: list[int] = []

    class Watched(DMALA):
        def step(self, energy: Energy, state: Any) -> tuple[Any, Info]:
            alive.append(sum(reference() is not None for reference in seen))
            new, info = super().step(energy, state)
            seen.append(weakref.ref(new.x))
            return new, info

    rbm = RBM(6, 4)
    for run in (Watched(0.4).sample, Watched(0.4).last_states):
        seen: list[weakref.ref[Tensor]] = []
        alive.clear()
        run(rbm, rbm.random(5), 6)
        assert max(alive) == 1


@pytest.mark.parametrize(
    "sampler", [Gibbs(), ChromaticGibbs(), GibbsSweep(), DMALA(0.5)], ids=lambda s: type(s).__name__
)
def test_chains_at_temperatures_of_their_own_stay_in_one_block(
    sampler: Sampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cold chains are up, as the field says; hot ones are not."""
    monkeypatch.setattr(base, "SMALLEST", 10)
    monkeypatch.setattr(base, "CACHED", 1)
    betas = torch.tensor([0.01] * 20 + [5.0] * 20)
    energy = tempered(Ising([[0.0, 0.3], [0.3, 0.0]], field=2.0), betas)
    x, _ = sampler.sample(energy, torch.tensor([[1.0, -1.0]]).expand(40, 2), 60)
    assert bool((x[20:] == 1).all()) and not bool((x[:20] == 1).all())
