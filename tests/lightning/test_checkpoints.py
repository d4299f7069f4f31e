"""A periodic score is seen where it is new, by checkpoints, learning rates and early stopping."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from helpers_trainer import quiet_trainer
from pytorch_lightning.callbacks import EarlyStopping, ModelCheckpoint
from pytorch_lightning.cli import ReduceLROnPlateau

from ebmlab.callbacks.periodic import PeriodicEvaluation
from ebmlab.datamodules import Digits
from ebmlab.energies import RBM
from ebmlab.errors import UserError
from ebmlab.learners import ContrastiveDivergence
from ebmlab.samplers import BlockGibbs


class Score(PeriodicEvaluation):
    """Lower at each evaluation, by one a step."""

    def evaluate(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.log_metrics(trainer, pl_module, {"score": float(1000 - trainer.global_step)})


class Rates(pl.Callback):
    def __init__(self) -> None:
        self.seen: list[float] = []

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.seen.append(trainer.optimizers[0].param_groups[0]["lr"])


class Validated(ContrastiveDivergence):
    def log_split(self, split: str, x: torch.Tensor) -> None:
        self.log("val/x", float(1000 - self.global_step))


def fit(folder: Path, callbacks: list[pl.Callback], epochs: int, learner: Any = None, **settings: Any) -> pl.Trainer:
    settings = {"limit_val_batches": 0, "num_sanity_val_steps": 0} | settings
    trainer = quiet_trainer(folder, max_epochs=epochs, limit_train_batches=1, callbacks=callbacks, **settings)
    trainer.fit(learner or ContrastiveDivergence(RBM(64, 4), BlockGibbs()), Digits(binarize=True, batch_size=400))
    return trainer


@pytest.mark.parametrize(("every", "best"), [(10, None), (3, 3), (1, 5)])
def test_the_best_checkpoint_has_the_weights_that_were_scored(every: int, best: int | None, tmp_path: Path) -> None:
    checkpoint = ModelCheckpoint(tmp_path, "{step}-{score:.0f}", "score", save_last=True)
    fit(tmp_path, [Score(every), checkpoint], 5, enable_checkpointing=True)
    names = {path.stem for path in tmp_path.glob("*.ckpt")}
    assert names == {"last"} | ({f"step={best}-score={1000 - best}"} if best else set())
    assert torch.load(tmp_path / "last.ckpt", weights_only=False)["global_step"] == 5


@pytest.mark.parametrize("every", [1, 3])
def test_a_rate_that_waits_for_a_plateau_counts_evaluations(every: int, tmp_path: Path) -> None:
    plateau = partial(ReduceLROnPlateau, monitor="score", patience=0, factor=0.5)
    improving, rates = ContrastiveDivergence(RBM(64, 4), BlockGibbs(), lr_scheduler=plateau), Rates()
    fit(tmp_path, [Score(every), rates], 8, improving)
    assert set(rates.seen) == {0.01}
    rising = partial(ReduceLROnPlateau, monitor="score", mode="max", patience=0, factor=0.5)
    worse, rates = ContrastiveDivergence(RBM(64, 4), BlockGibbs(), lr_scheduler=rising), Rates()
    fit(tmp_path, [Score(every), rates], 8, worse)
    assert rates.seen[-1] == 0.01 / 2 ** (7 // every - 1)  # all evaluations until then, after the first


def test_a_rate_that_waits_for_a_plateau_counts_validations(tmp_path: Path) -> None:
    plateau = partial(ReduceLROnPlateau, monitor="val/x", patience=0, factor=0.5)
    learner, rates = Validated(RBM(64, 4), BlockGibbs(), lr_scheduler=plateau), Rates()
    fit(tmp_path, [rates], 8, learner, limit_val_batches=1, check_val_every_n_epoch=3)
    assert set(rates.seen) == {0.01}


def test_early_stopping_needs_a_score_of_every_epoch(tmp_path: Path) -> None:
    stop = partial(EarlyStopping, "score", patience=2, check_on_train_epoch_end=True)
    with pytest.raises(UserError, match="EarlyStopping monitors score, which Score evaluates once in 5 epochs"):
        fit(tmp_path, [Score(5), stop()], 20)
    assert fit(tmp_path, [Score(1), stop()], 5).current_epoch == 5
