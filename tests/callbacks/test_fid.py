from __future__ import annotations

import csv

import pytest
import torch
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.loggers.logger import DummyLogger

from ebmlab.callbacks import FID, SampleGrid
from ebmlab.errors import UserError
from ebmlab.evaluation import frechet_distance, load_or_train

pytestmark = pytest.mark.usefixtures("drafts")


def rows(folder):
    with (folder / "fid.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def classifier(squares):
    return load_or_train(
        squares.to_raw(squares.to_states(squares.raw("train"))), squares.labels("train"), num_classes=4, progress=False
    )


def test_the_score_is_that_of_features_computed_by_hand(setup, squares, classifier, tmp_path):
    model, digest = classifier
    learner, trainer = setup(
        [FID(num_samples=50, batch_size=20, split="val", num_steps=2, every_n_epochs=1, seed=7)], max_epochs=1
    )
    trainer.fit(learner, datamodule=squares)
    torch.manual_seed(7)
    samples = [learner.draw(torch.randn(n, 36), 2, denoise=True) for n in (20, 20, 10)]
    expected = frechet_distance(model(squares.to_raw(torch.cat(samples))), model(squares.to_raw(squares.states("val"))))
    name = "fid/classifier"
    assert trainer.callback_metrics[name].item() == pytest.approx(expected.item(), rel=1e-4)
    start, end = rows(tmp_path / "run")
    assert (start["step"], end["step"]) == ("0", "4")
    assert float(end["fid"]) == pytest.approx(expected.item(), rel=1e-4)
    protocol = {
        k: end[k]
        for k in ("stage", "name", "extractor", "samples", "real", "split", "num_steps", "denoise", "seed", "dtype")
    }
    values = ["fit", name, f"squares-classifier-{digest}", "50", "64", "val", "2", "True", "7", "float32"]
    assert list(protocol.values()) == values


def test_repeated_steps_replace_their_rows(setup, squares, tmp_path):
    for _ in range(2):
        learner, trainer = setup([FID(num_samples=10, every_n_epochs=1)], max_epochs=1)
        trainer.fit(learner, datamodule=squares)
    assert [row["step"] for row in rows(tmp_path / "run")] == ["0", "4"]


@pytest.mark.slow
def test_training_improves_it(setup, squares):
    callback = FID(num_samples=200, num_steps=20, every_n_epochs=100)
    learner, trainer = setup([callback], max_epochs=15)
    learner.configure_optimizers = lambda: torch.optim.Adam(learner.parameters(), lr=0.01)
    trainer.fit(learner, datamodule=squares)
    first, last = (float(row["fid"]) for row in rows(trainer_folder(trainer)))
    assert last < 0.7 * first


def test_a_trial_run_trains_no_classifier(setup, squares, monkeypatch):
    monkeypatch.setattr("ebmlab.callbacks.fid.load_or_train", lambda *args, **options: pytest.fail("it trains"))
    learner, trainer = setup([FID()], fast_dev_run=True)
    trainer.fit(learner, datamodule=squares)
    assert trainer.callback_metrics["fid/classifier"] > 0


def test_it_looks_at_validation_data_in_training_at_the_step_and_epoch_of_the_pictures(setup, squares):
    callback = FID(num_samples=10, every_n_epochs=1)
    learner, trainer = setup([callback, SampleGrid(num_samples=4)], max_epochs=2)
    logged = []
    monitor = ModelCheckpoint(monitor="fid/classifier")  # the name is known before the data are
    trainer.callbacks.append(monitor)
    trainer.logger = Logged(logged)
    trainer.fit(learner, datamodule=squares)
    folder = trainer_folder(trainer)
    pictures = sorted(int(path.stem.split("_step")[1]) for path in folder.glob("images/samples-grid_*.png"))
    assert [int(row["step"]) for row in rows(folder)] == pictures == [step for step, _ in logged]
    assert [int(row["epoch"]) for row in rows(folder)] == [0, 0, 1] == [epoch for _, epoch in logged]
    assert {row["split"] for row in rows(folder)} == {"val"}
    assert monitor.best_model_score == trainer.callback_metrics["fid/classifier"]


class Logged(DummyLogger):
    """Keeps the step and epoch of each FID, and the protocols."""

    def __init__(self, kept):
        super().__init__()
        self.kept, self.protocols = kept, []

    def log_hyperparams(self, params, *args, **kwargs):
        self.protocols += [params] if any(name.startswith("fid/") for name in params) else []

    def log_metrics(self, metrics, step=None):
        if "fid/classifier" in metrics:
            self.kept.append((step, metrics["epoch"]))


def trainer_folder(trainer):
    from pathlib import Path

    return Path(trainer.default_root_dir)


def test_it_runs_in_test(setup, squares, classifier):
    learner, trainer = setup([FID(num_samples=10)])
    (results,) = trainer.test(learner, squares, verbose=False)
    assert results["fid/classifier"] > 0
    (row,) = rows(trainer_folder(trainer))
    assert (row["split"], row["real"]) == ("test", str(len(squares.raw("test"))))


def test_two_protocols_may_run_side_by_side(setup, squares, tmp_path):
    """Each is told to the loggers once."""
    learner, trainer = setup([FID(num_samples=10), FID(num_samples=12)], max_epochs=1)
    trainer.logger = Logged([])
    trainer.fit(learner, datamodule=squares)
    trainer.save_checkpoint(tmp_path / "a.ckpt")
    assert [row["samples"] for row in rows(tmp_path / "run")] == ["10", "12", "10", "12"]
    assert [protocol["samples"] for (protocol,) in map(dict.values, trainer.logger.protocols)] == [10, 12]


def test_no_labels(setup, squares, monkeypatch):
    monkeypatch.setattr(squares, "labels", lambda split: None)
    learner, trainer = setup([FID()])
    with pytest.raises(UserError, match=r'Squares has no labels .* use extractor "inception"'):
        trainer.fit(learner, datamodule=squares)


def test_denoising_is_for_bipartite_energies(setup):
    learner, _ = setup([])
    assert learner.shows_mean(None) and not learner.shows_mean(False)


def test_other_data_have_other_real_features(setup, squares):
    class Dark(type(squares)):
        def load(self, split):
            images, labels = super().load(split)
            return images // 4, labels

    def score(*data):
        learner, trainer = setup([FID(num_samples=20, num_steps=2)], max_epochs=1)
        torch.manual_seed(0)
        for each in data:
            trainer.test(learner, datamodule=each, verbose=False)
        return float(trainer.callback_metrics["fid/classifier"])

    assert score(squares, Dark()) == score(Dark()) != score(squares)


def test_pictures_that_are_not_square_are_refused_before_training(setup, squares):
    class Wide(type(squares)):
        def __init__(self):
            super(type(squares), self).__init__((1, 4, 9), 16, seed=0)

        def load(self, split):
            images, labels = super().load(split)
            return images.reshape(-1, 1, 4, 9), labels

    learner, trainer = setup([FID()], max_epochs=1)
    with pytest.raises(UserError, match=r"square images, but .* has 4 x 9 pixels"):
        trainer.fit(learner, datamodule=Wide())
