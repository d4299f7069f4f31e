from __future__ import annotations

import pytest
import torch

from ebmlab.datamodules import Digits
from ebmlab.evaluation import classifier, load_or_train
from ebmlab.io import progress


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setitem(classifier.RECIPE, "epochs", 2)


def data(channels=1, size=8):
    torch.manual_seed(0)
    labels = torch.arange(40) % 2
    return torch.rand(40, channels, size, size) * 0.2 + 0.8 * labels.view(-1, 1, 1, 1), labels


@pytest.mark.parametrize(("channels", "size"), [(1, 8), (1, 28), (3, 32), (3, 64)])
def test_image_sizes(quick, tmp_path, channels, size):
    images, labels = data(channels, size)
    model, digest = load_or_train(images, labels, num_classes=2, cache_dir=tmp_path, progress=False)
    assert model(images).shape == (40, model.num_features)
    assert model.logits(images).shape == (40, 2)
    assert not model.training and len(digest) == 8


def test_trained_once_then_read_from_the_cache(quick, tmp_path, monkeypatch):
    images, labels = data()
    first, digest = load_or_train(images, labels, num_classes=2, cache_dir=tmp_path, progress=False)
    monkeypatch.setattr(classifier, "train", None)
    second, again = load_or_train(images, labels, num_classes=2, cache_dir=tmp_path, progress=False)
    assert digest == again
    assert torch.equal(first(images), second(images))
    assert [p.name for p in tmp_path.iterdir()] == [f"classifier-{digest}.pt"]
    torch.load(tmp_path / f"classifier-{digest}.pt", weights_only=True)


def test_training_says_how_far_it_is(quick, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(progress, "PATIENCE", -1.0)
    load_or_train(*data(), num_classes=2, cache_dir=tmp_path, progress=True)
    assert "training the FID classifier, batch 1 of 1, 0 s left" in capsys.readouterr().err


@pytest.mark.parametrize(
    "damage", [lambda b: b[:100], lambda b: b"", lambda b: b"no checkpoint", lambda b: b[: len(b) // 2]]
)
def test_a_damaged_cache_is_trained_anew(quick, tmp_path, damage):
    images, labels = data()
    first, digest = load_or_train(images, labels, num_classes=2, cache_dir=tmp_path, progress=False)
    path = tmp_path / f"classifier-{digest}.pt"
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    second, _ = load_or_train(images, labels, num_classes=2, cache_dir=tmp_path, progress=False)
    assert torch.equal(first(images), second(images))
    assert len(path.read_bytes()) == len(whole)


def test_no_cache_in_a_folder_that_cannot_be_written_to(quick, tmp_path):
    (tmp_path / "file").write_text("in the way")
    images, labels = data()
    load_or_train(images, labels, num_classes=2, cache_dir=tmp_path / "file" / "cache", progress=False)


def test_the_name_changes_with_data_labels_and_recipe(quick, tmp_path, monkeypatch):
    images, labels = data()
    names = {
        classifier._digest(images, labels, 2),
        classifier._digest(images + 1e-3, labels, 2),
        classifier._digest(images, labels, 3),
    }
    names.add(classifier._digest(images, 1 - labels, 2))
    monkeypatch.setitem(classifier.RECIPE, "steps", 7)
    names.add(classifier._digest(images, labels, 2))
    assert len(names) == 5


def test_training_leaves_the_global_generator_unchanged_and_works_in_inference_mode(quick, tmp_path):
    images, labels = data()
    before = torch.get_rng_state()
    with torch.inference_mode():
        images, labels = images.clone(), labels.clone()
        model, _ = load_or_train(images, labels, num_classes=2, cache_dir=tmp_path, progress=False)
    assert torch.equal(before, torch.get_rng_state())
    assert not next(model.parameters()).is_inference()


def test_where_the_cache_is(monkeypatch, tmp_path):
    monkeypatch.delenv("EBMLAB_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert classifier.cache_folder() == tmp_path / "ebmlab"
    monkeypatch.setenv("EBMLAB_CACHE", str(tmp_path / "other"))
    assert classifier.cache_folder() == tmp_path / "other"


def test_it_learns_the_handwritten_digits_in_a_third_of_its_epochs(tmp_path, monkeypatch):
    monkeypatch.setitem(classifier.RECIPE, "epochs", 8)
    digits = Digits()
    images = {split: digits.to_raw(digits.to_states(digits.raw(split))) for split in ("train", "test")}
    model, _ = load_or_train(
        images["train"], digits.labels("train"), num_classes=10, cache_dir=tmp_path, progress=False
    )
    assert (model.logits(images["test"]).argmax(1) == digits.labels("test")).float().mean() >= 0.95
