"""Small stand-ins for published images, in their real formats."""

from __future__ import annotations

import pickle
import struct
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import torch
from torch import Tensor


def write_idx(path: Path, data: Tensor) -> None:
    """Writes uint8 `data` in MNIST's idx format."""
    header = struct.pack(f">I{data.dim()}I", 0x0800 + data.dim(), *data.shape)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(header + data.numpy().tobytes())


def write_mnist(root: Path, name: str, num_train: int = 60, num_test: int = 20) -> None:
    """Random images. The first pixel is the image's number in the file, by which a test identifies it."""
    generator = torch.Generator().manual_seed(0)
    for prefix, n in (("train", num_train), ("t10k", num_test)):
        images = torch.randint(256, (n, 28, 28), generator=generator, dtype=torch.uint8)
        images[:, 0, 0] = torch.arange(n)
        write_idx(root / name / "raw" / f"{prefix}-images-idx3-ubyte", images)
        write_idx(root / name / "raw" / f"{prefix}-labels-idx1-ubyte", (torch.arange(n) % 10).byte())


def write_emnist(root: Path, subset: str = "mnist", num_train: int = 60, num_test: int = 20) -> None:
    """The images of `write_mnist` under EMNIST's file names, transposed as in the published files."""
    write_mnist(root / "upright", "MNIST", num_train, num_test)
    (root / "EMNIST" / "raw").mkdir(parents=True, exist_ok=True)
    for part, prefix, n in (("train", "train", num_train), ("test", "t10k", num_test)):
        raw = root / "upright" / "MNIST" / "raw"
        images = np.fromfile(raw / f"{prefix}-images-idx3-ubyte", np.uint8)[16:].reshape(n, 28, 28).swapaxes(1, 2)
        write_idx(root / "EMNIST" / "raw" / f"emnist-{subset}-{part}-images-idx3-ubyte", torch.tensor(images.copy()))
        labels = torch.arange(n) % 10 + (subset == "letters")
        write_idx(root / "EMNIST" / "raw" / f"emnist-{subset}-{part}-labels-idx1-ubyte", labels.byte())


SMALL = {"train": 40, "val": 12, "test": 20}
"""How many images the stand-ins for StaticMNIST, Omniglot and CaltechSilhouettes have."""


def pixels(split: str) -> np.ndarray:
    """Random 0/1 rows `(N, 784)`, uint8."""
    return np.random.default_rng(list(SMALL).index(split)).integers(0, 2, (SMALL[split], 784), dtype=np.uint8)


def write_static_mnist(root: Path) -> None:
    """Writes `pixels` as text."""
    (root / "StaticMNIST").mkdir(parents=True)
    for split, name in (("train", "train"), ("val", "valid"), ("test", "test")):
        lines = [" ".join(map(str, row)) + " \n" for row in pixels(split)]
        (root / "StaticMNIST" / f"binarized_mnist_{name}.amat").write_text("".join(lines))


def write_omniglot(root: Path) -> None:
    """Writes grey images as columns, identified by their first pixel; alphabets 0 to 49 in turn."""
    (root / "Omniglot").mkdir(parents=True)
    content = {}
    for prefix, n in (("", SMALL["train"] + SMALL["val"]), ("test", SMALL["test"])):
        grey = np.random.default_rng(n).random((784, n))
        grey[0] = np.arange(n) / 256
        content |= {f"{prefix}data": grey, f"{prefix}target": np.eye(50)[:, np.arange(n) % 50]}
    scipy.io.savemat(root / "Omniglot" / "chardata.mat", content)


def write_caltech(root: Path) -> None:
    """Writes `pixels` with black and white exchanged; classes 1 to 101 in turn."""
    (root / "CaltechSilhouettes").mkdir(parents=True)
    content = {f"{split}_data": 1 - pixels(split) for split in SMALL}
    content |= {
        f"{split}_labels": (np.arange(n) * 100 // n + 1)[:, None].astype(np.uint8) for split, n in SMALL.items()
    }
    scipy.io.savemat(root / "CaltechSilhouettes" / "caltech101_silhouettes_28_split1.mat", content)


def allow_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the datamodules expect the stand-ins' numbers of images in place of the published ones."""
    monkeypatch.setattr("ebmlab.datamodules.static_mnist.SIZES", SMALL)
    monkeypatch.setattr("ebmlab.datamodules.caltech_silhouettes.SIZES", SMALL)
    for split, n in SMALL.items():
        monkeypatch.setattr(f"ebmlab.datamodules.omniglot.NUM_{split.upper()}", n)


def write_cifar10(root: Path) -> None:
    """Fifty training images and 20 to test, planes of colours in rows as in the published pickles."""
    folder, rng = root / "cifar-10-batches-py", np.random.default_rng(0)
    folder.mkdir(parents=True)
    for name in [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]:
        n = 20 if name == "test_batch" else 10
        content = {"data": rng.integers(0, 256, (n, 3072), np.uint8), "labels": [i % 10 for i in range(n)]}
        (folder / name).write_bytes(pickle.dumps(content, protocol=4))


def write_svhn(root: Path) -> None:
    """Fifty training images and 20 to test, the number of the image in the last axis; zeros have the label 10."""
    rng = np.random.default_rng(0)
    (root / "SVHN").mkdir(parents=True)
    for name, n in (("train", 50), ("test", 20)):
        content = {"X": rng.integers(0, 256, (32, 32, 3, n), np.uint8), "y": np.arange(n)[:, None] % 10 + 1}
        scipy.io.savemat(root / "SVHN" / f"{name}_32x32.mat", content)
