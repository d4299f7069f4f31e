"""Runs that were killed and resumed: batches, learning rates, parameters and metrics are those of the unbroken run."""

from __future__ import annotations

import csv
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers_tier import cases
from helpers_trainer import quiet_trainer
from pytorch_lightning.callbacks import Callback, ModelCheckpoint
from pytorch_lightning.cli import ReduceLROnPlateau
from torch.utils.data import DataLoader, TensorDataset

from ebmlab.app.loggers import MetricsCSV
from ebmlab.callbacks import RunState
from ebmlab.datamodules.tensor_loader import TensorLoader
from ebmlab.energies import RBM
from ebmlab.learners import ContrastiveDivergence, Learner, ReplayBuffer
from ebmlab.samplers import BlockGibbs

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists and is not empty"),
    pytest.mark.filterwarnings("ignore:The dirpath has changed"),
    pytest.mark.filterwarnings("ignore:Be aware that when using `ckpt_path`"),
    pytest.mark.filterwarnings("ignore:You're resuming from a checkpoint that ended before the epoch ended"),
    pytest.mark.filterwarnings("ignore:ReduceLROnPlateau conditioned on metric"),
    pytest.mark.filterwarnings("ignore:.*could not find the monitored key"),
    pytest.mark.filterwarnings("ignore:The number of training batches"),
]
BATCHES = 6  # in an epoch
EPOCHS = 4


class Killed(Exception):
    """Stands for a power cut."""


class Kill(Callback):
    """Ends the process before a training batch, or in the validation before it."""

    def __init__(self, step: int, validating: bool = False) -> None:
        self.step, self.validating = step, validating

    def on_train_batch_start(self, trainer: Any, *_: Any) -> None:
        if trainer.global_step == self.step:
            raise Killed

    def on_validation_start(self, trainer: Any, *_: Any) -> None:
        if self.validating and trainer.global_step == self.step:
            raise Killed


class Rates(Callback):
    """Remembers the learning rate of each step, and the batch."""

    def __init__(self, seen: dict[int, tuple[float, Any]]) -> None:
        self.seen = seen

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        x = batch if isinstance(batch, torch.Tensor) else batch[0]
        self.seen[trainer.global_step] = trainer.optimizers[0].param_groups[0]["lr"], x.sum(1).tolist()


def loaders(workers: int = 0, generator: bool = False, stateful: bool = False) -> tuple[Any, Any]:
    rows = (torch.rand(60, 16, generator=torch.Generator().manual_seed(5)) < torch.linspace(0.1, 0.9, 16)).float()
    if stateful:
        return TensorLoader(rows, 10, shuffle=True), TensorLoader(rows[:30], 10)
    own = torch.Generator().manual_seed(3) if generator else None
    options: dict[str, Any] = {"num_workers": workers, "generator": own}
    return DataLoader(TensorDataset(rows), 10, shuffle=True, **options), DataLoader(TensorDataset(rows[:30]), 10)


def run(
    folder: Path,
    period: dict[str, Any],
    kill: int | None = None,
    resume: Path | None = None,
    plateau: dict[str, Any] | None = None,
    data: dict[str, Any] | None = None,
    seen: dict[int, tuple[float, Any]] | None = None,
    optimizer: Any = None,
    **settings: Any,
) -> Learner:
    torch.manual_seed(99 if resume else 0)
    schedule = None if plateau is None else partial(ReduceLROnPlateau, **plateau)
    interval, validating = settings.pop("interval", "epoch"), settings.pop("validating", False)
    learner = ContrastiveDivergence(
        RBM(16, 4),
        BlockGibbs(),
        start=ReplayBuffer(40),
        optimizer=optimizer or partial(torch.optim.Adam, lr=0.1),
        lr_scheduler=schedule,
        lr_interval=interval,
    )
    saving = ModelCheckpoint(folder / "ck", filename="{step}", save_top_k=-1, save_last=True, **period)
    callbacks = [
        *([] if kill is None else [Kill(kill, validating)]),
        RunState(),
        Rates({} if seen is None else seen),
        saving,
    ]
    options = {"max_epochs": EPOCHS, "enable_checkpointing": True, "log_every_n_steps": 1} | settings
    trainer = quiet_trainer(folder, callbacks=callbacks, **options | {"logger": MetricsCSV(folder)})
    train, val = loaders(**data or {})
    trainer.fit(learner, train, val, ckpt_path=resume, weights_only=True)
    return learner


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "metrics.csv").open() as file:
        return list(csv.DictReader(file))


def is_resumed_exactly(tmp_path: Path, period: dict[str, Any], kills: list[int], **settings: Any) -> None:
    whole: dict[int, tuple[float, Any]] = {}
    unbroken = run(tmp_path / "whole", period, seen=whole, **settings)
    for kill in kills:
        broken: dict[int, tuple[float, Any]] = {}
        folder = tmp_path / f"killed-{kill}"
        with pytest.raises(Killed):
            run(folder, period, kill=kill, seen=broken, **settings)
        last = folder / "ck" / "last.ckpt"
        resumed = run(folder, period, resume=last, seen=broken, **settings)
        assert broken == whole, kill
        for (name, one), other in zip(unbroken.state_dict().items(), resumed.state_dict().values(), strict=True):
            assert torch.equal(one, other), (kill, name)
        assert rows(folder) == rows(tmp_path / "whole"), kill


PERIODS: dict[str, dict[str, Any]] = {
    "epochs": {"every_n_epochs": 1, "save_on_train_epoch_end": True},
    "validations": {"every_n_epochs": 1, "save_on_train_epoch_end": False},
    "steps": {"every_n_train_steps": 4},
    "each step": {"every_n_train_steps": 1},
}


@pytest.mark.parametrize(
    ("period", "monitor"),
    [
        ("steps", "train/energy_gap"),
        *(pytest.param(p, "val/energy", marks=pytest.mark.slow) for p in PERIODS),
        *(pytest.param(p, "train/energy_gap", marks=pytest.mark.slow) for p in PERIODS if p != "steps"),
    ],
)
def test_a_learning_rate_that_falls_on_a_plateau(period: str, monitor: str, tmp_path: Path) -> None:
    plateau = {
        "monitor": monitor,
        "factor": 0.5,
        "patience": 0,
        "mode": "max",
        "threshold": 99.0,
        "threshold_mode": "abs",
    }
    is_resumed_exactly(tmp_path, PERIODS[period], [13, 19], plateau=plateau)


@pytest.mark.slow
def test_a_learning_rate_that_falls_on_a_plateau_of_steps(tmp_path: Path) -> None:
    plateau = {"monitor": "train/energy_gap", "factor": 0.9, "patience": 1, "mode": "min"}
    is_resumed_exactly(tmp_path, PERIODS["each step"], [5, 6, 14], plateau=plateau, interval="step")


@pytest.mark.parametrize(
    ("period", "data"),
    [
        pytest.param("epochs", {}, id="epochs, plain"),
        pytest.param("steps", {"workers": 1}, id="another process", marks=pytest.mark.slow),
        *(
            pytest.param(period, {}, id=f"{period}, plain", marks=pytest.mark.slow)
            for period in PERIODS
            if period != "epochs"
        ),
        *(
            pytest.param(period, {"generator": True}, id=f"{period}, a generator", marks=pytest.mark.slow)
            for period in PERIODS
        ),
    ],
)
def test_a_plain_loader_that_shuffles(period: str, data: dict[str, Any], tmp_path: Path) -> None:
    is_resumed_exactly(tmp_path, PERIODS[period], [13, 15], data=data)


@pytest.mark.parametrize(
    ("period", "workers"),
    [
        ("epochs", 0),
        pytest.param("steps", 1, marks=pytest.mark.slow),
        pytest.param("epochs", 1, marks=pytest.mark.slow),
        pytest.param("steps", 0, marks=pytest.mark.slow),
    ],
)
def test_a_plain_loader_without_validation(period: str, workers: int, tmp_path: Path) -> None:
    is_resumed_exactly(tmp_path, PERIODS[period], [13], data={"workers": workers}, limit_val_batches=0)


@cases("validating", [False, True], fast=[1])
@cases("stateful", [False, True], fast=[0])
@cases("period", [2, 6], fast=[1])
def test_checkpoints_on_the_last_batch_of_an_epoch(
    period: int, stateful: bool, validating: bool, tmp_path: Path
) -> None:
    """Each epoch is validated once and counted once, whichever kill comes next."""
    data = {"stateful": stateful}
    is_resumed_exactly(tmp_path, {"every_n_train_steps": period}, [12, 13, 18], data=data, validating=validating)


OPTIMIZERS = {
    "LBFGS": partial(torch.optim.LBFGS, lr=0.01, max_iter=2),
    "Adafactor": torch.optim.Adafactor,
    "RMSprop": torch.optim.RMSprop,
    "AdamW": partial(torch.optim.AdamW, betas=[0.5, 0.9]),
    "Rprop": torch.optim.Rprop,
    "NAdam": torch.optim.NAdam,
    "ASGD": torch.optim.ASGD,
    "SGD": partial(torch.optim.SGD, lr=0.1, momentum=0.9, nesterov=True),
}


@cases("name", list(OPTIMIZERS), fast=[3])
def test_every_optimizer_resumes(name: str, tmp_path: Path) -> None:
    is_resumed_exactly(tmp_path, PERIODS["steps"], [13], optimizer=OPTIMIZERS[name])


def energies(folder: Path, best: Path) -> tuple[float, float]:
    """The score that a best checkpoint carries, and the one at which its weights validate."""
    content = torch.load(best, weights_only=True)
    (state,) = (state for name, state in content["callbacks"].items() if name.startswith("ModelCheckpoint"))
    learner = Learner.load_from_checkpoint(best)
    (found,) = quiet_trainer(folder).validate(learner, loaders()[1], verbose=False)
    return float(state["best_model_score"]), found["val/energy"]


@pytest.mark.parametrize(
    "settings",
    [
        {"every_n_train_steps": 4},
        {"every_n_train_steps": 5, "val_check_interval": 4},
        {"every_n_train_steps": 3, "val_check_interval": 2, "save_on_train_epoch_end": True},
        {"every_n_epochs": 1, "save_on_train_epoch_end": True, "val_check_interval": 4},
        {"every_n_epochs": 1, "save_on_train_epoch_end": True, "check_val_every_n_epoch": 2},
        {"every_n_epochs": 1, "val_check_interval": 4},
    ],
)
def test_the_score_of_the_best_checkpoint_is_that_of_its_weights(settings: dict[str, Any], tmp_path: Path) -> None:
    names = ("every_n_train_steps", "every_n_epochs", "save_on_train_epoch_end")
    period = {name: settings[name] for name in settings if name in names}
    best = ModelCheckpoint(tmp_path, filename="best", monitor="val/energy", **period)
    torch.manual_seed(0)
    learner = ContrastiveDivergence(
        RBM(16, 4), BlockGibbs(), start=ReplayBuffer(40), optimizer=partial(torch.optim.Adam, lr=0.1)
    )
    options = {name: value for name, value in settings.items() if name not in names}
    trainer = quiet_trainer(
        tmp_path, max_epochs=EPOCHS, enable_checkpointing=True, callbacks=[RunState(), best], **options
    )
    trainer.fit(learner, *loaders())
    score, found = energies(tmp_path, Path(best.best_model_path))
    assert score == pytest.approx(found, abs=1e-5)
