"""Colour images: what the files of CIFAR-10 and SVHN hold, and the colours of digits."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import torch
from helpers_errors import refused
from helpers_published import write_cifar10, write_svhn

from ebmlab.data.interface import Images
from ebmlab.datamodules import CIFAR10, SVHN, ColourDigits, Digits
from ebmlab.errors import UserError


def test_cifar10_is_read_plane_by_plane(tmp_path: Path) -> None:
    write_cifar10(tmp_path)
    data = CIFAR10(10, root=str(tmp_path), num_val=12)
    content = pickle.loads((tmp_path / "cifar-10-batches-py" / "test_batch").read_bytes())
    images, labels = data.raw("test"), data.labels("test")
    assert labels is not None and labels.tolist() == content["labels"]
    row = torch.from_numpy(content["data"][3])
    assert torch.equal(images[3, 0], row[:1024].view(32, 32)) and torch.equal(images[3, 2], row[2048:].view(32, 32))
    assert len(data.raw("train")) == 38 and len(data.raw("val")) == 12
    x = data.states("train")
    assert x.mean((0, 2, 3)).abs().max() < 1e-4 and (x.std((0, 2, 3)) - 1).abs().max() < 1e-3
    shown = data.show(x[:2])
    assert isinstance(shown, Images) and torch.allclose(shown.values, data.raw("train")[:2] / 255, atol=1e-5)


def test_svhn_is_turned_and_its_zeros_are_zeros(tmp_path: Path) -> None:
    write_svhn(tmp_path)
    data = SVHN(10, root=str(tmp_path), num_val=12)
    content = scipy.io.loadmat(tmp_path / "SVHN" / "test_32x32.mat")
    images, labels = data.raw("test"), data.labels("test")
    assert labels is not None and labels.tolist() == [(i + 1) % 10 for i in range(20)]
    assert np.array_equal(images[7, 1].numpy(), content["X"][:, :, 1, 7])


def test_digits_keep_their_shapes_in_two_colours() -> None:
    grey, (images, labels) = Digits(), ColourDigits().load("val")
    shape, own = grey.raw("val")[:, 0] / 16, grey.labels("val")
    assert own is not None and torch.equal(labels, own)
    assert torch.equal(ColourDigits().load("val")[0], images)
    for share, image in zip(shape[:20], images[:20].double() / 255, strict=True):
        front, back = image[:, share == share.max()].mean(1), image[:, share == share.min()].mean(1)
        expected = (
            back[:, None, None] + (share - share.min()) / (share.max() - share.min()) * (front - back)[:, None, None]
        )
        assert (image - expected).abs().max() < 0.01
        assert front.max() > 2 * back.max()
    corners = images[:, :, 0, 0].unique(dim=0)
    assert len(corners) == 4  # the papers


class Code:
    """A pickle of it would run a command."""

    def __reduce__(self) -> tuple[object, ...]:
        return os.system, ("touch owned",)


@pytest.mark.parametrize("harm", ["gone", "code", "other", "cut"])
def test_files_that_are_not_those_published_are_one_line(
    harm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_cifar10(tmp_path)
    path = tmp_path / "cifar-10-batches-py" / "data_batch_2"
    words = {
        "gone": "CIFAR10: no data_batch_2 in .*cifar-10-python.tar.gz there",
        "code": "system', which may run code",
        "other": "data_batch_2 holds no data and labels",
        "cut": "cannot be read as a pickle",
    }[harm]
    content = {"code": pickle.dumps(Code()), "other": pickle.dumps([1, 2]), "cut": path.read_bytes()[:500]}
    path.unlink() if harm == "gone" else path.write_bytes(content[harm])
    with refused(words):
        CIFAR10(10, root=str(tmp_path), num_val=12).setup("fit")
    assert not Path("owned").exists()


def test_wrong_shapes_and_splits_are_one_line(tmp_path: Path) -> None:
    write_svhn(tmp_path)
    with pytest.raises(UserError, match="num_val is 50, but must be from 1 to 49"):
        SVHN(10, root=str(tmp_path), num_val=50).setup("fit")
    scipy.io.savemat(tmp_path / "SVHN" / "train_32x32.mat", {"X": np.zeros((16, 16, 3, 5)), "y": np.ones((5, 1))})
    with pytest.raises(UserError, match=r"float64 of shape \(5, 3, 16, 16\)"):
        SVHN(10, root=str(tmp_path)).setup("fit")
    (tmp_path / "SVHN" / "train_32x32.mat").write_bytes(b"no file of Matlab")
    with pytest.raises(UserError, match=r"train_32x32\.mat is damaged"):
        SVHN(10, root=str(tmp_path)).setup("fit")
