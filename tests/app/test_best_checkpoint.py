"""A likelihood that is not to be trusted never makes a checkpoint the best, not even the first one."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest

OPTIONS = [
    "--data=datamodules.Digits",
    "--data.binarize=true",
    "--model.energy.num_hidden=8",
    "--model.start.size=300",
    "--callbacks.SampleGrid=false",
    "--callbacks.AIS.num_temperatures=10",
    "--callbacks.AIS.every_n_epochs=1",
    "--callbacks.ModelCheckpoint_2.monitor=ais/log_likelihood",
    "--callbacks.ModelCheckpoint_2.mode=max",
    "--callbacks.ModelCheckpoint_2.filename=best",
    "--callbacks.ModelCheckpoint_2.save_on_train_epoch_end=true",
    "--callbacks.ModelCheckpoint_2.enable_version_counter=false",
    "--name=a",
]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:AIS. do not trust")
def test_the_first_trusted_likelihood_is_the_first_best(run: Callable[..., None]) -> None:
    """Five chains are never trusted, three hundred at once."""
    run("fit", *OPTIONS, "--trainer.max_epochs=2", "--callbacks.AIS.num_chains=5", config="rbm_mnist")
    folder = Path("runs/rbm_mnist/a/checkpoints")
    assert not list(folder.glob("best*")) and (folder / "last.ckpt").exists()
    more = ["--trainer.max_epochs=3", "--callbacks.AIS.num_chains=300", "--ckpt_path=last"]
    run("fit", *OPTIONS, *more, config="rbm_mnist")
    with (folder.parent / "metrics.csv").open() as file:
        trusted = [row["ais/trusted"] for row in csv.DictReader(file) if row["ais/trusted"]]
    assert trusted == ["0.0", "0.0", "1.0"] and (folder / "best.ckpt").exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:AIS. do not trust")
def test_a_run_whose_only_checkpoint_is_the_best_keeps_the_last(run: Callable[..., None]) -> None:
    options = [option.replace("ModelCheckpoint_2", "ModelCheckpoint") for option in OPTIONS]
    run("fit", *options, "--trainer.max_epochs=2", "--callbacks.AIS.num_chains=5", config="rbm_mnist")
    assert [path.name for path in Path("runs/rbm_mnist/a/checkpoints").iterdir()] == ["last.ckpt"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:AIS. do not trust")
def test_a_run_that_was_moved_keeps_its_best(run: Callable[..., None]) -> None:
    """A high learning rate makes the model better for a while; one best and one last are left, wherever the run is."""
    options = [option for option in OPTIONS if "version_counter" not in option and option != "--name=a"]
    options += ["--callbacks.AIS.num_chains=300", "--resume=auto"]
    run("fit", *options, "--name=a", "--trainer.max_epochs=2", config="rbm_mnist")
    Path("runs/rbm_mnist/a").rename("runs/rbm_mnist/b")
    run("fit", *options, "--name=b", "--trainer.max_epochs=4", config="rbm_mnist")
    names = sorted(path.name for path in Path("runs/rbm_mnist/b/checkpoints").iterdir())
    assert [name for name in names if "epoch" not in name] == ["best.ckpt", "last.ckpt"]
    assert len(names) == 3, "the older checkpoint of the last epoch is replaced"
