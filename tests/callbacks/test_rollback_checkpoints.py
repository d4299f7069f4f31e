"""The parts of a rollback alone: its settings, the checkpoints that it keeps, and what it changes in a learner."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from ebmlab.callbacks.checkpoint_rollback import Rollback, _Watched
from ebmlab.energies import RBM
from ebmlab.errors import UserError
from ebmlab.learners import ContrastiveDivergence
from ebmlab.samplers import BlockGibbs


@pytest.mark.parametrize("settings", [(0,), (1, 0.0), (1, 1.01), (1, 0.5, 0.99), (1, 0.5, float("inf"))])
def test_settings_out_of_their_range(settings: tuple[Any, ...]) -> None:
    with pytest.raises(UserError, match="need at least 1, above 0 and at most 1, and from 1 to 1000"):
        Rollback(*settings)
    assert Rollback(1, 1.0, 1.0).left == 1


def test_kept_checkpoints_reach_the_disk_and_the_oldest_are_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rollback, synced = Rollback(max_rollbacks=1), list[int]()
    rollback._folder, fsync = tmp_path, os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: (synced.append(descriptor), fsync(descriptor)))
    for step in (8, 9, 10):
        rollback.keep({"global_step": step, "optimizer_states": []})
    rollback.keep({"global_step": 11})  # weights alone
    rollback.drifting = True
    rollback.keep({"global_step": 12, "optimizer_states": []})
    assert [path.name for path in rollback._kept()] == ["step=9.ckpt", "step=10.ckpt"]
    assert len(synced) >= 3


def test_the_last_rollback_of_several_counts() -> None:
    rollback = Rollback(max_rollbacks=3, num_steps_factor=2.0)
    history = [{"learning_rate_factor": 0.5, "num_steps": 4}, {"learning_rate_factor": 0.25, "num_steps": 8}]
    rollback.load_state_dict({"history": history, "drifting": False, "new": False})
    learner = ContrastiveDivergence(RBM(3, 2), BlockGibbs(), num_steps=3, burn_in=1)
    weight = torch.nn.Parameter(torch.zeros(()))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    rollback._apply(SimpleNamespace(optimizers=[optimizer]), learner)  # type: ignore[arg-type]
    weight.grad = torch.ones(())
    optimizer.step()
    assert weight == -0.25 and optimizer.param_groups[0]["lr"] == 1.0
    assert (learner.num_steps, learner.burn_in) == (8, 6)


def test_what_is_watched_is_still_written_and_removed() -> None:
    seen = list[Any]()
    inner = SimpleNamespace(
        save_checkpoint=lambda checkpoint, path, options: seen.append((checkpoint, path)), remove_checkpoint=seen.append
    )
    watched = _Watched(inner, Rollback(1))  # type: ignore[arg-type]
    watched.save_checkpoint({"global_step": 1}, "a.ckpt")
    watched.remove_checkpoint("a.ckpt")
    assert seen == [({"global_step": 1}, "a.ckpt"), "a.ckpt"]
