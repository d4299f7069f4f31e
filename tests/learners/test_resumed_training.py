"""Resumed runs: those that go on amid an epoch end in the parameters of the unbroken run."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from helpers_trainer import quiet_trainer
from pytorch_lightning.callbacks import EMAWeightAveraging, ModelCheckpoint
from pytorch_lightning.cli import ReduceLROnPlateau
from torch.optim.lr_scheduler import CosineAnnealingLR, OneCycleLR

from ebmlab.callbacks import RunState
from ebmlab.datamodules import Digits
from ebmlab.energies import RBM
from ebmlab.errors import UserError
from ebmlab.learners import (
    ContrastiveDivergence,
    EnergyDiscrepancy,
    Estimator,
    GradientGuided,
    Learner,
    PseudoLikelihood,
    RatioMatching,
    ReplayBuffer,
)
from ebmlab.samplers import BlockGibbs

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists and is not empty"),
    pytest.mark.filterwarnings("ignore:The dirpath has changed"),
    pytest.mark.filterwarnings("ignore:Be aware that when using `ckpt_path`"),
]
ADAM = partial(torch.optim.Adam, lr=1e-2)


class Begun(pl.Callback):
    """Notes that training began."""

    def __init__(self) -> None:
        self.moments: list[int] = []

    def on_train_start(self, trainer: pl.Trainer, *_: Any) -> None:
        self.moments.append(trainer.global_step)


def contrastive(**settings: Any) -> Learner:
    return ContrastiveDivergence(RBM(64, 8), BlockGibbs(), start=ReplayBuffer(200), **({"optimizer": ADAM} | settings))


def fit(folder: Path, learner: Learner, resume: str = "", callbacks: Any = (), **settings: Any) -> Learner:
    """Trains for a few steps, 14 in an epoch, and saves a checkpoint after each step."""
    torch.manual_seed(1 if resume else 0)
    saving = ModelCheckpoint(folder, filename="{step}", save_top_k=-1, every_n_train_steps=1)
    options = {"max_steps": 9, "limit_val_batches": 0, "enable_checkpointing": True, **settings}
    trainer = quiet_trainer(folder, callbacks=[*callbacks, RunState(), saving], **options)
    data = Digits(batch_size=100, binarize=True)
    path = folder / f"step={resume}.ckpt" if resume else None
    trainer.fit(learner, data, ckpt_path=path, weights_only=True)
    return learner


def same(one: Learner, other: Learner) -> bool:
    saved = other.state_dict()
    return all(torch.equal(value, saved[name]) for name, value in one.state_dict().items())


def test_with_a_cosine_that_counts_the_epochs_of_max_steps(tmp_path: Path) -> None:
    """To count them Lightning makes the loader, which must still go on where the checkpoint was written."""
    cosine = {"lr_scheduler": partial(CosineAnnealingLR, T_max=-1)}
    whole = fit(tmp_path, contrastive(**cosine))
    assert same(whole, fit(tmp_path, contrastive(**cosine), resume="5"))


def test_with_coordinates_that_each_step_draws(tmp_path: Path) -> None:
    def blocks() -> Learner:
        torch.manual_seed(0)
        return PseudoLikelihood(RBM(64, 8), sites_per_step=10, optimizer=ADAM)

    whole = fit(tmp_path, blocks())
    assert same(whole, fit(tmp_path, blocks(), resume="5"))


@pytest.mark.parametrize("estimator", [GradientGuided(4), EnergyDiscrepancy(4)], ids=["guided", "discrepancy"])
def test_validation_does_not_move_the_random_numbers_of_training(estimator: Estimator, tmp_path: Path) -> None:
    """A checkpoint of the last step of an epoch is resumed behind its validation, whose loss is drawn."""

    def ratio_matching() -> Learner:
        torch.manual_seed(0)
        return RatioMatching(RBM(64, 8), estimator, optimizer=ADAM)

    never = fit(tmp_path / "never", ratio_matching(), max_steps=20)
    whole = fit(tmp_path, ratio_matching(), max_steps=20, limit_val_batches=1.0)
    assert same(never, whole)
    assert same(whole, fit(tmp_path, ratio_matching(), resume="14", max_steps=20, limit_val_batches=1.0))


def test_in_float64(tmp_path: Path) -> None:
    """The parameters are not rounded to float32 on their way from the checkpoint, nor when they are averaged."""
    settings = {"precision": "64-true", "limit_val_batches": 1.0}
    whole = fit(tmp_path, contrastive(), callbacks=[EMAWeightAveraging(decay=0.9)], **settings)
    assert whole.energy.W.dtype == torch.float64
    resumed = fit(tmp_path, contrastive(), resume="5", callbacks=[EMAWeightAveraging(decay=0.9)], **settings)
    assert same(whole, resumed)
    trainer = quiet_trainer(tmp_path, precision="64-true")
    weights = torch.load(tmp_path / "step=9.ckpt", weights_only=True)["state_dict"]["energy.W"]
    trainer.validate(again := contrastive(), Digits(binarize=True), tmp_path / "step=9.ckpt", verbose=False)
    assert torch.equal(again.energy.W, weights) and not torch.equal(weights, weights.float().double())


@pytest.mark.parametrize("precision", ["64-true", "bf16-true"])
def test_an_evaluation_rounds_neither_weights_nor_averages(precision: Any, tmp_path: Path) -> None:
    """For an evaluation Lightning exchanges them, and they differ in precision."""

    def averages(**settings: Any) -> Learner:
        torch.manual_seed(0)
        average = EMAWeightAveraging(decay=0.999)
        return fit(tmp_path, contrastive(), callbacks=[average], precision=precision, **settings)

    often = {"limit_val_batches": 1.0, "val_check_interval": 2}
    assert same(averages(max_steps=20), averages(max_steps=20, **often))


def test_a_drawn_loss_is_the_same_in_every_evaluation(tmp_path: Path) -> None:
    torch.manual_seed(0)
    learner, trainer = RatioMatching(RBM(64, 8), EnergyDiscrepancy(2)), quiet_trainer(tmp_path)
    with torch.no_grad():
        learner.energy.W.normal_()  # type: ignore[operator, union-attr]
    data = Digits(batch_size=90, binarize=True)  # two batches in each split
    for evaluate in (trainer.validate, trainer.test):
        assert evaluate(learner, data, verbose=False) == evaluate(learner, data, verbose=False)


COSINE = partial(CosineAnnealingLR, T_max=9)
CYCLE = partial(OneCycleLR, max_lr=0.1, total_steps=9)
CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {  # before, after, and what is said
    "rate": ({}, {"optimizer": partial(torch.optim.Adam, lr=0.5)}, "lr = 0.01, not 0.5"),
    "decay": ({}, {"optimizer": partial(torch.optim.Adam, lr=1e-2, weight_decay=0.1)}, "weight_decay = 0, not 0.1"),
    "betas": ({}, {"optimizer": partial(torch.optim.Adam, lr=1e-2, betas=(0.5, 0.9))}, r"betas = \(0.9, 0.999\), not"),
    "scheduled": (
        {"lr_scheduler": COSINE, "lr_interval": "step"},
        {"lr_scheduler": COSINE, "lr_interval": "step", "optimizer": partial(torch.optim.Adam, lr=0.5)},
        "lr = 0.01, not 0.5",
    ),
    "no schedule any more": ({"lr_scheduler": COSINE, "lr_interval": "step"}, {}, r"lr = 0.00\d+, not 0.01"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_settings_of_the_optimizer_that_the_checkpoint_replaces_are_named(change: str, tmp_path: Path) -> None:
    before, after, said = CHANGES[change]
    fit(tmp_path, contrastive(**before), max_steps=5)
    with pytest.warns(UserWarning, match=f"optimizer: the run continues with the checkpoint's {said}"):
        fit(tmp_path, contrastive(**after), resume="5")


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"lr_scheduler": CYCLE, "lr_interval": "step"},
        {"lr_scheduler": partial(ReduceLROnPlateau, monitor="train/grad_norm", patience=0), "lr_interval": "step"},
        {"optimizer": lambda p: torch.optim.SGD([{"params": list(p)[:1], "lr": 0.1}], lr=0.2)},
    ],
    ids=["plain", "one cycle", "plateau", "groups"],
)
def test_the_same_settings_are_no_change(settings: dict[str, Any], tmp_path: Path) -> None:
    fit(tmp_path, contrastive(**settings), max_steps=5, log_every_n_steps=1)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "optimizer:")
        fit(tmp_path, contrastive(**settings), resume="5", log_every_n_steps=1)


def test_another_optimizer_than_the_checkpoints_is_refused(tmp_path: Path) -> None:
    fit(tmp_path, contrastive(), max_steps=5)
    begun = Begun()
    with pytest.raises(UserError, match="the checkpoint was not written with SGD, for it has no momentum, dampening"):
        fit(tmp_path, contrastive(optimizer=partial(torch.optim.SGD, lr=0.1)), resume="5", callbacks=[begun])
    with pytest.raises(UserError, match="it has groups of 1 parameters, but that of the checkpoint 3: go on with the"):
        fit(tmp_path, contrastive(optimizer=lambda p: torch.optim.Adam(list(p)[:1])), resume="5", callbacks=[begun])
    assert not begun.moments


def test_an_average_that_never_begins_is_refused_before_any_callback_begins(tmp_path: Path) -> None:
    """The command line writes the run's config, and keeps a checkpoint to roll back to, when training begins."""
    begun = Begun()
    with pytest.raises(UserError, match="EMAWeightAveraging begins at step 9 of 9, after training"):
        fit(tmp_path, contrastive(), callbacks=[begun, EMAWeightAveraging(update_starting_at_step=9)])
    assert not begun.moments
