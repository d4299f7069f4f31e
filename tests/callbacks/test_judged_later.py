"""The guard where a GPU brings the numbers of a step during the next one; here a CPU is taken for a GPU."""

from __future__ import annotations

import math
from functools import partial
from typing import Any
from unittest.mock import MagicMock

import pytest
import torch
from pytorch_lightning import Callback
from pytorch_lightning.callbacks import ModelCheckpoint

from ebmlab.callbacks import DivergenceGuard, RunState
from ebmlab.callbacks.checkpoint_rollback import RolledBack
from ebmlab.callbacks.judged_step import hold_back
from ebmlab.energies import GRBM
from ebmlab.errors import UserError
from ebmlab.learners import ContrastiveDivergence, FromNoise
from ebmlab.samplers import GibbsLangevin


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.Tensor, "is_cuda", True)
    monkeypatch.setattr(torch.cuda, "Event", MagicMock())


def learner() -> ContrastiveDivergence:
    torch.manual_seed(0)
    adam = partial(torch.optim.Adam, lr=1e-3)
    return ContrastiveDivergence(GRBM(36, 12), GibbsLangevin(0.1), start=FromNoise(), num_steps=2, optimizer=adam)


class Spoil(Callback):
    """Puts NaN into the data of a step, or makes a parameter's gradient infinite there."""

    def __init__(self, step: int, what: str) -> None:
        self.step, self.what = step, what

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        if trainer.global_step == self.step and self.what == "data":
            batch[1, 0, 2, 2] = math.nan

    def on_after_backward(self, trainer: Any, pl_module: Any) -> None:
        if trainer.global_step == self.step and self.what == "gradient":
            pl_module.energy.W.grad[0] = math.inf
            self.what = "nothing"


@pytest.mark.parametrize(
    ("what", "step", "said"),
    [
        ("data", 2, "step 2, epoch 0: 1 of the batch's 16 examples hold NaN"),
        ("data", 3, "step 3, epoch 0: 1 of the batch's 16 examples hold NaN"),  # the last one of the epoch
        ("gradient", 5, r"step 5, epoch 1: the gradient of energy\.W is not finite"),
    ],
)
def test_a_bad_step_is_left_out_and_named(setup: Any, squares: Any, gpu: None, what: str, step: int, said: str) -> None:
    good, trainer = setup([DivergenceGuard()], learner=learner(), max_epochs=None, max_steps=step)
    trainer.fit(good, datamodule=squares)
    spoiled, trainer = setup([Spoil(step, what), DivergenceGuard()], learner=learner(), max_epochs=3)
    with pytest.raises(UserError, match=said):
        trainer.fit(spoiled, datamodule=squares)
    for a, b in zip(spoiled.parameters(), good.parameters(), strict=True):
        assert torch.equal(a, b), "those before the bad step"


class Interrupt(Callback):
    """Ends a run after its first batch, whose loss is NaN."""

    def on_before_backward(self, trainer: Any, pl_module: Any, loss: torch.Tensor) -> None:
        loss.data.fill_(math.nan)

    def on_train_batch_end(self, *_: Any) -> None:
        raise OSError("the disk is full")


@pytest.mark.parametrize("batches", [1, 2])
def test_an_interrupted_run_is_not_judged_in_the_next_one(setup: Any, squares: Any, gpu: None, batches: int) -> None:
    """Its last step waits for the GPU's numbers, or half of a step has been added up."""
    guard = DivergenceGuard()
    module, trainer = setup([Interrupt(), guard], learner=learner(), max_epochs=1, accumulate_grad_batches=batches)
    with pytest.raises(OSError, match="full"):
        trainer.fit(module, datamodule=squares)
    module, trainer = setup([guard], learner=learner(), max_epochs=1)
    trainer.fit(module, datamodule=squares)


def test_nobody_waits_before_the_next_step_is_under_way(
    setup: Any, squares: Any, monkeypatch: pytest.MonkeyPatch, gpu: None
) -> None:
    module, trainer = setup([], learner=learner(), max_epochs=1)
    trainer.fit(module, datamodule=squares)
    calls: list[int] = []
    for name in ("__float__", "__bool__", "tolist", "item"):
        original = getattr(torch.Tensor, name)
        monkeypatch.setattr(torch.Tensor, name, lambda self, original=original: calls.append(1) or original(self))
    guard, optimizer = DivergenceGuard(), trainer.optimizers[0]
    guard.on_before_backward(trainer, module, torch.ones(()))
    guard.on_before_optimizer_step(trainer, module, optimizer)
    assert calls == []
    guard.on_before_zero_grad(trainer, module, optimizer)
    assert len(calls) == 1
    guard.on_before_zero_grad(trainer, module, optimizer)
    assert len(calls) == 1, "a step is judged once"


@pytest.mark.parametrize("gap", [0.5, 1.5, -1.5, math.inf, math.nan])
@pytest.mark.parametrize("bad", [0.0, math.inf, math.nan])
@pytest.mark.parametrize("place", [0, 1])
def test_the_gpu_leaves_out_what_the_cpu_will_name(gap: float, bad: float, place: int) -> None:
    optimizer, numbers = MagicMock(), torch.tensor([1.0, 2.0, 3.0, 3.0 + gap])
    numbers[place] += bad
    hold_back(optimizer, numbers, 1.0)
    named = not math.isfinite(bad) or abs(gap) > 1
    assert optimizer.found_inf == float(named)


def test_a_run_is_rolled_back(setup: Any, squares: Any, gpu: None, tmp_path: Any) -> None:
    spoil, path = Spoil(5, "gradient"), None
    for attempt in range(2):
        guard = DivergenceGuard(on_divergence="rollback", learning_rate_factor=0.1)
        saves = ModelCheckpoint(tmp_path / "ck", save_last=True, save_on_train_epoch_end=True)
        callbacks = [spoil, guard, RunState(), saves]
        module, trainer = setup(callbacks, learner=learner(), max_epochs=3, enable_checkpointing=True)
        if attempt == 0:
            with pytest.raises(RolledBack) as back:
                trainer.fit(module, datamodule=squares)
            path = back.value.checkpoint
        else:
            trainer.fit(module, datamodule=squares, ckpt_path=path)
    assert trainer.global_step == 12 and all(p.isfinite().all() for p in module.parameters())
    rows = (tmp_path / "run" / "rollbacks.csv").read_text().splitlines()
    assert len(rows) == 2 and "step 5, epoch 1: the gradient of energy.W is not finite" in rows[1]
