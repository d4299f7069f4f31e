"""A user's folders of pictures: cut, scaled, labelled, split."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers_errors import one_line
from helpers_own_data import save
from PIL import Image
from torch.utils.data import TensorDataset

from ebmlab.data.foreign_loaders import PlainData
from ebmlab.data.interface import Images
from ebmlab.datamodules import Arrays, FromDataset, ImageFolder
from ebmlab.domains import Binary, Real
from ebmlab.reading.pictures import pixels_of, read_picture
from ebmlab.trained.numbers import as_tensor


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Grey pictures of two brightnesses and three sizes, in folders named for them, one with an alpha channel."""
    root = tmp_path / "pictures"
    for i in range(30):
        folder = root / ("bright" if i % 3 else "dark")
        folder.mkdir(parents=True, exist_ok=True)
        image = Image.new("L", (8 + i % 3, 8), color=200 if i % 3 else 20)
        (image.convert("RGBA") if i == 5 else image).save(folder / f"{i:02}.png")
    (root / "notes.txt").write_text("not a picture")
    return root


def test_pictures_are_cut_scaled_and_labelled(pictures: Path) -> None:
    data = ImageFolder(str(pictures), size=4, batch_size=4)
    assert (data.name, data.num_classes, data.classes, data.event_shape) == (
        "pictures",
        2,
        ["bright", "dark"],
        (1, 4, 4),
    )
    raw, labels = data.raw("train"), data.labels("train")
    assert labels is not None and len(raw) == 24
    assert torch.equal(raw, torch.where(labels.bool(), 20, 200).byte().view(-1, 1, 1, 1).expand(-1, 1, 4, 4))
    x = data.states("train")
    assert x.mean().abs() < 1e-5 and (x.std(correction=0) - 1).abs() < 1e-5
    shown = data.show(data.states("val"))
    assert isinstance(shown, Images)
    torch.testing.assert_close(shown.values, data.raw("val") / 255)
    bits = ImageFolder(str(pictures), size=[4, 6], channels=3, binarize=True, batch_size=4)
    assert bits.domains == (Binary,) and bits.raw("val").shape == (3, 3, 4, 6)
    kinds = bits.labels("val")
    assert kinds is not None and torch.equal(bits.states("val")[:, 0, 0, 0], 1 - kinds.float())


def test_pixels_of_every_kind_of_picture(tmp_path: Path) -> None:
    deep = np.array([[0, 256, 65535]], np.uint16)
    Image.fromarray(deep).save(tmp_path / "deep.png")
    assert read_picture(tmp_path / "deep.png", (1, 1, 3)).pixels.tolist() == [[[0, 1, 255]]]
    upright = Image.fromarray(np.array([[10, 200]], np.uint8))
    exif = Image.Exif()
    exif[0x0112] = 6  # lies on its side: to be turned by 90 degrees, clockwise
    upright.save(tmp_path / "turned.png", exif=exif)
    assert read_picture(tmp_path / "turned.png", (1, 2, 1)).pixels.flatten().tolist() == [10, 200]
    palette = Image.new("RGB", (2, 2), (250, 0, 10)).quantize()
    assert pixels_of(palette)[:, 0, 0].tolist() == [250, 0, 10]
    assert pixels_of(Image.fromarray(np.array([[True, False]]))).tolist() == [[[255, 0]]]


@pytest.mark.parametrize("numbers", [np.float32([[0, 0.5, 1]]), np.int32([[0, 128, 255]])])
def test_pictures_of_32_bits_are_refused(numbers: Any, tmp_path: Path) -> None:
    """They do not say what white is: fractions, and levels as 32-bit integers, would all become black."""
    Image.fromarray(numbers).save(tmp_path / "a.tif")
    found = one_line(lambda: read_picture(tmp_path / "a.tif", (1, 1, 3)))
    assert found.startswith(f"{tmp_path / 'a.tif'}: the picture's pixels are numbers of 32 bits")
    assert "32 bits" in one_line(lambda: FromDataset([Image.fromarray(numbers)] * 9, batch_size=4))  # type: ignore[arg-type]


def test_numbers_without_sign_of_16_bits(tmp_path: Path) -> None:
    """torch cannot compare them; PlainData and trained models take them, too."""
    x = np.arange(80, dtype=np.uint16).reshape(20, 4) * 500
    plain = PlainData("mine", {"train": lambda: [torch.from_numpy(x)]}, Real(4))
    assert torch.equal(plain.states("train"), torch.from_numpy(x.astype(np.float32)))
    data = FromDataset(TensorDataset(torch.from_numpy(x)), batch_size=4)
    torch.testing.assert_close(data.states("train").mean(0), torch.zeros(4), atol=1e-5, rtol=0)
    assert as_tensor(torch.from_numpy(x))[0].tolist() == x.tolist()


@pytest.mark.parametrize("binarize", [True, "dynamic"])
def test_levels_that_would_all_be_black_are_refused(binarize: Any, tmp_path: Path) -> None:
    path = save(tmp_path / "a.npy", np.arange(20 * 8).reshape(20, 8) % 17)  # levels from 0 to 16, as of scikit-learn
    options: dict[str, Any] = {"domain": "binary", "binarize": binarize, "batch_size": 4}
    wrong = "the values go up to 16, but 255 would be white, so that next to all bits would be 0: set max_value"
    assert wrong in one_line(lambda: Arrays(path, **options).setup("fit"))
    assert 0.3 < float(Arrays(path, max_value=16, **options).states("train").mean()) < 0.7


def test_folders_named_for_splits_are_splits(pictures: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    pictures.rename(root / "train")
    test = root / "test" / "dark"
    test.mkdir(parents=True)
    Image.new("L", (9, 9), color=20).save(test / "a.jpg")
    data = ImageFolder(str(root), size=4, batch_size=4)
    assert data.classes == ["bright", "dark"] and len(data.raw("test")) == 1
    assert data.labels("test").tolist() == [1]  # type: ignore[union-attr]
    assert len(data.raw("train")) == 27 and len(data.raw("val")) == 3
    (root / "test" / "grey").mkdir()
    (test / "a.jpg").rename(root / "test" / "grey" / "a.jpg")
    assert "has the label grey" in one_line(lambda: ImageFolder(str(root), size=4).raw("test"))


def test_bad_folders_are_named(pictures: Path, tmp_path: Path) -> None:
    assert "there is no folder" in one_line(lambda: ImageFolder(str(tmp_path / "none")))
    (tmp_path / "empty").mkdir()
    assert "there is no picture in" in one_line(lambda: ImageFolder(str(tmp_path / "empty")))
    assert "size is 0 and channels 1" in one_line(lambda: ImageFolder(str(pictures), size=0))
    for path in (pictures / "dark").iterdir():
        path.write_bytes(path.read_bytes()[:40])
    assert "is not a readable picture" in one_line(
        lambda: ImageFolder(str(pictures), size=4, batch_size=4).setup("fit")
    )
