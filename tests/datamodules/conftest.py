"""Small stand-ins for the data sets that have files, in their real formats."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from PIL import Image
from torch import Tensor


def write_idx(path: Path, data: Tensor) -> None:
    """Writes uint8 `data` in MNIST's idx format."""
    header = struct.pack(f">I{data.dim()}I", 0x0800 + data.dim(), *data.shape)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(header + data.numpy().tobytes())


def write_mnist(root: Path, name: str, num_train: int = 60, num_test: int = 20) -> None:
    """Random images whose first pixel is their number in the file, so that a test can tell them apart."""
    generator = torch.Generator().manual_seed(0)
    for prefix, n in (("train", num_train), ("t10k", num_test)):
        images = torch.randint(256, (n, 28, 28), generator=generator, dtype=torch.uint8)
        images[:, 0, 0] = torch.arange(n)
        write_idx(root / name / "raw" / f"{prefix}-images-idx3-ubyte", images)
        write_idx(root / name / "raw" / f"{prefix}-labels-idx1-ubyte", (torch.arange(n) % 10).byte())


def write_celeba(root: Path) -> None:
    """Twelve noisy images of 178x218, of which 7 train, 3 validate and 2 test."""
    folder = root / "celeba" / "img_align_celeba"
    folder.mkdir(parents=True)
    lines = []
    for i in range(12):
        generator = torch.Generator().manual_seed(i)
        coarse = torch.randint(256, (1, 3, 14, 11), generator=generator).float()
        pixels = torch.nn.functional.interpolate(coarse, (218, 178), mode="bilinear")[0].byte()
        Image.fromarray(pixels.permute(1, 2, 0).numpy()).save(folder / f"{i + 1:06d}.jpg")
        lines.append(f"{i + 1:06d}.jpg {0 if i < 7 else 1 if i < 10 else 2}")
    (root / "celeba" / "list_eval_partition.txt").write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="session")
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with all stand-ins; not to be changed by a test."""
    root = tmp_path_factory.mktemp("data")
    write_mnist(root, "MNIST")
    write_mnist(root, "FashionMNIST")
    write_celeba(root)
    return root


@pytest.fixture
def mnist_root(tmp_path: Path) -> Path:
    """A root with MNIST that a test may damage."""
    write_mnist(tmp_path, "MNIST")
    return tmp_path


@pytest.fixture
def celeba_root(tmp_path: Path) -> Path:
    """A root with CelebA that a test may damage."""
    write_celeba(tmp_path)
    return tmp_path


@pytest.fixture
def idx_writer() -> Callable[[Path, Tensor], None]:
    """The function that writes MNIST's format."""
    return write_idx
