"""One contract for the learners of energies on real numbers: resuming, reloading, validation, weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers_tier import cases
from helpers_trainer import quiet_trainer
from pytorch_lightning.callbacks import ModelCheckpoint

from ebmlab.callbacks import RunState
from ebmlab.datamodules import Shapes2D
from ebmlab.energies import NoisyMLP, RealMLP
from ebmlab.learners import (
    ConditionalNoiseContrast,
    DenoisingScoreMatching,
    DiffusionRecovery,
    EnergyMatching,
    Learner,
    NoiseContrast,
    ScoreMatching,
)
from ebmlab.samplers import MALA

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists and is not empty"),
    pytest.mark.filterwarnings("ignore:The dirpath has changed"),
    pytest.mark.filterwarnings("ignore:The number of training batches"),
]
LEARNERS: dict[str, Callable[[RealMLP], Learner]] = {
    "exact": lambda energy: ScoreMatching(energy, form="exact"),
    "sliced": lambda energy: ScoreMatching(energy, num_directions=2),
    "denoising": lambda energy: DenoisingScoreMatching(energy, noise_levels=[0.1, 1.0]),
    "noise": lambda energy: NoiseContrast(energy, ratio=2),
    "conditional noise": lambda energy: ConditionalNoiseContrast(energy, scale=0.3),
}
OTHERS: dict[str, Callable[[], Learner]] = {
    "recovery": lambda: DiffusionRecovery(NoisyMLP(2, 8, num_layers=1), num_steps=3),
    "energy matching": lambda: EnergyMatching(RealMLP(2, 8, num_layers=1), MALA(0.1), warm_up=4, num_steps=3),
}
every_learner = pytest.mark.parametrize("name", LEARNERS)


def learner(name: str) -> Any:
    torch.manual_seed(0)
    return OTHERS[name]() if name in OTHERS else LEARNERS[name](RealMLP(2, 8, num_layers=1))


def fit(folder: Path, model: Learner, resume: str = "", **settings: Any) -> Learner:
    """Trains for 9 steps, 5 in an epoch, and saves a checkpoint after each."""
    torch.manual_seed(1 if resume else 0)
    saving = ModelCheckpoint(folder, filename="{step}", save_top_k=-1, every_n_train_steps=1)
    options = {"max_steps": 9, "limit_val_batches": 0, "enable_checkpointing": True, **settings}
    trainer = quiet_trainer(folder, callbacks=[RunState(), saving], **options)
    path = folder / f"step={resume}.ckpt" if resume else None
    trainer.fit(model, Shapes2D(num_samples=100, batch_size=20), ckpt_path=path, weights_only=True)
    return model


def same(one: Learner, other: Learner) -> bool:
    saved = other.state_dict()
    return all(torch.equal(value, saved[name]) for name, value in one.state_dict().items())


@pytest.mark.parametrize("name", [*LEARNERS, *OTHERS])
@pytest.mark.filterwarnings("ignore:Be aware that when using `ckpt_path`")
def test_it_resumes_and_reloads_bit_for_bit_and_validation_does_not_move_it(name: str, tmp_path: Path) -> None:
    whole = fit(tmp_path, learner(name))
    assert not same(whole, learner(name))
    assert same(whole, fit(tmp_path, learner(name), resume="7"))
    assert same(whole, Learner.load_from_checkpoint(tmp_path / "step=9.ckpt"))
    assert same(whole, fit(tmp_path / "validated", learner(name), limit_val_batches=1.0))


@cases("name", list(LEARNERS), fast=[0, 1])
def test_the_loss_of_a_split_is_the_same_each_time_and_that_of_its_states(name: str, tmp_path: Path) -> None:
    """Lightning validates and tests in inference mode, where autograd is off."""
    model, data, trainer = learner(name), Shapes2D(num_samples=400, batch_size=40), quiet_trainer(tmp_path)
    for split, evaluate in (("val", trainer.validate), ("test", trainer.test)):
        found = evaluate(model, data, verbose=False)
        assert found == evaluate(model, data, verbose=False)
        torch.manual_seed(0)
        expected = torch.stack([model.losses(data.states(split)).mean().detach() for _ in range(200)])
        spread = 3 * expected.std() * (1 + 200**-0.5) + 1e-5
        assert abs(found[0][f"{split}/loss"] - expected.mean()) < spread


@every_learner
def test_a_sample_of_weight_two_counts_twice(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, x, logged = learner(name), torch.randn(4, 2), {}
    losses = torch.tensor([1.0, 2.0, 3.0, 4.0])
    monkeypatch.setattr(model, "losses", lambda states: losses[: len(states)])
    monkeypatch.setattr(model, "log", lambda name, value, **_: logged.update({name: float(value)}))
    monkeypatch.setattr(model, "weights", lambda batch: torch.tensor([2.0, 1.0, 0.0, 1.0]))
    assert float(model.training_step(x, 0)) == logged["train/loss"] == (2 + 2 + 4) / 4
