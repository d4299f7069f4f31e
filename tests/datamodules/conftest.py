"""Small stand-ins for the data sets that have files, in their real formats."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers_family import write_family
from helpers_published import (
    SMALL,
    allow_small,
    write_caltech,
    write_cifar10,
    write_emnist,
    write_idx,
    write_mnist,
    write_omniglot,
    write_static_mnist,
    write_svhn,
)
from PIL import Image
from torch import Tensor


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


def write_own(root: Path) -> None:
    """A table of 50 rows of three numbers, and 50 colourful pictures of different sizes in two folders."""
    rng = np.random.default_rng(0)
    root.mkdir()
    np.save(root / "table.npy", rng.normal([5, 0, -2], [1, 3, 0.1], (50, 3)))
    for i in range(50):
        folder = root / "pictures" / ("dark" if i % 2 else "light")
        folder.mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 128, (6 + i % 3, 7, 3)) + (0 if i % 2 else 128)
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{i}.png")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Makes the datamodules expect the stand-ins' numbers of images in place of the published ones."""
    allow_small(monkeypatch)
    return SMALL


@pytest.fixture
def published_root(tmp_path: Path) -> Path:
    """A root with StaticMNIST, Omniglot and CaltechSilhouettes that a test may damage."""
    for write in (write_static_mnist, write_omniglot, write_caltech):
        write(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with all stand-ins; not to be changed by a test."""
    root = tmp_path_factory.mktemp("data")
    write_mnist(root, "MNIST")
    write_mnist(root, "FashionMNIST")
    write_mnist(root, "KMNIST")
    for write in (write_emnist, write_static_mnist, write_omniglot, write_caltech):
        write(root)
    write_celeba(root)
    write_cifar10(root)
    write_svhn(root)
    write_own(root / "own")
    write_family(root / "own" / "family.fasta")
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


@pytest.fixture
def mnist_writer() -> Callable[..., None]:
    """The function that writes stand-ins for sets in MNIST's layout."""
    return write_mnist


@pytest.fixture
def emnist_writer() -> Callable[..., None]:
    """The function that writes EMNIST's stand-in."""
    return write_emnist
