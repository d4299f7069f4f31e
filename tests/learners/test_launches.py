"""A training step on a GPU, without one: few launches, no waiting, and by a recording the numbers of a plain step."""

from __future__ import annotations

import copy
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
import pytorch_lightning as pl
import torch
from helpers_launches import GPU, Launches, pretend_to_record
from helpers_trainer import quiet_trainer, short_fit
from pytorch_lightning.accelerators import CPUAccelerator
from pytorch_lightning.callbacks import EMAWeightAveraging
from pytorch_lightning.loops import fit_loop
from pytorch_lightning.strategies import SingleDeviceStrategy
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from ebmlab.callbacks import DataMean, DivergenceGuard, RunState, SamplerMonitor, divergence_guard
from ebmlab.callbacks.judged_step import hold_back
from ebmlab.datamodules import Digits
from ebmlab.energies import GRBM, MLP, RBM, Energy, Ising, Potts, ResNet, tempered
from ebmlab.energies.accumulated import known
from ebmlab.energies.materialised import value_differences
from ebmlab.engine import Replayed
from ebmlab.learners import ContrastiveDivergence, FromData, ReplayBuffer, contrastive_divergence
from ebmlab.learners.closed_form import independent_
from ebmlab.learners.one_pass import in_one_pass
from ebmlab.learners.perturbations import minus_flipped
from ebmlab.samplers import DMALA, Bfloat16Proposals, BlockGibbs, DiscreteHAMS, GibbsLangevin, Sampler

pytestmark = pytest.mark.filterwarnings("ignore:The dirpath has changed")


def trained(learner: ContrastiveDivergence, batches: list[Any], weights: Tensor | None = None) -> list[Tensor]:
    """Losses, parameters and states of the buffer after a step of Adam for each batch."""
    learner.log = learner.log_dict = lambda *_, **__: None  # type: ignore[method-assign]
    learner.weights = lambda _: weights  # type: ignore[method-assign]
    torch.manual_seed(0)
    optimizer, losses = in_one_pass(torch.optim.Adam(learner.parameters(), lr=0.01)), []
    for k, x in enumerate(batches):
        optimizer.zero_grad()
        losses.append(learner.training_step(x, k))
        losses[-1].backward()
        optimizer.step()
    return [*losses, *learner.parameters(), *[s for s in [getattr(learner.start, "slots", None)] if s is not None]]


@pytest.mark.parametrize(
    ("energy", "sampler", "density", "weighted"),
    [
        (MLP(9, 8), DMALA(0.6), "marginal", True),
        (ResNet((1, 4, 4), channels=8), Bfloat16Proposals(DMALA(0.6), 2), "marginal", False),
        (RBM(9, 4), DMALA(0.6), "marginal", True),
        (GRBM(9, 4), GibbsLangevin(0.1), "marginal", False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_recorded_steps_train_as_plain_ones(
    energy: Energy, sampler: Sampler, density: Any, weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One recording serves all steps, though parameters, data and buffer are others each time."""
    torch.manual_seed(1)
    batches, weights = [energy.random(12) for _ in range(4)], 2 * torch.rand(12) if weighted else None
    learner = ContrastiveDivergence(
        energy, sampler, start=ReplayBuffer(30), num_steps=4, burn_in=2, density=density, compile_chains=True
    )
    other = copy.deepcopy(learner)
    plain = trained(other, batches, weights)
    tapes = pretend_to_record(monkeypatch)
    torch.testing.assert_close(trained(learner, batches, weights), plain)
    assert len(tapes) == 1


def test_a_resumed_run_of_recorded_steps_is_the_unbroken_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit for bit, and with the averaged weights."""

    def fit(folder: Path, epochs: int, **resume: str) -> ContrastiveDivergence:
        torch.manual_seed(0)
        learner = ContrastiveDivergence(
            ResNet((1, 8, 8), channels=4), DMALA(0.2), start=ReplayBuffer(200), num_steps=3, compile_chains=True
        )
        short_fit(learner, folder, epochs, **resume)
        return learner

    tapes = pretend_to_record(monkeypatch)
    monkeypatch.setattr(contrastive_divergence, "check_compilation", lambda *_, **__: None)
    whole = fit(tmp_path / "whole", 2)
    resumed = fit(tmp_path / "resumed", 2, ckpt_path=str(tmp_path / "whole" / "epoch=0.ckpt"))
    assert len(tapes) == 2 and resumed.global_step == 10
    for a, b in zip(resumed.parameters(), whole.parameters(), strict=True):
        assert torch.equal(a, b)


def test_gradients_that_are_known_are_one_launch() -> None:
    parameters = [nn.Parameter(torch.ones(3, k, device=GPU)) for k in range(1, 6)]
    total = known(torch.ones((), device=GPU), [*map(torch.ones_like, parameters[:4]), None], parameters)
    with Launches() as launches:
        total.backward()
    assert launches.names == ["ones_like", "_foreach_mul"]
    assert parameters[0].grad is not None and parameters[4].grad is None


@pytest.fixture
def meta_like_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.Tensor, "is_cuda", property(lambda self: self.is_meta))
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda *_: False)


@pytest.mark.usefixtures("meta_like_cuda")
@pytest.mark.parametrize("energy", [GRBM(9, 4), RBM(9, 4), Potts(9, 3)], ids=lambda energy: type(energy).__name__)
def test_weighted_sums_wait_nowhere(energy: Energy) -> None:
    energy = energy.to(GPU)
    x = energy.random(12)
    with Launches():
        contrast = energy.weighted_sum()
        contrast.add(x, weight=torch.ones(12, device=GPU))
        contrast.add(x, weight=-1 / 12)
        contrast.value().backward()


@pytest.mark.usefixtures("meta_like_cuda")
def test_tables_of_steady_couplings_are_made_once() -> None:
    energy = Potts(5, 3).to(GPU)
    x = energy.random(4)
    with torch.no_grad(), energy.steady(), Launches() as launches:
        for _ in range(3):
            energy.gradient(x)
    assert launches.names.count("index_put") == 2  # one for each half


@pytest.mark.parametrize("energy", [Potts(4, 3), Ising.learnable(4)], ids=lambda energy: type(energy).__name__)
def test_estimates_in_closed_form_stay_on_their_device(energy: Energy) -> None:
    independent_(energy.to(GPU), energy.random(7))


@pytest.mark.usefixtures("meta_like_cuda")
def test_constants_of_samplers_and_energies_are_on_their_device() -> None:
    assert tempered(RBM(4, 3).to(GPU), 0.5).beta.device.type == GPU
    rbm, potts = RBM(4, 3).to(GPU), Potts(4, 3).to(GPU)
    with Launches():
        value_differences(potts, potts.random(5), None)
        minus_flipped(rbm.domain, rbm.random(5))
    (curvature,) = DiscreteHAMS(0.3, curvature=torch.eye(4)).kernel_on(rbm).options
    assert {part.device.type for part in curvature} == {GPU}


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW])
def test_a_step_of_adam_is_two_launches(kind: type[torch.optim.Adam]) -> None:
    """The first one counts the steps."""
    with FakeTensorMode():
        parameters = [nn.Parameter(torch.ones(3, k, device="cuda")) for k in range(1, 6)]
        optimizer = in_one_pass(kind(parameters, lr=0.1))
        for p in parameters:
            p.grad = torch.ones_like(p)
        optimizer.step()
        with Launches("cuda") as launches:
            optimizer.step()
    assert launches.names == ["_foreach_add_", f"_fused_{kind.__name__.lower()}_"]


def test_the_average_is_that_of_torch(tmp_path: Path) -> None:
    """Also in a run that is resumed, bit for bit."""

    def fit(folder: Path, epochs: int, callbacks: list[Any], **resume: str) -> ContrastiveDivergence:
        torch.manual_seed(0)
        learner = ContrastiveDivergence(RBM(64, 8), BlockGibbs(), start=FromData())
        checkpoint = pl.callbacks.ModelCheckpoint(folder, filename="{epoch}", save_top_k=-1)
        callbacks = [*callbacks, EMAWeightAveraging(decay=0.8, update_starting_at_step=2), RunState(), checkpoint]
        settings = {"max_epochs": epochs, "limit_train_batches": 4, "limit_val_batches": 0}
        trainer = quiet_trainer(folder, callbacks=callbacks, enable_checkpointing=True, **settings)
        trainer.fit(learner, Digits(binarize=True), **resume)
        return learner

    seen: list[Tensor] = []
    note = pl.callbacks.LambdaCallback(
        on_train_batch_end=lambda _, learner, *__: seen.append(learner.energy.W.detach().clone())
    )
    whole = fit(tmp_path / "whole", 2, [note])
    expected = seen[2]
    for weights in seen[3:]:
        expected = 0.8 * expected + 0.2 * weights
    torch.testing.assert_close(whole.energy.W.detach(), expected)
    resumed = fit(tmp_path / "resumed", 2, [], ckpt_path=str(tmp_path / "whole" / "epoch=0.ckpt"))
    assert torch.equal(whole.energy.W, resumed.energy.W)  # type: ignore[arg-type]


def test_outputs_of_a_recording_are_copied_by_one_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_to_record(monkeypatch)
    replayed, x = Replayed(), torch.ones(3)
    replayed(lambda x: (2 * x, None, x.sum(), x.outer(x).T), x)
    with Launches("cpu") as launches:
        double, nothing, total, _ = replayed(lambda x: (x, None, x, x), x + 1)
    assert launches.names.count("_foreach_copy_") == 1 and "clone" not in launches.names
    assert nothing is None and torch.equal(double, 2 * x + 2) and total == 6
    replayed(lambda x: (x, None, x, x), x)
    assert torch.equal(double, 2 * x + 2), "a later replay leaves copies as they are"


def test_batches_for_a_gpu_are_page_locked(monkeypatch: pytest.MonkeyPatch) -> None:
    locked: list[Tensor] = []
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: locked.append(self) or self)
    monkeypatch.setattr(pl.LightningDataModule, "transfer_batch_to_device", lambda _, batch, *__: batch)
    batch = [torch.ones(2, 3), torch.ones(2)]
    for device in ("cpu", "cuda"):
        assert Digits().transfer_batch_to_device(batch, torch.device(device), 0) == batch
    assert locked == batch
    there = torch.ones(2, device="meta")  # as a tensor on a GPU, it cannot be page-locked
    assert Digits().transfer_batch_to_device(there, torch.device("cuda"), 0) is there
    assert locked == batch


class FakeGPU(CPUAccelerator):
    def setup_device(self, device: torch.device) -> None:
        pass


class Counted(pl.Callback):
    """The launches of the fourth iteration, from one end of a batch to the next."""

    def __init__(self) -> None:
        self.launches = Launches()

    def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        if trainer.global_step == 3:
            self.launches.__enter__()
        elif trainer.global_step == 4:
            self.launches.__exit__(None, None, None)


def test_an_iteration_waits_nowhere_and_is_few_launches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the Trainer with its callbacks, beside the recording, on a GPU that has no values to wait for."""
    monkeypatch.setattr(torch.Tensor, "is_cuda", property(lambda self: self.is_meta))
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda *_: False)
    monkeypatch.setattr(fit_loop, "has_len_all_ranks", lambda *_, **__: True)
    monkeypatch.setattr(contrastive_divergence, "check_compilation", lambda *_, **__: None)
    monkeypatch.setattr(divergence_guard, "can_hold_back", lambda _: True)
    monkeypatch.setattr(divergence_guard, "hold_back", lambda _, *of: hold_back(MagicMock(), *of))
    monkeypatch.setattr(divergence_guard, "on_its_way", lambda _: (torch.zeros(4), None))
    made: list[Any] = []
    monkeypatch.setattr(Replayed, "__call__", lambda _, f, x, *__, **___: (made or made.append(f(*x)) or made)[0])
    learner = ContrastiveDivergence(
        ResNet((1, 8, 8), channels=4),
        DMALA(0.2),
        start=ReplayBuffer(200, init="mean"),
        num_steps=3,
        optimizer=partial(torch.optim.SGD, lr=0.1, foreach=True),
        compile_chains=True,
    )
    counted = Counted()
    callbacks = [DataMean(), DivergenceGuard(), EMAWeightAveraging(decay=0.9), SamplerMonitor(), RunState(), counted]
    strategy = SingleDeviceStrategy(torch.device(GPU), FakeGPU())
    settings: dict[str, Any] = {"accelerator": "auto", "strategy": strategy, "limit_val_batches": 0}
    trainer = quiet_trainer(tmp_path, max_steps=5, log_every_n_steps=10, callbacks=callbacks, **settings)
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):  # at the end of the training
        trainer.fit(learner, Digits(binarize=True))
    assert trainer.global_step == 5
    names = [name for name in counted.launches.names if name != "linalg_vector_norm"]  # "meta" has no `_foreach_norm`
    assert {"randperm", "_foreach_mul", "_foreach_lerp_"} < set(names) and len(names) <= 40, names
