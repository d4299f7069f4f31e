"""A cosine of the learning rate that is shorter than the run."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from helpers_trainer import quiet_trainer
from pytorch_lightning.callbacks import GradientAccumulationScheduler
from torch import Tensor
from torch.optim.lr_scheduler import CosineAnnealingLR
from torch.utils.data import DataLoader, IterableDataset

from ebmlab.callbacks import AnnealedSteps, ShortChains
from ebmlab.datamodules import Digits
from ebmlab.energies import RBM
from ebmlab.errors import UserError
from ebmlab.learners import ContrastiveDivergence
from ebmlab.lightning.schedules import planned_steps
from ebmlab.samplers import DMALA, BlockGibbs

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:You defined a `validation_step` but have no `val_dataloader`"),
]
THREE_EPOCHS = {"max_epochs": 3, "limit_train_batches": 5, "limit_val_batches": 0}


def fit(folder: Path, period: int, interval: Any, **settings: Any) -> pl.Trainer:
    cosine = partial(CosineAnnealingLR, T_max=period)
    learner = ContrastiveDivergence(RBM(64, 8), BlockGibbs(), lr_scheduler=cosine, lr_interval=interval)
    trainer = quiet_trainer(folder, **(THREE_EPOCHS | settings))
    trainer.fit(learner, Digits(batch_size=100, binarize=True))
    return trainer


@pytest.mark.parametrize(
    ("period", "interval", "settings", "said"),
    [
        (3, "step", {}, "until step 3 of 15"),  # T_max: ${trainer.max_epochs}
        (3, "step", {"accumulate_grad_batches": 2}, "until step 3 of 9"),
        (2, "epoch", {}, "until epoch 2 of 3"),
        (2, "epoch", {"max_steps": 12}, "until epoch 2 of 3"),
    ],
)
def test_a_cosine_that_rises_again_is_warned_of(
    period: int, interval: str, settings: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.warns(UserWarning, match=f"the learning rate falls {said} and then rises again: T_max counts"):
        fit(tmp_path, period, interval, **settings)


@pytest.mark.parametrize(
    ("period", "interval", "settings"),
    [
        (15, "step", {}),
        (3, "epoch", {"accumulate_grad_batches": 2}),
        (-1, "epoch", {"max_epochs": -1, "max_steps": 7}),
        (-1, "step", {"max_epochs": -1, "max_steps": 7}),
        (2, "epoch", {"max_steps": 9}),
    ],
)
def test_a_cosine_of_the_whole_run_is_not(period: int, interval: str, settings: dict[str, Any], tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "lr_scheduler")
        fit(tmp_path, period, interval, **settings)


@pytest.mark.parametrize(
    ("period", "interval", "settings", "found"),
    [(3, "epoch", {}, 3), (11, "step", {}, 11), (-1, "epoch", {"max_epochs": -1, "max_steps": 12}, 4)],
)
def test_an_accumulation_that_changes_counts_as_it_will_be(
    period: int, interval: str, settings: dict[str, Any], found: int, tmp_path: Path
) -> None:
    """Lightning counts all epochs as the current one: 15 steps in place of 5 + 5 + 1."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "lr_scheduler")
        trainer = fit(tmp_path, period, interval, callbacks=[GradientAccumulationScheduler({0: 1, 2: 5})], **settings)
    assert trainer.lr_scheduler_configs[0].scheduler.T_max == found
    assert planned_steps(trainer) == trainer.global_step


class Endless(IterableDataset[Tensor]):
    def __iter__(self) -> Iterator[Tensor]:
        yield from torch.zeros(6, 64)


@pytest.mark.parametrize("callback", [AnnealedSteps(), ShortChains()])
def test_data_without_a_length_are_no_length_of_training(callback: pl.Callback, tmp_path: Path) -> None:
    """Lightning says -1, by which steps alternated between full and none, and no chain was short."""
    learner = ContrastiveDivergence(RBM(64, 8), DMALA(0.1))
    trainer = quiet_trainer(tmp_path, max_epochs=2, callbacks=[callback])
    with pytest.raises(UserError, match=r"set trainer.max_epochs, or trainer.max_steps if the data have no length"):
        trainer.fit(learner, DataLoader(Endless(), batch_size=3))


def test_a_period_in_epochs_needs_data_with_a_length(tmp_path: Path) -> None:
    cosine = partial(CosineAnnealingLR, T_max=-1)
    trainer = quiet_trainer(tmp_path, max_steps=2)
    with pytest.raises(UserError, match="T_max is -1, the number of epochs, which is not known"):
        trainer.fit(
            ContrastiveDivergence(RBM(64, 8), BlockGibbs(), lr_scheduler=cosine), DataLoader(Endless(), batch_size=3)
        )
