"""Folders of pictures as people have them: hidden and linked files, transparency, 16 bits, frames, other files."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers_errors import one_line
from PIL import Image, ImageDraw

from ebmlab.datamodules import FromDataset, ImageFolder
from ebmlab.reading.pictures import files_in, pixels_of, read_picture


def write(path: Path, level: int = 200) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L", (8, 8), color=level).save(path)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """20 pictures of two kinds."""
    for i in range(20):
        write(tmp_path / "own" / ("bright", "dark")[i % 2] / f"{i:02}.png", (200, 20)[i % 2])
    return tmp_path / "own"


def said(folder: Path, caplog: pytest.LogCaptureFixture) -> str:
    """What is said when training begins."""
    caplog.clear()
    with caplog.at_level(logging.INFO):
        ImageFolder(str(folder), size=8, batch_size=4, standardize=False).setup("fit")
    return caplog.text


def test_hidden_files_and_folders_are_no_pictures_and_no_classes(folder: Path) -> None:
    write(folder / ".ipynb_checkpoints" / "00-checkpoint.png")
    write(folder / "bright" / ".ipynb_checkpoints" / "00-checkpoint.png")
    for name in ("bright/._00.png", ".DS_Store", "__MACOSX/bright/._00.png"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"\0\5\x16\7")
    data = ImageFolder(str(folder), size=8, batch_size=4)
    assert data.classes == ["bright", "dark"] and data.count("train") == 20
    data.setup("fit")


def test_linked_folders_and_pictures_are_read_and_loops_are_not(folder: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    write(elsewhere / "30.png")
    (folder / "linked").symlink_to(elsewhere)
    (folder / "dark" / "31.png").symlink_to(write(tmp_path / "31.png"))
    (folder / "dark" / "again").symlink_to(folder)  # leads back
    (folder / "dark" / "lost.png").symlink_to(tmp_path / "none.png")
    data = ImageFolder(str(folder), size=8, batch_size=4)
    assert data.classes == ["bright", "dark", "linked"] and data.count("train") == 22
    assert len(list(files_in(folder))) == 22


def ink(colour: int, mode: str = "RGBA") -> Image.Image:
    """A square of one colour on a transparent ground."""
    image = Image.new(mode, (8, 8), (0, 0, 0, 0) if mode == "RGBA" else (0, 0))
    ImageDraw.Draw(image).rectangle(
        (2, 2, 5, 5), fill=(colour, colour, colour, 255) if mode == "RGBA" else (colour, 255)
    )
    return image


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_black_ink_on_a_transparent_ground_is_black_on_white(
    mode: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    image = ink(0).quantize() if mode == "P" else ink(0, mode)
    expected = torch.full((1, 8, 8), 255, dtype=torch.uint8)
    expected[:, 2:6, 2:6] = 0
    assert torch.equal(pixels_of(image, 1), expected)
    assert torch.equal(pixels_of(image), expected if mode == "LA" else expected.expand(3, 8, 8))
    for i in range(20):
        image.save(tmp_path / f"{i}.png")
    found = read_picture(tmp_path / "0.png", (1, 8, 8))
    assert found.clear and torch.equal(found.pixels, expected)
    assert "18 pictures have transparent parts, which become white" in said(tmp_path, caplog)


def test_white_ink_on_a_transparent_ground_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for i in range(20):
        ink(255 if i < 10 else 0).save(tmp_path / f"{i:02}.png")
    data = ImageFolder(str(tmp_path), size=8, batch_size=4)
    kept = sum(i < 10 for split in ("train", "val") for i in data.part(split)[1].tolist())
    assert f"{kept} pictures show nothing on white" in said(tmp_path, caplog)


def test_half_transparent_pixels_are_blended_and_opaque_pictures_are_as_they_were() -> None:
    half = Image.new("RGBA", (1, 1), (0, 100, 200, 51))  # a fifth of it, four fifths of white
    assert pixels_of(half)[:, 0, 0].tolist() == [204, 224, 244]
    solid = Image.fromarray(np.random.default_rng(0).integers(0, 256, (8, 8, 4), dtype=np.uint8), "RGBA")
    solid.putalpha(255)
    assert torch.equal(pixels_of(solid), pixels_of(solid.convert("RGB")))


def test_transparent_items_of_a_data_set_become_white(tmp_path: Path) -> None:
    data = FromDataset([ink(0) for _ in range(20)], batch_size=4)  # type: ignore[arg-type]
    assert data.raw("train")[0, :, 0, 0].tolist() == [255, 255, 255]


def test_dark_pictures_are_refused_where_nothing_would_be_left(tmp_path: Path) -> None:
    for i in range(20):
        Image.fromarray(np.full((8, 8), 200 * i, np.uint16)).save(tmp_path / f"{i}.png")  # up to 3800, as of 12 bits
    for binarize in (True, "dynamic"):
        wrong = one_line(lambda b=binarize: ImageFolder(str(tmp_path), size=8, batch_size=4, binarize=b).setup("fit"))
        assert "levels go up to 14 of 255, so that all bits would be 0" in wrong
    wrong = one_line(lambda: ImageFolder(str(tmp_path), size=8, batch_size=4).setup("fit"))
    assert "the pictures have 16 bits, but no level above 14 of 255" in wrong
    Image.fromarray(np.full((8, 8), 65535, np.uint16)).save(tmp_path / "0.png")
    ImageFolder(str(tmp_path), size=8, batch_size=4, val_fraction=0.05, test_fraction=0.05, split_seed=1).setup("fit")


def test_dark_pictures_of_8_bits_are_real_numbers_but_no_bits(tmp_path: Path) -> None:
    for i in range(20):
        write(tmp_path / f"{i}.png", i % 2)
    ImageFolder(str(tmp_path), size=8, batch_size=4).setup("fit")
    assert "go up to 1 of 255, so that all bits would be 0" in one_line(
        lambda: ImageFolder(str(tmp_path), size=8, batch_size=4, binarize=True).setup("fit")
    )


def test_what_is_left_out_is_counted(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert "left out" not in said(folder, caplog)
    frames = [Image.new("L", (8, 8), color=level) for level in (200, 100, 50)]
    for i in range(20):
        (folder / "bright" / f"{i:02}.png").unlink(missing_ok=True)
        suffix = (".gif", ".tiff")[i % 2]
        frames[0].save(folder / "bright" / f"{i:02}{suffix}", save_all=True, append_images=frames[1:])
    for name in ("a.svg", "b.svg", "readme.txt", "LICENSE"):
        (folder / "dark" / name).write_text("not a picture")
    found = said(folder, caplog)
    data, paths = ImageFolder(str(folder), size=8, batch_size=4), sorted(files_in(folder))
    paths = [path for path in paths if path.suffix in (".png", ".gif", ".tiff")]
    kept = sum(paths[i].parent.name == "bright" for s in ("train", "val") for i in data.part(s)[1].tolist())
    assert f"{kept} pictures have further frames or pages, which are left out" in found
    assert "4 files are no pictures by their names and left out (2 .svg, 1 LICENSE, 1 .txt)" in found
    assert read_picture(folder / "bright" / "00.gif", (1, 8, 8)).pixels.unique().tolist() == [200]
