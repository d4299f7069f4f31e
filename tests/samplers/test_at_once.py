"""Chains on an RBM that a kernel in C++ moves at once: what `sample` says of them, and which chains it leaves alone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from ebmlab.energies import RBM, Energy
from ebmlab.energies.paths.tempering import tempered
from ebmlab.native import few_chains
from ebmlab.samplers import DMALA, DULA, BlockGibbs, Info, Sampler
from ebmlab.testing import ExactLaw

MODULES = [import_module(f"ebmlab.native.{name}") for name in ("block_gibbs", "dmala")]
needs_kernels = pytest.mark.skipif(
    MODULES[0].checked() is None, reason="needs a C++ compiler, Linux, and AVX2 or AVX-512"
)
BOTH = pytest.mark.parametrize("sampler", [BlockGibbs(), DMALA(0.4)], ids=["block Gibbs", "DMALA"])
STEPS = 8  # from which the kernel takes them


class Seen(Exception):
    """The kernel has been asked."""


def rbm(visible: int = 6, hidden: int = 4, scale: float = 0.7) -> RBM:
    torch.manual_seed(1)
    energy = RBM(visible, hidden).requires_grad_(False)
    for parameter in energy.parameters():
        torch.nn.init.normal_(parameter, std=scale)
    return energy


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call of the kernel is an error."""

    def seen(*args: Any, **kwargs: Any) -> None:
        raise Seen

    for module in MODULES:
        monkeypatch.setattr(module, "moved", seen)


RUNS: dict[str, Callable[[Sampler, Energy, Tensor, int], Any]] = {
    "sample": lambda s, e, x, n: s.sample(e, x, n),
    "last_states": lambda s, e, x, n: s.last_states(e, x, n),
    "sample, compiled": lambda s, e, x, n: s.sample(e, x, n, compile=True),
    "last_states, compiled": lambda s, e, x, n: s.last_states(e, x, n, compile=True),
}


@needs_kernels
@BOTH
@pytest.mark.parametrize("run", RUNS)
def test_the_kernel_moves_few_chains(sampler: Sampler, run: str, watched: None) -> None:
    """More of them on a small RBM."""
    for energy, chains in ((rbm(), 3), (rbm(), 190), (RBM(200, 64), 32), (RBM(1100, 1000), 16)):
        with pytest.raises(Seen):
            RUNS[run](sampler, energy, energy.random(chains), STEPS)


@needs_kernels
@BOTH
def test_all_ways_to_run_give_the_same_chains(sampler: Sampler) -> None:
    energy, found = rbm(), []
    x = torch.zeros(3, 6)
    for run in RUNS.values():
        torch.manual_seed(4)
        found.append(run(sampler, energy, x, 20))
    (one, info), two, (three, other), four = found
    assert torch.equal(one, two) and torch.equal(one, three) and torch.equal(one, four)
    assert torch.equal(info.acceptance, other.acceptance) and torch.equal(info.hops, other.hops)
    assert torch.equal(x, torch.zeros(3, 6)) and not one.requires_grad


@needs_kernels
@BOTH
def test_reports_are_those_of_single_steps(sampler: Sampler) -> None:
    """Means over steps agree, of the same types and shapes."""
    energy = rbm()
    x = ExactLaw(energy).sample(16).float()
    ours = sampler.sample(energy, x, 4000)[1]
    steps = [info for _, info in sampler.chain(energy, x.repeat(20, 1), 200)]
    theirs = Info.__truediv__(sum(steps[1:], steps[0]), len(steps))
    for name in ("acceptance", "hops"):
        mine, plain = getattr(ours, name), getattr(theirs, name)
        assert mine.dtype == plain.dtype and mine.shape == (16,)
        assert abs(mine.mean() - plain.mean()) < 0.03 * plain.mean()
    assert ours.evaluations == theirs.evaluations == 1


@needs_kernels
@BOTH
def test_chains_reach_the_law(sampler: Sampler) -> None:
    energy, found = rbm(), []
    torch.manual_seed(6)
    for _ in range(400):
        found.append(sampler.last_states(energy, torch.zeros(32, 6), 40))
    assert ExactLaw(energy).p_value(torch.cat(found)) > 1e-4


class OwnSampler(BlockGibbs):
    """A derived class."""


class OwnRBM(RBM):
    """A derived class."""


OTHERS: dict[str, Callable[[], tuple[Sampler, Energy]]] = {
    "a derived sampler": lambda: (OwnSampler(), rbm()),
    "a derived energy": lambda: (DMALA(0.4), OwnRBM(6, 4)),
    "an energy around it": lambda: (DMALA(0.4), tempered(rbm(), 0.5)),
    "another type": lambda: (BlockGibbs(), rbm().double()),
    "Gaussian hidden units": lambda: (BlockGibbs(), RBM(6, 4, hidden="gaussian")),
    "a preconditioner": lambda: (DMALA(0.4, precondition=[1.0, 2.0, 1.0, 1.0, 1.0, 1.0]), rbm()),
    "DULA": lambda: (DULA(0.4), rbm()),
}


@pytest.mark.parametrize("others", OTHERS)
def test_others_move_step_by_step(others: str, watched: None) -> None:
    sampler, energy = OTHERS[others]()
    sampler.sample(energy, energy.random(3), STEPS)
    sampler.last_states(energy, energy.random(3), STEPS)


@BOTH
def test_many_chains_and_few_steps_are_left_alone(sampler: Sampler, watched: None) -> None:
    small, middle, large = rbm(), RBM(200, 64), RBM(1100, 1000)
    sampler.sample(small, small.random(400), STEPS)
    sampler.sample(small, small.random(3), STEPS - 1)
    sampler.sample(middle, middle.random(100), STEPS)
    sampler.sample(large, large.random(17), STEPS)


@BOTH
def test_what_torch_has_to_see_is_left_alone(sampler: Sampler, watched: None) -> None:
    energy = rbm()
    with FlopCounterMode(display=False) as counter:
        sampler.last_states(energy, torch.zeros(3, 6), STEPS)
    assert counter.get_total_flops() > 0
    with torch.autocast("cpu", torch.bfloat16):
        sampler.last_states(energy, torch.zeros(3, 6), STEPS)


@BOTH
@pytest.mark.parametrize("odd", [torch.nan, torch.inf, -torch.inf, 3e38])
@pytest.mark.parametrize("name", ["W", "b_v", "b_h"])
def test_numbers_that_are_not_finite_are_reported_as_step_by_step(
    sampler: Sampler, odd: float, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At coordinates that are 0, too."""
    energy, x = rbm(), torch.zeros(3, 6)
    getattr(energy, name).flatten()[2] = odd
    torch.manual_seed(7)
    last, info = sampler.sample(energy, x, STEPS)
    for module in MODULES:
        monkeypatch.setattr(module, "checked", lambda: None)
    torch.manual_seed(7)
    expected, report = sampler.sample(energy, x, STEPS)
    assert torch.equal(last, expected)
    torch.testing.assert_close(info.acceptance, report.acceptance, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(info.hops, report.hops)
    if odd != odd and name != "b_v":
        assert info.acceptance.isnan().all()


@pytest.mark.parametrize("name", ["step_size", "balance"])
def test_settings_that_are_no_numbers_are_left_alone(name: str, watched: None) -> None:
    sampler = DMALA(0.4)
    getattr(sampler, name).fill_(torch.nan)
    assert sampler.sample(rbm(), torch.zeros(3, 6), STEPS)[1].acceptance.isnan().all()


@needs_kernels
@BOTH
def test_defaults_of_torch_and_kinds_of_numbers_do_not_matter(sampler: Sampler) -> None:
    energy, x = rbm(), torch.zeros(3, 6)
    for module in MODULES:
        module.checked.cache_clear()
    torch.manual_seed(2)
    expected = sampler.last_states(energy, x, 9)
    for module in MODULES:
        module.checked.cache_clear()
    torch.set_default_dtype(torch.float16)
    try:
        torch.manual_seed(2)
        assert torch.equal(sampler.last_states(energy, x, torch.tensor(9)), expected)  # type: ignore[arg-type]
    finally:
        torch.set_default_dtype(torch.float32)
    torch.manual_seed(2)
    wide = torch.zeros(6, 6).T[:3]
    with torch.inference_mode():
        assert torch.equal(sampler.last_states(energy, wide, 9), expected)
    torch.manual_seed(2)
    assert torch.equal(sampler.last_states(energy, torch.zeros(3, 6, dtype=torch.bool), 9), expected)


@BOTH
def test_weights_may_lie_in_memory_in_any_order(sampler: Sampler) -> None:
    energy, turned = rbm(20, 32), rbm(20, 32)
    turned.W.data = energy.W.T.contiguous().T
    found = []
    for each in (energy, turned):
        torch.manual_seed(2)
        found.append(sampler.last_states(each, torch.ones(2, 20), 9))
    assert torch.equal(*found)


def test_no_compiler_is_no_fault(tmp_path: Path) -> None:
    code = (
        "from ebmlab.energies import RBM; from ebmlab.samplers import DMALA, BlockGibbs; e = RBM(6, 4)\n"
        "print([s.sample(e, e.random(2), 9)[0].shape[0] for s in (DMALA(0.2), BlockGibbs())])"
    )
    environ = os.environ | {"EBMLAB_CACHE": str(tmp_path), "CXX": ""}
    ran = subprocess.run([sys.executable, "-c", code], env=environ, check=True, capture_output=True, text=True)
    assert ran.stdout == "[2, 2]\n" and not [*tmp_path.rglob("*.so")]


def test_a_signal_is_heard_between_bursts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call takes 2^30 weights of chains, about a tenth of a second."""
    calls = []

    def counted(*args: Any) -> None:
        calls.append(args[-3])
        if len(calls) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(MODULES[0], "checked", lambda: counted)
    monkeypatch.setattr(MODULES[0], "may_be_called", lambda *args: True)
    energy = rbm(784, 500, 0.05)
    with pytest.raises(KeyboardInterrupt):
        BlockGibbs().last_states(energy, torch.zeros(16, 784), 10**9)
    assert calls == [few_chains.BURST // (16 * (784 * 512 + few_chains.UNIT * (784 + 512)))] * 3
