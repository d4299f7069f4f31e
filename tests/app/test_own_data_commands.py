"""A user's own data from the command line: what works from `fit` to `predict`, and what is refused in one line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from ebmlab.app.failures import describe
from ebmlab.errors import UserError

GRBM = """
model:
  class_path: ebmlab.learners.ContrastiveDivergence
  init_args:
    energy: {class_path: ebmlab.energies.GRBM, init_args: {num_coordinates: "${event_size:}", num_hidden: 3}}
    sampler: {class_path: ebmlab.samplers.Langevin, init_args: {step_size: 0.01}}
    num_steps: 1
data: {class_path: datamodules.Arrays, init_args: {path: table.npy, batch_size: 10}}
trainer: {max_epochs: 1, accelerator: cpu, log_every_n_steps: 1}
wandb: disabled
"""  # without an optimizer: the learner's default must survive the `${...}`
MINE = """
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader, Dataset


class Ramps(Dataset):
    def __init__(self, fail_at: int = -1):
        self.fail_at = fail_at

    def __len__(self):
        return 40

    def __getitem__(self, i):
        if i == self.fail_at:
            raise KeyError("no such ramp")
        return {"ramp": torch.linspace(0, 1, 6).double() * i, "kind": i % 2}


class Loaders(pl.LightningDataModule):
    def train_dataloader(self):
        return DataLoader([(ramp["ramp"], ramp["kind"]) for ramp in (Ramps()[i] for i in range(40))], 10)

    val_dataloader = test_dataloader = train_dataloader
"""
CHECKPOINT = "runs/own/a/checkpoints/last.ckpt"
FROM_DATASET = ("--data=datamodules.FromDataset", "--data.train=ramps.Ramps", "--data.batch_size=10")

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:`ModelCheckpoint"),
]


@pytest.fixture
def folder(run: Callable[..., None]) -> Iterator[Path]:
    Path("own.yaml").write_text(GRBM)
    Path("ramps.py").write_text(MINE)
    np.save("table.npy", np.random.default_rng(0).normal([5, 0, -90], [1, 3, 0.1], (50, 3)))
    yield Path()
    sys.modules.pop("ramps", None)


@pytest.mark.slow
def test_own_numbers_from_fit_to_predict(folder: Path, run: Callable[..., None], fails: Callable[..., str]) -> None:
    run("fit", "--config=own.yaml", "--name=a", bare=True)
    assert "optimizer:\n      class_path: torch.optim.SGD" in Path("runs/own/a/config.yaml").read_text()
    for command in ("validate", "test", "predict"):
        run(command, f"--ckpt_path={CHECKPOINT}", "--data.split_seed=1", bare=True)  # moments are the checkpoint's
        found = fails(command, f"--ckpt_path={CHECKPOINT}", "--data.standardize=false", bare=True)
        assert "Arrays does not turn raw data into the states that the checkpoint's model was trained on: mean" in found
    samples = torch.load("runs/own/a/samples/samples.pt", weights_only=True)
    assert samples.shape == (64, 3) and (samples.mean(0) - torch.tensor([5.0, 0, -90])).abs().max() < 2


@pytest.mark.slow
@pytest.mark.parametrize("streamed", [False, True])
def test_a_dataset_of_a_module_beside_the_config(streamed: bool, folder: Path, run: Callable[..., None]) -> None:
    options = (
        ["--data.field=ramp", "--data.streamed=true", "--data.num_workers=2"] if streamed else ["--data.field=ramp"]
    )
    run("fit", "--config=own.yaml", "--name=a", *FROM_DATASET, *options, bare=True)
    run("test", "--config=runs/own/a/config.yaml", f"--ckpt_path={CHECKPOINT}", bare=True)


def test_a_plain_datamodule_of_the_users(folder: Path, run: Callable[..., None], fails: Callable[..., str]) -> None:
    plain = ("--config=own.yaml", "--data=ramps.Loaders")
    assert "${event_size:} cannot tell the size of Loaders's events" in fails("fit", *plain, bare=True)
    run("fit", *plain, "--model.energy.num_coordinates=6", "--name=a", bare=True)
    for command in ("validate", "test", "predict"):
        run(command, "--config=runs/own/a/config.yaml", f"--ckpt_path={CHECKPOINT}", bare=True)
    assert "the config beside a checkpoint must not name other code" in (
        fails("test", f"--ckpt_path={CHECKPOINT}", bare=True)
    )


@pytest.mark.slow
def test_functions_among_a_datasets_defaults(folder: Path, run: Callable[..., None]) -> None:
    """torchvision's ImageFolder has a function as the default of `loader`."""
    from PIL import Image

    for i in range(40):
        Path(f"pictures/{i % 2}").mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (3, 2), (i, 0, 99)).save(f"pictures/{i % 2}/{i}.png")
    options = ("--data.train=torchvision.datasets.ImageFolder", "--data.train.root=pictures")
    run("fit", "--config=own.yaml", "--name=a", FROM_DATASET[0], FROM_DATASET[2], *options, bare=True)
    assert "num_coordinates: 18" in Path("runs/own/a/config.yaml").read_text()


@pytest.mark.parametrize(
    ("args", "wrong"),
    [
        (["--data.path=none.npy"], "error: Arrays: there is no file none.npy"),
        (["--data=ramps.Ramp"], "data: there is no ramps.Ramp; did you mean ramps.Ramps?"),
        (["--data=ram.Ramps"], "data: there is no ram.Ramps (No module named 'ram')"),
        (
            ["--data=ramps.Ramps"],
            "a Dataset of torch goes into one by --data datamodules.FromDataset --data.train ramps",
        ),
        (FROM_DATASET, "error: FromDataset: an item has no x, but ramp, kind: set `field` to one of them"),
        ([*FROM_DATASET, "--data.field=ramp", "--data.train.fail_at=9"], "ramps.py, line 16: KeyError: 'no such ramp'"),
    ],
)
def test_what_is_wrong_with_own_data_is_said(
    args: list[str], wrong: str, folder: Path, fails: Callable[..., str]
) -> None:
    assert wrong in fails("fit", "--config=own.yaml", *args, bare=True)
    assert not list(Path().glob("runs/own/*/checkpoints/*"))


def test_errors_of_workers_are_as_short_as_others(
    folder: Path, fails: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    workers = [*FROM_DATASET, "--data.field=ramp", "--data.streamed=true", "--data.num_workers=1"]
    found = fails("fit", "--config=own.yaml", *workers, "--data.train.fail_at=9", bare=True)
    assert found.endswith("ramps.py, line 16: KeyError: 'no such ramp' (--debug shows the traceback)")
    ours = "Caught UserError in DataLoader worker process 0.\nOriginal Traceback (most recent call last):\n"
    ours += '  File "a.py", line 3, in f\n    f()\n    ^^^\nebmlab.errors.UserError: FromDataset: too short\n'
    assert describe(UserError(ours)) == "FromDataset: too short"
