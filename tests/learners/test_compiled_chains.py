"""Training by compiled chains: the loss and the buffer of plain chains, number by number."""

from __future__ import annotations

import contextlib
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from helpers_trainer import quiet_trainer, short_fit
from torch import Tensor

import ebmlab.engine.compiled as compiled
from ebmlab.datamodules import Digits
from ebmlab.energies import GRBM, MLP, RBM, Energy, Ising, ResNet
from ebmlab.errors import UserError
from ebmlab.learners import AdaptiveDMALA, ContrastiveDivergence, FromData, PersistentACS, ReplayBuffer
from ebmlab.samplers import DMALA, GWG, AnyScale, Bfloat16Proposals, BlockGibbs, Gibbs, GibbsLangevin, Sampler

pytestmark = pytest.mark.filterwarnings("ignore:The dirpath has changed")
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Eight steps at a time, but not compiled; counts the calls."""
    calls = []

    @contextlib.contextmanager
    def compiling(function: Any, *_: Any) -> Iterator[Any]:
        calls.append(1)
        yield function

    monkeypatch.setattr(compiled, "compiling", compiling)
    return calls


def make_energy(name: str) -> Energy:
    torch.manual_seed(1)
    energy: Energy = RBM(9, 4) if name == "RBM" else MLP(9, 8) if name == "MLP" else Ising.learnable(9)
    for parameter in energy.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return energy


def step(energy: Energy, sampler: Sampler, compile_chains: bool, num_steps: int = 19) -> tuple[Tensor, ...]:
    """The loss, its gradient and the buffer after a training step that is not logged."""
    torch.manual_seed(0)
    learner = ContrastiveDivergence(
        energy, sampler, start=ReplayBuffer(50), num_steps=num_steps, compile_chains=compile_chains
    )
    learner.log = learner.log_dict = lambda *_, **__: None  # type: ignore[method-assign]
    loss = learner.training_step(energy.domain.random(40), 0)
    parameters = [p for p in energy.parameters() if p.requires_grad]
    assert isinstance(learner.start, ReplayBuffer) and learner.start.slots is not None
    return loss, *torch.autograd.grad(loss, parameters, allow_unused=True), learner.start.slots


@pytest.mark.parametrize(
    ("energy", "sampler", "density"),
    [
        (RBM(9, 4), DMALA(0.6), "marginal"),
        (MLP(9, 8), DMALA(0.6), "marginal"),
        (ResNet((1, 4, 4), channels=8), Bfloat16Proposals(DMALA(0.6), 2), "marginal"),
        (GRBM(9, 4), GibbsLangevin(0.1), "joint"),
        (GRBM(9, 4), GibbsLangevin(0.1), "marginal"),
    ],
    ids=str,
)
def test_what_a_gpu_records_is_the_plain_step(
    energy: Energy, sampler: Sampler, density: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """States, report, loss and gradient are those of plain chains, where the function is called and not recorded."""
    learner = ContrastiveDivergence(
        energy, sampler, start=FromData(), num_steps=5, burn_in=2, density=density, compile_chains=True
    )
    monkeypatch.setattr(type(learner._replayed), "__call__", lambda self, function, x, *_, **__: function(*x))
    x, contrast, parameters = energy.random(40), energy.weighted_sum(), list(energy.parameters())
    torch.manual_seed(0)
    data = learner._add_data(contrast, x, None)
    report, plain = learner._subtract_negatives(contrast, x)
    expected = contrast.value()
    torch.manual_seed(0)
    info, last, data_energy, value = learner._replayed_contrast(x, None)
    torch.testing.assert_close(data_energy, data)
    assert info is not None and report is not None
    torch.testing.assert_close((last, value), (plain, expected))
    torch.testing.assert_close((info.acceptance, info.hops), (report.acceptance, report.hops))
    both = [torch.autograd.grad(total, parameters, allow_unused=True) for total in (value, expected)]
    torch.testing.assert_close(*both)


@pytest.mark.parametrize(
    "sampler", [DMALA(0.6), GWG(), AnyScale("first", 0.5, balance=0.6)], ids=lambda s: type(s).__name__
)
@pytest.mark.parametrize("name", ["RBM", "MLP", "Ising"])
def test_a_step_is_that_of_plain_chains(
    name: str, sampler: Sampler, plain: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    energy = make_energy(name)
    expected = step(energy, sampler, compile_chains=True)
    assert plain == []  # without a trainer every step is logged, and the acceptance is needed
    monkeypatch.setattr(ContrastiveDivergence, "log_is_due", False)
    torch.testing.assert_close(step(energy, sampler, compile_chains=True), expected)
    assert plain == [1]
    short = step(energy, sampler, compile_chains=True, num_steps=18)
    assert not torch.equal(short[-1], expected[-1])


def test_block_gibbs_fits_the_marginal_density(plain: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    energy = make_energy("RBM")
    expected = step(energy, BlockGibbs(), compile_chains=False)
    monkeypatch.setattr(ContrastiveDivergence, "log_is_due", False)
    torch.testing.assert_close(step(energy, BlockGibbs(), compile_chains=True), expected)
    assert plain == [1]


def test_a_run_may_shorten_its_chains_and_move_their_starts(plain: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """`ShortChains` sets chain_steps, and persistent ACS moves the chains while it searches a step size."""
    monkeypatch.setattr(ContrastiveDivergence, "log_is_due", False)
    energy = make_energy("RBM")
    full = step(energy, DMALA(0.6), compile_chains=True, num_steps=17)
    monkeypatch.setattr(ContrastiveDivergence, "chain_steps", 9)
    nine = step(energy, DMALA(0.6), compile_chains=True, num_steps=17)
    torch.testing.assert_close(nine, step(energy, DMALA(0.6), compile_chains=False, num_steps=17))
    assert not torch.equal(nine[-1], full[-1]) and plain == [1, 1]
    acs = {"alpha_max": 5.0, "tuning_steps": 30, "cycle_length": 2}
    tuned, same = (step(energy, PersistentACS(**acs), compile_chains=compiled) for compiled in (True, False))
    torch.testing.assert_close(tuned, same)


def test_iterations_by_another_sampler_may_be_plain(plain: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """`Gibbs` has no compiled form."""
    monkeypatch.setattr(ContrastiveDivergence, "log_is_due", False)
    monkeypatch.setattr(PersistentACS, "at_iteration", lambda self, energy, x, *_: (Gibbs(), x, 16))
    step(make_energy("RBM"), PersistentACS(), compile_chains=True)
    assert plain == []


@pytest.mark.parametrize(
    ("energy", "sampler", "options", "message"),
    [
        (RBM(64, 3), Gibbs(), {}, "compile_chains: Gibbs on RBM cannot be compiled"),
        (RBM(64, 3), AdaptiveDMALA(), {}, "compile_chains: AdaptiveDMALA on RBM cannot be compiled"),
        (ResNet((1, 8, 8), channels=4), DMALA(0.1), {}, "compile_chains: DMALA on ResNet cannot be compiled"),
        (RBM(64, 3), DMALA(0.1), {"burn_in": 3}, r'"marginal" and burn_in 3: it needs "marginal" and 8'),
        (RBM(64, 3), BlockGibbs(), {"density": "joint"}, 'density is "joint" and burn_in 8: it needs "marginal" and 8'),
        (RBM(64, 3), DMALA(0.1), {"num_steps": 7}, "one program of 8 steps, but num_steps is 7"),
    ],
)
def test_what_needs_more_than_the_last_state_is_refused(
    energy: Energy, sampler: Sampler, options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    learner = ContrastiveDivergence(energy, sampler, **{"num_steps": 9, **options}, compile_chains=True)
    with pytest.raises(UserError, match=message):
        quiet_trainer(tmp_path, max_steps=1, limit_val_batches=0).fit(learner, Digits(binarize=True))


class Step(torch.nn.Module):
    """A learner whose training step is its `forward`, as in Lightning's strategy for several devices."""

    def __init__(self, learner: ContrastiveDivergence) -> None:
        super().__init__()
        self.learner = learner

    def forward(self, x: Tensor) -> Tensor:
        return self.learner.training_step(x, 0)


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("anomaly", [False, True])
def test_large_models_compile_on_several_devices(anomaly: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond 1 MiB of parameters torch would split the program for DistributedDataParallel."""
    monkeypatch.setattr(ContrastiveDivergence, "log_is_due", False)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.distributed.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=0, world_size=1)
    try:
        learner = ContrastiveDivergence(MLP(9, 512), GWG(), start=ReplayBuffer(64), num_steps=8, compile_chains=True)
        with torch.autograd.set_detect_anomaly(anomaly):
            loss = torch.nn.parallel.DistributedDataParallel(Step(learner))(torch.ones(16, 9))
            loss.backward()
        assert loss.isfinite() and learner.energy.W.grad is not None  # type: ignore[union-attr]
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.slow
@needs_compiler
def test_training_goes_on_from_a_checkpoint_to_the_same_numbers(tmp_path: Path) -> None:
    def fit(folder: Path, epochs: int, **resume: str) -> list[Tensor]:
        pl.seed_everything(0)
        learner = ContrastiveDivergence(
            RBM(64, 16), GWG(), start=ReplayBuffer(500), num_steps=16, energy_l2=0.01, compile_chains=True
        )
        short_fit(learner, folder, epochs, **resume)
        return [p.detach().clone() for p in learner.parameters()]

    whole = fit(tmp_path / "whole", 3)
    fit(tmp_path / "part", 2)
    again = fit(tmp_path / "again", 3, ckpt_path=str(tmp_path / "part" / "epoch=1.ckpt"))
    assert all(map(torch.equal, again, whole))
