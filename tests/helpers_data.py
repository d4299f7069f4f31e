"""Tiny data sets in the layouts that the loaders expect, made on the spot."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
from PIL import Image


def write_idx(path: Path, array: np.ndarray) -> None:
    """Writes an unsigned-byte array in MNIST's idx format."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(
        struct.pack(">HBB", 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()
    )


def make_mnist(root: Path, name: str = "MNIST", train: int = 6000, test: int = 100) -> None:
    """Noisy bars at ten places: ten classes that a small network tells apart."""
    rng = np.random.default_rng(0)
    for prefix, n in (("train", train), ("t10k", test)):
        labels = rng.integers(0, 10, n).astype(np.uint8)
        images = rng.integers(0, 60, (n, 28, 28)).astype(np.uint8)
        for image, label in zip(images, labels, strict=True):
            image[:, 2 * label + 3 : 2 * label + 6] += 180
        write_idx(root / name / "raw" / f"{prefix}-images-idx3-ubyte", images)
        write_idx(root / name / "raw" / f"{prefix}-labels-idx1-ubyte", labels)


def make_celeba(root: Path, n: int = 30) -> None:
    """Random photographs of CelebA's size with its partition file: two thirds train, the rest val and test."""
    folder = root / "celeba" / "img_align_celeba"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    lines = []
    for i in range(n):
        name = f"{i + 1:06d}.jpg"
        Image.fromarray(rng.integers(0, 255, (218, 178, 3)).astype(np.uint8)).save(folder / name)
        lines.append(f"{name} {0 if i < 2 * n // 3 else 1 + i % 2}")
    (root / "celeba" / "list_eval_partition.txt").write_text("\n".join(lines) + "\n")
