"""The digits' constants, and what happens without scikit-learn."""

from __future__ import annotations

import sys

import pytest
from sklearn.datasets import load_digits

from ebmlab.datamodules import Digits
from ebmlab.errors import UserError


def test_constants_are_those_of_the_training_split() -> None:
    x = Digits().raw("train").double() / 16
    assert (x.mean().item(), x.std(correction=0).item()) == pytest.approx((*Digits.mean, *Digits.std), abs=1e-6)


def test_splits_are_all_of_scikit_learns_digits_with_their_labels() -> None:
    bunch = load_digits()
    images = (tuple(x.flatten()) for x in bunch.images)
    expected = sorted(zip(images, bunch.target, strict=True))
    module = Digits()
    got = []
    for split in ("train", "val", "test"):
        rows = module.raw(split).flatten(1).tolist()
        got += [(tuple(map(float, x)), y) for x, y in zip(rows, module.labels(split).tolist(), strict=True)]
    assert sorted(got) == expected
    assert [len(module.raw(split)) for split in ("train", "val", "test")] == [1437, 180, 180]


def test_a_change_of_a_modules_images_changes_no_other_modules() -> None:
    first = Digits()
    first.raw("train").zero_()
    assert not first.raw("train").any() and Digits().raw("train").any()


def test_missing_scikit_learn_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(UserError, match="needs scikit-learn"):
        Digits().setup("fit")
