"""Long benchmarks that go on from where an earlier call ended."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import pytorch_lightning as pl
import torch

from benchmarks import tables
from ebmlab.datamodules import Digits
from ebmlab.energies import RBM
from ebmlab.learners import ContrastiveDivergence, ReplayBuffer
from ebmlab.samplers import BlockGibbs
from papers.kept import fit_on


def train(folder: Path, iterations: int) -> ContrastiveDivergence:
    pl.seed_everything(0)
    learner = ContrastiveDivergence(RBM(64, 4), BlockGibbs(), start=ReplayBuffer(200))
    fit_on(learner, Digits(binarize=True), iterations, folder, every=5)
    return learner


def test_a_training_in_two_parts_is_the_same_as_in_one(tmp_path: Path) -> None:
    """Persistent chains and random numbers go on, too."""
    whole = train(tmp_path / "whole", 10)
    train(tmp_path / "parts", 5)
    parts = train(tmp_path / "parts", 10)
    assert torch.equal(parts.energy.W, whole.energy.W)
    assert torch.equal(parts.start.slots, whole.start.slots)


def test_a_length_that_is_past_is_refused(tmp_path: Path) -> None:
    train(tmp_path, 10)
    with pytest.raises(SystemExit, match="has 10 iterations, past 5"):
        train(tmp_path, 5)


def test_tables_run_the_scripts_that_keep_their_runs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for arguments, error in ((["NOPE"], "no script NOPE keeps its runs"), (["rm_lengths", "--lengths", "750"], "500")):
        monkeypatch.setattr(sys, "argv", ["tables.py", *arguments])
        monkeypatch.setattr(sys, "path", list(sys.path))
        with pytest.raises(SystemExit, match="2"):
            tables.main()
        assert error in capsys.readouterr().err
