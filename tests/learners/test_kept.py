"""What was trained is not lost: pickles, compiled energies, predictions of a trainer, checkpoints of weights alone."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
import torch
from helpers_trainer import quiet_trainer
from pytorch_lightning.callbacks import EarlyStopping, ModelCheckpoint
from pytorch_lightning.cli import ReduceLROnPlateau
from torch.utils.data import DataLoader, TensorDataset

from ebmlab.callbacks import RunState
from ebmlab.energies import MLP, RBM, Energy, Ising
from ebmlab.errors import UserError
from ebmlab.learners import ContrastiveDivergence, Learner
from ebmlab.samplers import DMALA, BlockGibbs, Gibbs
from ebmlab.sklearn import EBM

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists and is not empty"),
    pytest.mark.filterwarnings("ignore:You defined a `validation_step` but have no"),
]
STATES = (torch.rand(40, 16, generator=torch.Generator().manual_seed(0)) < 0.5).float()


def rbm(**settings: Any) -> Learner:
    return ContrastiveDivergence(RBM(16, 4), BlockGibbs(), **settings)


def trained(energy: Energy, folder: Path) -> Learner:
    learner = ContrastiveDivergence(energy, DMALA(0.1), optimizer=partial(torch.optim.SGD, lr=0.1))
    trainer = quiet_trainer(folder, max_epochs=1, limit_val_batches=0)
    trainer.fit(learner, DataLoader(STATES, 10))
    trainer.save_checkpoint(folder / "a.ckpt")
    return learner


@pytest.mark.parametrize("double", [False, True])
def test_an_ising_model_that_is_learnt_goes_through_a_pickle(double: bool) -> None:
    energy = Ising.learnable(4)
    torch.nn.init.normal_(energy.field)
    torch.nn.init.normal_(energy.parametrizations["coupling"].original)
    energy = energy.double().eval() if double else energy
    energy.field.requires_grad_(False)
    again = pickle.loads(pickle.dumps(energy))
    x = energy.domain.enumerate().to(energy.field)
    assert torch.equal(again(x), energy(x)) and type(again).__name__ == "Ising" and again.training == energy.training
    assert [p.requires_grad for p in again.parameters()] == [p.requires_grad for p in energy.parameters()]
    fixed = Ising.lattice(3, 0.2)
    assert torch.equal(pickle.loads(pickle.dumps(fixed))(torch.ones(1, 9)), fixed(torch.ones(1, 9)))


def test_a_fitted_estimator_goes_through_joblib(tmp_path: Path) -> None:
    X = 2.0 * STATES.numpy()[:, :5] - 1
    model = EBM(Ising.learnable(5), sampler=Gibbs(), num_epochs=2, batch_size=10, random_state=0).fit(X)
    joblib.dump(model, tmp_path / "a.joblib")
    again = joblib.load(tmp_path / "a.joblib")
    assert torch.equal(again.energy_.coupling, model.energy_.coupling) and again.energy_.coupling.dtype == torch.float64


def test_an_estimator_is_the_same_in_threads(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(60, 3))

    def score(_: int) -> float:
        return EBM(num_hidden=4, num_epochs=2, random_state=0).fit(X).score(X)

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(score, range(6))) == {score(0)}


@pytest.mark.slow
def test_an_energy_that_was_compiled_keeps_a_checkpoint_that_loads(tmp_path: Path) -> None:
    energy = MLP(16, 4)
    compiled: Any = torch.compile(energy, backend="eager")
    learner = trained(compiled, tmp_path)
    assert learner.energy is energy and not any("_orig_mod" in name for name in learner.state_dict())
    again = Learner.load_from_checkpoint(tmp_path / "a.ckpt")
    assert torch.equal(again.energy(STATES), energy.forward(STATES))
    assert isinstance(ContrastiveDivergence(torch.compile(RBM(4, 3)), BlockGibbs()).energy, RBM)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["tensor", "tuple", "dictionary", "levels"])
def test_a_trainer_predicts_energies_of_batches_in_any_form(kind: str, tmp_path: Path) -> None:
    loaders: dict[str, Any] = {
        "tensor": STATES,
        "tuple": TensorDataset(STATES, torch.zeros(40)),
        "dictionary": [{"x": row, "label": 0} for row in STATES],
        "levels": STATES.long(),
    }
    learner = rbm()
    found = quiet_trainer(tmp_path).predict(learner, DataLoader(loaders[kind], 10))
    torch.testing.assert_close(torch.cat(found), learner.energy(STATES).detach())


def test_no_training_goes_on_from_weights_alone(tmp_path: Path) -> None:
    trainer = quiet_trainer(tmp_path, max_epochs=1, limit_val_batches=0)
    trainer.fit(rbm(), DataLoader(STATES, 10))
    trainer.save_checkpoint(tmp_path / "w.ckpt", weights_only=True)
    again = quiet_trainer(tmp_path, max_epochs=2, limit_val_batches=0)
    with pytest.raises(UserError, match=r"w.ckpt has weights alone \(save_weights_only\), and no training"):
        again.fit(rbm(), DataLoader(STATES, 10), ckpt_path=tmp_path / "w.ckpt", weights_only=True)
    options: dict[str, Any] = {"ckpt_path": tmp_path / "w.ckpt", "weights_only": True}
    assert quiet_trainer(tmp_path).validate(rbm(), DataLoader(STATES, 10), **options)


def test_a_misspelt_monitor_is_noticed_before_the_first_step(tmp_path: Path) -> None:
    plateau = partial(ReduceLROnPlateau, monitor="val/enery")
    for learner, callback in (
        (rbm(), ModelCheckpoint(tmp_path, monitor="val/enrgy", every_n_epochs=50)),
        (rbm(), EarlyStopping("val/enrgy")),
        (rbm(lr_scheduler=plateau), ModelCheckpoint(tmp_path)),
    ):
        trainer = quiet_trainer(tmp_path, max_epochs=1, enable_checkpointing=True, callbacks=[RunState(), callback])
        with pytest.raises(UserError, match=r"monitors val/en\w+, which nothing in this run logs: did you mean val"):
            trainer.fit(learner, DataLoader(STATES, 10), DataLoader(STATES, 10))
        assert trainer.global_step == 0
    good = ModelCheckpoint(tmp_path, monitor="val/energy")
    trainer = quiet_trainer(tmp_path, max_epochs=1, enable_checkpointing=True, callbacks=[RunState(), good])
    trainer.fit(rbm(), DataLoader(STATES, 10), DataLoader(STATES, 10))
    assert good.best_model_path
