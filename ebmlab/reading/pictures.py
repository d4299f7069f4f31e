"""Pictures as pixels."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps
from torch import Tensor

from ebmlab.data.preprocessing import LEVELS
from ebmlab.errors import WHY, UserError, explained
from ebmlab.io.files import check_regular

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff")
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF")  # no other one is decoded, whatever a file's content looks like
DARK = 16  # levels of 255 that 12 of 16 bits reach
CLEAR = ("LA", "La", "PA", "RGBA", "RGBa")  # modes with transparency; in others a colour or index may stand for it


@dataclass(frozen=True)
class Picture:
    """A picture that was read.

    Attributes:
        pixels: `(channels, height, width)`, uint8.
        frames: whether the file has further frames or pages, which are left out.
        clear: whether parts of it are transparent.
        deep: whether the file has 16 bits a pixel, whose upper 8 are kept.
    """

    pixels: Tensor
    frames: bool
    clear: bool
    deep: bool


def losses(picture: Picture) -> Counter[str]:
    """What is left out of a picture or changed in it, in words that follow a number of pictures."""
    found = {
        "pictures have further frames or pages, which are left out": picture.frames,
        "pictures have transparent parts, which become white": picture.clear,
        "pictures show nothing on white": picture.clear and bool(picture.pixels.min() == LEVELS),
    }
    return Counter(what for what, is_so in found.items() if is_so)


def too_dark(high: float) -> str:
    """Why pictures of 16 bits whose highest level, of 255, is below `DARK` are refused."""
    return (
        f"the pictures have 16 bits, but no level above {high:g} of 255, as from a camera with fewer bits: brighten "
        "them, or take Arrays, which has the option max_value"
    )


def files_in(folder: Path) -> Iterator[Path]:
    """All files below a folder, linked folders included, in order. Hidden files and folders are left out.

    Notebooks leave `.ipynb_checkpoints` behind, and macOS `._x.png`, which is no picture.
    """
    yield from _below(folder, ())


def _below(folder: Path, above: tuple[str, ...]) -> Iterator[Path]:
    real = os.path.realpath(folder)
    if real in above:  # a link that leads back
        return
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise UserError(f"{folder} cannot be read ({error.strerror})") from error
    for path in entries:
        if path.name.startswith("."):
            continue
        if path.is_dir():
            yield from _below(path, (*above, real))
        elif path.is_file():
            yield path


def pixels_of(image: Image.Image, channels: int | None = None) -> Tensor:
    """The pixels of a picture, `(channels, height, width)`, uint8.

    Of 16 bits the upper 8 are kept. Transparent parts become white, as viewers show them. Pixels of 32 bits are
    refused.

    Args:
        image: the picture.
        channels: 1, grey, or 3, colours; by default 1 for a grey picture and 3 for others.
    """
    from torchvision.transforms import functional

    _check_depth(image)
    pixels: Tensor = functional.pil_to_tensor(_converted(image, channels))
    return pixels


def read_picture(path: Path, shape: tuple[int, ...]) -> Picture:
    """Reads a picture of the shape `(channels, height, width)`: scaled until it covers the size, then cut.

    A photograph is turned upright first, as viewers do. Of several frames or pages the first is taken.

    Raises:
        UserError: the file is no picture.
    """
    from torchvision.transforms import functional

    channels, height, width = shape
    check_regular(path)
    bad = OSError, ValueError, SyntaxError, Image.DecompressionBombError
    with (
        explained(f"{path} is not a readable picture ({WHY})", bad),
        explained(f"{path}: {WHY}", UserError),
        Image.open(path, formats=FORMATS) as file,
    ):
        _check_depth(file)
        frames, clear, deep = getattr(file, "is_animated", False), _is_clear(file), file.mode.startswith("I")
        image = _converted(ImageOps.exif_transpose(file), channels)
    scale = max(height / image.height, width / image.width)
    if scale != 1:
        sizes = [max(height, round(image.height * scale)), max(width, round(image.width * scale))]
        image = functional.resize(image, sizes)
    return Picture(pixels_of(functional.center_crop(image, [height, width]), channels), frames, clear, deep)


def _check_depth(image: Image.Image) -> None:
    """Raises `UserError` for pixels of 32 bits. Old releases of Pillow give PNG's 16 bits the same mode, I."""
    if image.mode == "F" or (image.mode == "I" and image.format != "PNG"):
        raise UserError(
            "the picture's pixels are numbers of 32 bits, which do not say what white is: save it with 8 or 16 bits, "
            "or take an array of its numbers"
        )


def _converted(image: Image.Image, channels: int | None) -> Image.Image:
    """The picture in grey or in colours, 8 bits each."""
    if image.mode.startswith("I"):  # Pillow would clip 16 bits at 255
        image = Image.fromarray((np.asarray(image).clip(0, 65535) // 256).astype(np.uint8))
    grey = channels == 1 or (channels is None and image.mode in ("1", "L", "LA"))
    if _is_clear(image):
        ground = Image.new("RGBA", image.size, "white")
        ground.alpha_composite(image.convert("RGBA"))
        image = ground
    return image.convert("L" if grey else "RGB")


def _is_clear(image: Image.Image) -> bool:
    """Whether a picture has transparent parts."""
    palette = image.palette.mode if image.palette else ""
    if image.mode not in CLEAR and "transparency" not in image.info and palette not in CLEAR:
        return False
    return bool(np.asarray(image.convert("RGBA").getchannel("A")).min() < LEVELS)
