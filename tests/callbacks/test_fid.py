from __future__ import annotations

import csv

import pytest
import torch

from callbacks import FID
from callbacks.requirements import shows_mean
from ebmlab.errors import UserError
from ebmlab.evaluation import frechet_distance, load_or_train


def rows(folder):
    with (folder / "fid.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def classifier(squares):
    return load_or_train(
        squares.to_raw(squares.to_states(squares.raw("train"))), squares.labels("train"), 4, progress=False
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
    name = f"fid/squares-classifier-{digest}"
    assert trainer.callback_metrics[name].item() == pytest.approx(expected.item(), rel=1e-4)
    start, end = rows(tmp_path / "run")
    assert (start["step"], end["step"]) == ("0", "4")
    assert float(end["fid"]) == pytest.approx(expected.item(), rel=1e-4)
    protocol = {
        k: end[k] for k in ("stage", "name", "samples", "real", "split", "num_steps", "denoise", "seed", "dtype")
    }
    values = ["fit", name, "50", "64", "val", "2", "True", "7", "float32"]
    assert list(protocol.values()) == values


def test_repeated_steps_replace_their_rows(setup, squares, tmp_path):
    for _ in range(2):
        learner, trainer = setup([FID(num_samples=10, every_n_epochs=1)], max_epochs=1)
        trainer.fit(learner, datamodule=squares)
    assert [row["step"] for row in rows(tmp_path / "run")] == ["0", "4"]


def test_training_improves_it(setup, squares):
    callback = FID(num_samples=200, num_steps=20, every_n_epochs=100)
    learner, trainer = setup([callback], max_epochs=15)
    learner._make_optimizer = lambda parameters: torch.optim.Adam(parameters, lr=0.01)
    trainer.fit(learner, datamodule=squares)
    first, last = (float(row["fid"]) for row in rows(trainer_folder(trainer)))
    assert last < 0.7 * first


def trainer_folder(trainer):
    from pathlib import Path

    return Path(trainer.default_root_dir)


def test_it_runs_in_test(setup, squares, classifier):
    learner, trainer = setup([FID(num_samples=10)])
    (results,) = trainer.test(learner, squares, verbose=False)
    assert results[f"fid/squares-classifier-{classifier[1]}"] > 0


def test_two_protocols_may_run_side_by_side(setup, squares, tmp_path):
    learner, trainer = setup([FID(num_samples=10), FID(num_samples=12)], max_epochs=1)
    trainer.fit(learner, datamodule=squares)
    trainer.save_checkpoint(tmp_path / "a.ckpt")
    assert [row["samples"] for row in rows(tmp_path / "run")] == ["10", "12", "10", "12"]


def test_no_labels(setup, squares, monkeypatch):
    monkeypatch.setattr(squares, "labels", lambda split: None)
    learner, trainer = setup([FID()])
    with pytest.raises(UserError, match=r'Squares has no labels .* use extractor "inception"'):
        trainer.fit(learner, datamodule=squares)


def test_denoising_is_for_bipartite_energies(setup):
    learner, _ = setup([])
    assert shows_mean(learner, None) and not shows_mean(learner, False)
