"""Resumed runs: those that go on amid an epoch end in the parameters of the unbroken run."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers_trainer import quiet_trainer
from pytorch_lightning.callbacks import ModelCheckpoint
from torch.optim.lr_scheduler import CosineAnnealingLR

from ebmlab.callbacks import RunState
from ebmlab.datamodules import Digits
from ebmlab.energies import RBM
from ebmlab.learners import ContrastiveDivergence, Learner, ReplayBuffer
from ebmlab.samplers import BlockGibbs

pytestmark = [
    pytest.mark.filterwarnings("ignore:Attribute '.*' is an instance of `nn.Module`"),
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists and is not empty"),
    pytest.mark.filterwarnings("ignore:The dirpath has changed"),
]
ADAM = partial(torch.optim.Adam, lr=1e-2)


def contrastive(**settings: Any) -> Learner:
    return ContrastiveDivergence(RBM(64, 8), BlockGibbs(), ReplayBuffer(200), **({"optimizer": ADAM} | settings))


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
