"""CelebA's files: the images of each split, as one tensor."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ebmlab.data.interface import SPLITS
from ebmlab.errors import WHY, UserError, explained
from ebmlab.io import files
from ebmlab.io.progress import Meter

PARTITION = "list_eval_partition.txt"
IMAGES = "img_align_celeba"
CROP = 140
_CHUNK = 1024


def listed(folder: Path) -> dict[str, list[str]]:
    """The image names of each split, in the official order, from lines such as `000001.jpg 0`."""
    path = folder / PARTITION
    names: dict[str, list[str]] = {split: [] for split in SPLITS}
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        words = line.split()
        if len(words) != 2 or words[1] not in ("0", "1", "2"):
            raise UserError(f"CelebA: line {number} of {path} is '{line[:40]}'; it must be an image name and 0, 1 or 2")
        names[SPLITS[int(words[1])]].append(words[0])
    if empty := [split for split in SPLITS if not names[split]]:
        raise UserError(f"CelebA: {path} lists no image for {' and '.join(empty)}; put the original there")
    return names


def face(path: Path, size: int) -> Tensor:
    """The centre 140x140 of an image, resized with antialiasing (bilinear); `(3, size, size)`, uint8."""
    from PIL import Image
    from torchvision.transforms import functional

    with (
        explained(f"CelebA: {path} is not a readable image ({WHY}); put the original there", OSError),
        Image.open(path, formats=("JPEG", "PNG")) as image,
    ):
        crop = functional.center_crop(image.convert("RGB"), [CROP, CROP])
        resized: Tensor = functional.pil_to_tensor(functional.resize(crop, [size, size]))
    return resized


def faces(folder: Path, names: list[str], size: int) -> Tensor:
    """All of `names` as one tensor `(N, 3, size, size)`, uint8, with a progress bar."""
    missing = [name for name in names if not (folder / IMAGES / name).is_file()]
    if missing:
        raise UserError(
            f"CelebA: {len(missing)} of {len(names)} images are not in {folder / IMAGES}, the first is {missing[0]}; "
            "unpack img_align_celeba.zip there"
        )
    data = torch.empty(len(names), 3, size, size, dtype=torch.uint8)
    with ThreadPoolExecutor(os.cpu_count()) as pool, Meter(f"CelebA {size}x{size}", "picture", len(names)) as meter:
        for begin in range(0, len(names), _CHUNK):
            chunk = pool.map(lambda name: face(folder / IMAGES / name, size), names[begin : begin + _CHUNK])
            for index, image in enumerate(chunk, begin):
                data[index] = image
                meter.passed(index + 1)
    return data


def save(content: dict[str, Tensor], path: Path) -> None:
    """Writes tensors so that `path` is either absent or complete, even if the process is killed."""
    with explained(f"CelebA: cannot write {path} ({WHY}); the folder must be writable, with space", OSError):
        files.save(content, path)


def read(path: Path) -> dict[str, Any]:
    """Reads what `save` wrote, memory-mapped, so that the processes of one machine share the memory."""
    with explained(f"CelebA: {path} is damaged; delete it to make it again", Exception):
        content: dict[str, Any] = torch.load(path, weights_only=True, mmap=True)
    return content
