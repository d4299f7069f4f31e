"""A trainer that cannot give the trained run back is refused before it trains."""

from __future__ import annotations

from pathlib import Path

import pytest
import pytorch_lightning as pl
import torch
from helpers_trainer import quiet_trainer

from ebmlab.datamodules import Digits
from ebmlab.energies import RBM
from ebmlab.errors import UserError
from ebmlab.learners import ContrastiveDivergence
from ebmlab.lightning.trainer import check_processes
from ebmlab.samplers import BlockGibbs


@pytest.mark.parametrize("strategy", ["ddp_spawn", "ddp_fork", "ddp_notebook"])
def test_processes_that_keep_the_run_to_themselves(strategy: str) -> None:
    trainer = pl.Trainer(strategy=strategy, accelerator="cpu", devices=2, logger=False)
    with pytest.raises(UserError, match=r"trainer\.strategy starts processes that cannot hand the trained run back"):
        check_processes(trainer)


def test_processes_that_are_started_by_a_command(tmp_path: Path) -> None:
    check_processes(pl.Trainer(strategy="ddp", accelerator="cpu", devices=2, logger=False))
    check_processes(pl.Trainer(accelerator="cpu", devices=1, logger=False))


@pytest.mark.slow
def test_the_refusal_comes_before_training(tmp_path: Path) -> None:
    learner = ContrastiveDivergence(RBM(64, 8), BlockGibbs())
    before = torch.nn.utils.parameters_to_vector(learner.parameters()).clone()
    trainer = quiet_trainer(tmp_path, strategy="ddp_fork", devices=2, accelerator="cpu", max_steps=1)
    with pytest.raises(Exception, match="cannot hand the trained run back"):
        trainer.fit(learner, Digits(binarize=True))
    assert torch.equal(torch.nn.utils.parameters_to_vector(learner.parameters()), before)
