"""CelebA on twelve made-up photographs: the pixels, the cache, and the errors."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest
import torch
from PIL import Image

from ebmlab.datamodules import CelebA
from ebmlab.errors import UserError


def prepared(root: Path, **options: int) -> CelebA:
    module = CelebA(root=str(root), batch_size=2, **options)
    module.prepare_data()
    return module


@pytest.mark.parametrize("size", [32, 64])
def test_pixels_are_the_resized_centre(celeba_root: Path, size: int) -> None:
    x = prepared(celeba_root, size=size).raw("val")
    assert x.dtype == torch.uint8 and len(x) == 3
    for i, name in enumerate(("000008.jpg", "000009.jpg", "000010.jpg")):
        with Image.open(celeba_root / "celeba" / "img_align_celeba" / name) as image:
            pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).float()
        crop = pixels[None, :, 39:179, 19:159]  # (218 - 140) / 2 and (178 - 140) / 2
        expected = torch.nn.functional.interpolate(crop, (size, size), mode="bilinear", antialias=True)[0]
        assert (x[i].float() - expected).abs().max() <= 1


def test_training_images_are_standardised_per_channel(celeba_root: Path) -> None:
    module = prepared(celeba_root)
    x = module.to_states(module.raw("train")).double()
    torch.testing.assert_close(x.mean((0, 2, 3)), torch.zeros(3).double(), atol=1e-5, rtol=0)
    torch.testing.assert_close(x.std((0, 2, 3), correction=0), torch.ones(3).double(), atol=1e-5, rtol=0)


def test_num_images_takes_the_first_of_each_split(celeba_root: Path) -> None:
    some, every = prepared(celeba_root, num_images=2), prepared(celeba_root)
    for split, number in (("train", 2), ("val", 2), ("test", 2)):
        assert torch.equal(some.raw(split), every.raw(split)[:number])
    assert len(every.raw("train")) == 7
    assert some.moments() != every.moments()


def test_a_second_run_reads_the_cache_only(celeba_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = prepared(celeba_root)
    x, moments = first.raw("train").clone(), first.moments()
    monkeypatch.setattr("ebmlab.datamodules.celeba_files.faces", None)
    second = prepared(celeba_root)
    assert torch.equal(second.raw("train"), x) and second.moments() == moments
    assert not list((celeba_root / "celeba").glob("*.part"))


def test_a_failed_write_leaves_no_cache(celeba_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(content: object, file: BinaryIO) -> None:
        file.write(b"half")
        raise OSError("no space left on device")

    monkeypatch.setattr("torch.save", full_disk)
    with pytest.raises(UserError, match=r"cannot write .*no space left"):
        prepared(celeba_root)
    assert {path.name for path in (celeba_root / "celeba").iterdir()} == {"img_align_celeba", "list_eval_partition.txt"}


def test_missing_data_are_one_helpful_line(tmp_path: Path) -> None:
    module = CelebA(root=str(tmp_path))
    for action in (module.prepare_data, module.setup, module.moments):
        with pytest.raises(UserError) as caught:
            action()
        line = str(caught.value)
        assert "\n" not in line and str(tmp_path / "celeba") in line
        assert "img_align_celeba" in line and "list_eval_partition.txt" in line and "grbm_digits.yaml" in line


@pytest.mark.parametrize("name", ["img_align_celeba", "list_eval_partition.txt"])
def test_half_of_the_originals_are_not_enough(name: str, celeba_root: Path) -> None:
    (celeba_root / "celeba" / name).rename(celeba_root / "elsewhere")
    with pytest.raises(UserError, match="img_align_celeba"):
        CelebA(root=str(celeba_root)).prepare_data()


def test_failed_download_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(root: Path, download: bool) -> None:
        assert root == tmp_path and download
        raise RuntimeError("quota\nexceeded")

    monkeypatch.setattr("torchvision.datasets.CelebA", fail)
    with pytest.raises(UserError, match=r"the download failed \(quota exceeded\)"):
        CelebA(root=str(tmp_path), download=True).prepare_data()


def test_unprepared_missing_unreadable_and_damaged_are_named(celeba_root: Path) -> None:
    with pytest.raises(UserError, match="call prepare_data"):
        CelebA(root=str(celeba_root)).setup("test")
    image = celeba_root / "celeba" / "img_align_celeba" / "000002.jpg"
    good = image.read_bytes()
    image.write_bytes(good[: len(good) // 2])
    with pytest.raises(UserError, match=r"000002\.jpg is not a readable image"):
        prepared(celeba_root)
    image.unlink()
    with pytest.raises(UserError, match=r"1 of 7 images are not in .*, the first is 000002\.jpg"):
        prepared(celeba_root)
    image.write_bytes(good)
    module = prepared(celeba_root)
    module.cache("train").write_bytes(b"junk")
    with pytest.raises(UserError, match="is damaged; delete it"):
        CelebA(root=str(celeba_root)).setup("fit")


@pytest.mark.parametrize(
    ("text", "message"),
    [("000001.jpg 3\n", "line 1 of .* is '000001.jpg 3'"), ("000001.jpg 0\n", "lists no image for val and test")],
)
def test_bad_partition_is_named(celeba_root: Path, text: str, message: str) -> None:
    (celeba_root / "celeba" / "list_eval_partition.txt").write_text(text)
    with pytest.raises(UserError, match=message):
        prepared(celeba_root)


def test_bad_options_are_named() -> None:
    with pytest.raises(UserError, match="size is 48; it must be 32 or 64"):
        CelebA(size=48)
    with pytest.raises(UserError, match="num_images is 0"):
        CelebA(num_images=0)
