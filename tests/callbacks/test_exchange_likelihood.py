"""The likelihood along training by replica exchange, against sums over all states."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from pytorch_lightning.callbacks import ModelCheckpoint

from ebmlab.callbacks import ExchangeLikelihood, RunState
from ebmlab.datamodules import Digits
from ebmlab.energies import RBM
from ebmlab.errors import UserError
from ebmlab.evaluation import exact_log_z
from ebmlab.learners import ContrastiveDivergence, FromData
from ebmlab.samplers import DULA, BlockGibbs


def learner(sampler: Any = None, lr: float = 0.02) -> ContrastiveDivergence:
    torch.manual_seed(0)
    optimizer = partial(torch.optim.Adam, lr=lr)
    return ContrastiveDivergence(RBM(64, 6), sampler or BlockGibbs(), FromData(), optimizer=optimizer)


@pytest.mark.parametrize(("lr", "least"), [(0.02, 0), (0.1, 2)])
def test_it_is_the_exact_likelihood_and_leaves_training_alone(setup, lr: float, least: int) -> None:
    """Also where training is too fast for the chains of `TrajectoryLikelihood` (its test has the same rate)."""
    callback = ExchangeLikelihood(num_chains=100, every_n_steps=5, num_data=5000)
    weights = []
    for callbacks in ([], [callback]):
        model, trainer = setup(
            callbacks, learner=learner(lr=lr), folder=str(len(callbacks)), max_steps=60, max_epochs=-1
        )
        trainer.fit(model, datamodule=Digits(binarize=True))
        weights.append(model.energy.W)
    assert torch.equal(*weights)
    data, log_z = Digits(binarize=True), exact_log_z(model.energy)
    error = float(trainer.callback_metrics["exchange/std_error"])
    for split in ("train", "val"):
        with torch.no_grad():
            exact = float(-model(data.states(split)).double().mean() - log_z)
        found = float(trainer.callback_metrics[f"exchange/{split}_log_likelihood"])
        assert abs(found - exact) < 4 * error < 1
    assert float(trainer.callback_metrics["exchange/trusted"]) == 1
    assert float(trainer.callback_metrics["exchange/stages"]) >= least


def test_a_resumed_run_follows_the_same_path(setup, tmp_path: Path) -> None:
    def fit(**options: Any) -> dict[str, Any]:
        keep = ModelCheckpoint(tmp_path, filename="{step}", every_n_train_steps=7, save_top_k=-1)
        keep.CHECKPOINT_EQUALS_CHAR = "-"
        callbacks = [RunState(), callback := ExchangeLikelihood(num_steps=4, every_n_steps=2), keep]
        settings: dict[str, Any] = {"max_steps": 13, "max_epochs": -1, "enable_checkpointing": True}
        model, trainer = setup(callbacks, learner=learner(lr=0.1), **settings)
        trainer.fit(model, datamodule=Digits(binarize=True), **options)
        state = callback.state_dict()
        assert state["stages"]
        tensors = {f"{k} {name}": t for k, stage in enumerate(state["stages"]) for name, t in stage.items()}
        return {
            **tensors,
            **state["last"],
            "replicas": state["replicas"],
            "log_z": trainer.callback_metrics["exchange/log_z"],
        }

    whole = fit()
    again = fit(ckpt_path=tmp_path / "step-7.ckpt")
    assert whole.keys() == again.keys()
    assert not [name for name in whole if not torch.equal(whole[name], again[name])]


def test_stages_too_far_apart_are_not_trusted(setup) -> None:
    callback = ExchangeLikelihood(num_chains=20, every_n_steps=1000, rungs=1)
    callback._next = 10**9  # no update before the end
    model, trainer = setup([callback], learner=learner(lr=0.5), max_steps=100, max_epochs=-1)
    callback.on_train_batch_end = lambda *_: None  # type: ignore[method-assign]
    with pytest.warns(UserWarning, match="ExchangeLikelihood: do not trust the likelihood of step 100"):
        trainer.fit(model, datamodule=Digits(binarize=True))
    assert float(trainer.callback_metrics["exchange/trusted"]) == 0


def test_wrong_use_is_refused(setup) -> None:
    with pytest.raises(UserError, match="num_chains is 0"):
        ExchangeLikelihood(num_chains=0)
    model, trainer = setup([ExchangeLikelihood()], learner=learner(DULA(0.1)))
    with pytest.raises(UserError, match="needs an exact sampler"):
        trainer.fit(model, datamodule=Digits(binarize=True))
