"""What depends on the values of training steps sees each of them, and the same on all ranks."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from helpers_ranks import on_two_ranks
from helpers_trainer import quiet_trainer
from pytorch_lightning.callbacks import EarlyStopping, ModelCheckpoint
from pytorch_lightning.cli import ReduceLROnPlateau

from ebmlab.datamodules import Digits
from ebmlab.energies import RBM
from ebmlab.learners import ContrastiveDivergence, Learner, RatioMatching
from ebmlab.samplers import BlockGibbs

SCORES = {"train/energy_gap": ContrastiveDivergence, "train/loss": RatioMatching}


class Values(pl.Callback):
    """The values of a metric after each step."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.seen: list[float] = []

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: Any) -> None:
        self.seen.append(float(trainer.callback_metrics.get(self.name, torch.nan)))


def learner(kind: type[Learner], **settings: Any) -> Any:
    return kind(RBM(64, 4), **({"sampler": BlockGibbs()} | settings))


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("by", ["checkpoint", "stop", "rate", "nothing"])
def test_a_monitored_value_is_that_of_the_step(name: str, by: str, tmp_path: Path) -> None:
    """It was that of an earlier step, because values are logged at every tenth step only."""
    values, callbacks, settings = Values(name), list[pl.Callback](), dict[str, Any]()
    if by == "checkpoint":
        callbacks = [ModelCheckpoint(tmp_path, "{step}", name, every_n_train_steps=2)]
    elif by == "stop":
        callbacks = [EarlyStopping(name, patience=1000, check_on_train_epoch_end=True)]
    elif by == "rate":
        settings = {"lr_scheduler": partial(ReduceLROnPlateau, monitor=name, patience=1000), "lr_interval": "step"}
    options = {"limit_val_batches": 0, "log_every_n_steps": 10, "enable_checkpointing": by == "checkpoint"}
    trainer = quiet_trainer(tmp_path, max_steps=8, callbacks=[values, *callbacks], **options)
    trainer.fit(learner(SCORES[name], **settings), Digits(binarize=True, batch_size=20))
    assert len(set(values.seen)) == (1 if by == "nothing" else 8)


@pytest.mark.slow
def test_a_rate_that_waits_for_a_plateau_is_the_same_on_all_ranks(tmp_path: Path) -> None:
    """Every rank lowered its rate by the values of its own batches, so that the ranks trained different models."""
    for first, second in zip(*on_two_ranks(train, tmp_path, joined=False), strict=True):
        assert 0 < first["rate"] < 1e-4
        assert first["rate"] == second["rate"] and torch.equal(first["W"], second["W"])


def train(rank: int) -> list[dict[str, Any]]:
    found = []
    for name, kind in SCORES.items():
        torch.manual_seed(0)
        plateau = partial(ReduceLROnPlateau, monitor=name, patience=0, factor=0.5)
        model = learner(kind, lr_scheduler=plateau, optimizer=partial(torch.optim.SGD, lr=1e-4))
        options = {"limit_val_batches": 0, "limit_train_batches": 1, "strategy": "ddp", "devices": 2}
        trainer = quiet_trainer(Path(), max_epochs=12, **options)
        trainer.fit(model, Digits(binarize=True, batch_size=20))
        found.append({"rate": trainer.optimizers[0].param_groups[0]["lr"], "W": model.energy.W.detach()})
    return found
