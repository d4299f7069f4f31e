"""Settings that are NumPy's numbers: a checkpoint holds what it holds with Python's."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from helpers_trainer import quiet_trainer
from pytorch_lightning.cli import ReduceLROnPlateau
from torch.optim.lr_scheduler import CosineAnnealingLR, ExponentialLR

import ebmlab
from ebmlab.datamodules import Digits
from ebmlab.energies import RBM, Ising
from ebmlab.errors import UserError
from ebmlab.io.rebuilding import describe
from ebmlab.learners import ContrastiveDivergence, Learner, ReplayBuffer
from ebmlab.samplers import DMALA, BlockGibbs, Gibbs

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore::pytorch_lightning.utilities.warnings.PossibleUserWarning"),
]


def saved(folder: Path, learner: Learner, data: Any = None, **settings: Any) -> Path:
    trainer = quiet_trainer(folder, max_steps=2, limit_val_batches=0, **settings)
    trainer.fit(learner, Digits(binarize=True, batch_size=100) if data is None else data)
    trainer.save_checkpoint(folder / "a.ckpt", weights_only=False)
    return folder / "a.ckpt"


def same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and bool(one == other or (one != one and other != other))


def content(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = torch.load(path, weights_only=True)
    return found


@pytest.mark.parametrize("schedule", ["exponential", "cosine", "plateau", "none"])
def test_a_checkpoint_is_the_same_with_numpys_numbers_as_with_pythons(schedule: str, tmp_path: Path) -> None:
    def learner(whole: Any, real: Any) -> Learner:
        schedules = {
            "exponential": partial(ExponentialLR, gamma=real(0.5)),
            "cosine": partial(CosineAnnealingLR, T_max=whole(7), eta_min=real(1e-4)),
            "plateau": partial(ReduceLROnPlateau, monitor="train/loss", factor=real(0.5), patience=whole(3)),
            "none": None,
        }
        optimizer = partial(torch.optim.Adam, lr=real(0.03125), betas=(real(0.5), real(0.75)), eps=real(1e-8))
        torch.manual_seed(0)
        return ContrastiveDivergence(
            RBM(whole(64), whole(8)),
            DMALA(real(0.25)),
            start=ReplayBuffer(whole(200), real(0.125)),
            num_steps=whole(5),
            burn_in=whole(2),
            l1=real(0.5),
            optimizer=optimizer,
            lr_scheduler=schedules[schedule],
        )

    (tmp_path / "python").mkdir()
    (tmp_path / "numpy").mkdir()
    data = partial(Digits, binarize=True)
    python = content(saved(tmp_path / "python", learner(int, float), data(batch_size=100)))
    numpy = content(saved(tmp_path / "numpy", learner(np.int64, np.float64), data(batch_size=np.int64(100))))
    assert numpy["hyper_parameters"]["num_steps"] == 5 and numpy["hyper_parameters"]["burn_in"] == 2
    assert python.keys() == numpy.keys()
    for key in python:
        assert same(python[key], numpy[key]), key
    again = Learner.load_from_checkpoint(tmp_path / "numpy" / "a.ckpt")
    assert isinstance(again, ContrastiveDivergence) and isinstance(again.start, ReplayBuffer)
    assert (again.num_steps, again.burn_in, again.start.size, again.l1) == (5, 2, 200, 0.5)


@pytest.mark.parametrize(
    "value, expected",
    [
        (np.int64(50), 50),
        (np.uint8(7), 7),
        (np.float32(0.5), 0.5),
        (np.float64(1e-3), 1e-3),
        (np.bool_(True), True),
        (np.str_("noise"), "noise"),
        (np.prod((2, 3)), 6),
        (np.array(4), 4),
        (np.array([0.9, 0.99]), [0.9, 0.99]),
        ((np.int64(1), {"a": np.float64(2)}), [1, {"a": 2.0}]),
    ],
)
def test_numbers_of_numpy_are_described_by_those_of_python(value: Any, expected: Any) -> None:
    assert same(describe(value), expected)


class Steps(pl.Callback):
    """A callback whose state is NumPy's numbers, or something that is no data."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def state_dict(self) -> dict[str, Any]:
        return {"value": self.value}


def test_states_of_callbacks_hold_pythons_numbers_and_what_is_no_data_is_said_at_save(tmp_path: Path) -> None:
    learner = ContrastiveDivergence(RBM(64, 8), BlockGibbs())
    path = saved(tmp_path, learner, callbacks=[Steps([np.float64(0.5), np.int64(3)])])
    assert content(path)["callbacks"]["Steps"] == {"value": [0.5, 3]}
    with pytest.warns(UserWarning, match=r"cannot be read again: callbacks.Steps.value is a Steps"):
        saved(tmp_path, learner, callbacks=[Steps(Steps(1))])


class OwnChains(ReplayBuffer):
    """Chains with a setting that plain data cannot describe."""

    def __init__(self, size: int, rule: Any) -> None:
        super().__init__(size)


def test_a_setting_that_cannot_be_described_is_said_at_save_and_never_replaced_by_a_default(tmp_path: Path) -> None:
    learner = ContrastiveDivergence(RBM(64, 8), BlockGibbs(), start=OwnChains(200, rule=lambda x: x), num_steps=3)
    with pytest.warns(UserWarning, match=r"lack a setting \(start is a function, which is no plain data\): load them"):
        path = saved(tmp_path, learner)
    with pytest.raises(UserError, match=r"its start is a function, which no checkpoint describes\): build it as for"):
        ebmlab.load(path)
    again = Learner.load_from_checkpoint(path, start=ReplayBuffer(100))
    assert again.num_steps == 3


def test_an_optimizer_that_cannot_be_described_is_asked_for_where_it_is_needed(tmp_path: Path) -> None:
    energy = Ising.learnable(64)
    learner = ContrastiveDivergence(energy, Gibbs(), optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.5))
    path = saved(tmp_path, learner, torch.ones(4, 2, 64))
    assert torch.equal(ebmlab.load(path).learner.energy.coupling, energy.coupling)
    with pytest.raises(UserError, match=r"does not describe its optimizer, a function: give load_from_checkpoint\("):
        Learner.load_from_checkpoint(path).configure_optimizers()
