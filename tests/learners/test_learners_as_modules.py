"""Learners are checkpointed, copied and scheduled as Lightning's modules are."""

from __future__ import annotations

import copy
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers_learner import tiny_trainer
from torch.utils.data import DataLoader

from ebmlab.energies import GRBM, RBM
from ebmlab.errors import UserError
from ebmlab.learners import ContrastiveDivergence
from ebmlab.samplers import BlockGibbs, GibbsLangevin

pytestmark = [  # Lightning advises against saving modules as hyper-parameters; the learner does so on purpose
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
]


def test_checkpoint_of_a_learner_built_in_python_is_plain_data(tmp_path: Path) -> None:
    """It opens with `weights_only=True` and holds every parameter and step size once."""
    torch.manual_seed(0)
    grbm = GRBM(4, 3)
    learner = ContrastiveDivergence(grbm, GibbsLangevin(0.1), num_steps=2, density="joint")
    trainer = tiny_trainer(tmp_path)
    before = grbm.W.detach().clone()
    loader = DataLoader(torch.randn(24, 1, 2, 2), batch_size=8)
    trainer.fit(learner, loader, loader)
    trainer.save_checkpoint(tmp_path / "last.ckpt")
    checkpoint = torch.load(tmp_path / "last.ckpt", weights_only=True)
    assert trainer.global_step == 3 and not torch.equal(grbm.W, before)
    assert set(checkpoint["state_dict"]) == {
        *(f"energy.{n}" for n in ("W", "b", "mu", "log_var")),
    }
    assert torch.equal(checkpoint["state_dict"]["energy.W"], grbm.W)
    assert checkpoint["hyper_parameters"]["num_steps"] == 2 and checkpoint["hyper_parameters"]["density"] == "joint"
    assert checkpoint["hyper_parameters"]["energy"]["init_args"] == {"num_coordinates": 4, "num_hidden": 3}


def test_learning_rate_schedules_step_where_they_are_told() -> None:
    warm_up = partial(torch.optim.lr_scheduler.LinearLR, start_factor=0.1, total_iters=10)
    for interval in ("epoch", "step"):
        learner = ContrastiveDivergence(RBM(3, 2), BlockGibbs(), lr_scheduler=warm_up, lr_interval=interval)
        _, [schedule] = learner.configure_optimizers()
        assert schedule["interval"] == interval
    with pytest.raises(UserError, match='lr_interval is "batch"'):
        ContrastiveDivergence(RBM(3, 2), BlockGibbs(), lr_interval="batch")


def test_a_copy_shares_what_makes_its_optimizer() -> None:
    """Optimizer factories of the command line hold the trainer and its locks, which cannot be copied."""

    class Maker:
        def __call__(self, parameters: Any) -> torch.optim.Optimizer:
            return torch.optim.SGD(parameters, 0.1)

    torch.manual_seed(0)
    maker = Maker()
    learner = ContrastiveDivergence(RBM(3, 2), BlockGibbs(), optimizer=maker)
    maker.trainer = threading.Lock()
    twin = copy.deepcopy(learner)
    assert twin._make_optimizer is learner._make_optimizer
    assert torch.equal(twin.energy.W, learner.energy.W) and twin.energy.W is not learner.energy.W
    [optimizer], _ = twin.configure_optimizers()
    assert optimizer.param_groups[0]["params"][0] is next(twin.parameters())
