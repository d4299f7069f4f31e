"""A cosine of the learning rate that is shorter than the run."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
from helpers_trainer import quiet_trainer
from torch.optim.lr_scheduler import CosineAnnealingLR

from ebmlab.datamodules import Digits
from ebmlab.energies import RBM
from ebmlab.learners import ContrastiveDivergence
from ebmlab.samplers import BlockGibbs

pytestmark = [
    pytest.mark.filterwarnings("ignore:Attribute '.*' is an instance of `nn.Module`"),
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
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
