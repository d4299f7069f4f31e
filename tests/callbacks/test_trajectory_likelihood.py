"""The likelihood along training, against sums over all states."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from pytorch_lightning.callbacks import ModelCheckpoint

from ebmlab.callbacks import RunState, TrajectoryLikelihood
from ebmlab.datamodules import Digits
from ebmlab.energies import RBM
from ebmlab.errors import UserError
from ebmlab.evaluation import exact_log_z, trajectory
from ebmlab.learners import ContrastiveDivergence, FromData
from ebmlab.samplers import DULA, BlockGibbs

pytestmark = pytest.mark.usefixtures("drafts")


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trajectory, "TEMPERATURES", 50)


def learner(sampler: Any = None, lr: float = 0.02) -> ContrastiveDivergence:
    torch.manual_seed(0)
    optimizer = partial(torch.optim.Adam, lr=lr)
    return ContrastiveDivergence(RBM(64, 6), sampler or BlockGibbs(), start=FromData(), optimizer=optimizer)


def test_it_is_the_exact_likelihood_and_leaves_training_alone(setup) -> None:
    callback = TrajectoryLikelihood(num_chains=1000, num_steps=2, every_n_steps=2, num_data=5000)
    weights = []
    for callbacks in ([], [callback]):
        model, trainer = setup(callbacks, learner=learner(), folder=str(len(callbacks)), max_steps=40, max_epochs=-1)
        trainer.fit(model, datamodule=Digits(binarize=True))
        weights.append(model.energy.W)
    assert torch.equal(*weights)
    data, log_z = Digits(binarize=True), exact_log_z(model.energy)
    for split in ("train", "val"):
        with torch.no_grad():
            exact = float(-model(data.states(split)).double().mean() - log_z)
        found = float(trainer.callback_metrics[f"trajectory/{split}_log_likelihood"])
        assert exact > -44 and found == pytest.approx(exact, abs=0.3)  # above independent fair bits
    assert float(trainer.callback_metrics["trajectory/ess"]) > 250
    assert float(trainer.callback_metrics["trajectory/trusted"]) == 1


def test_a_resumed_run_follows_the_same_path(setup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fit(**options: Any) -> dict[str, torch.Tensor]:
        keep = ModelCheckpoint(tmp_path, filename="{step}", every_n_train_steps=7, save_top_k=-1)
        keep.CHECKPOINT_EQUALS_CHAR = "-"
        callbacks = [RunState(), callback := TrajectoryLikelihood(num_steps=2, every_n_steps=2), keep]
        model, trainer = setup(callbacks, learner=learner(), max_steps=13, max_epochs=-1, enable_checkpointing=True)
        trainer.fit(model, datamodule=Digits(binarize=True), **options)
        chains = callback.state_dict()["chains"]
        return {k: v for k, v in chains.items() if k != "at"} | {"W": model.energy.W.detach(), "at": chains["at"][0]}

    whole = fit()
    monkeypatch.setattr(trajectory, "anneal", None)  # the saved chains go on; none are annealed
    monkeypatch.setattr("ebmlab.callbacks.trajectory_likelihood.base_law", None)
    again = fit(ckpt_path=tmp_path / "step-7.ckpt")
    assert not [name for name in whole if not torch.equal(whole[name], again[name])]


@pytest.mark.slow
def test_training_that_outruns_the_chains_is_not_trusted(setup) -> None:
    """Adam with large steps: the chains of one family are left, and the likelihood would be too high."""
    callback = TrajectoryLikelihood(num_chains=100, num_steps=1, every_n_steps=10)
    model, trainer = setup([callback], learner=learner(lr=0.1), max_steps=600, max_epochs=-1)
    with pytest.warns(UserWarning, match="TrajectoryLikelihood: do not trust the likelihood from here on") as caught:
        trainer.fit(model, datamodule=Digits(binarize=True))
    assert sum("do not trust" in str(w.message) for w in caught) == 1
    assert float(trainer.callback_metrics["trajectory/trusted"]) == 0
    assert float(trainer.callback_metrics["trajectory/families"]) < 10


def test_wrong_use_is_refused(setup) -> None:
    with pytest.raises(UserError, match="num_chains is 0"):
        TrajectoryLikelihood(num_chains=0)
    model, trainer = setup([TrajectoryLikelihood()], learner=learner(DULA(0.1)))
    with pytest.raises(UserError, match="needs an exact sampler"):
        trainer.fit(model, datamodule=Digits(binarize=True))
