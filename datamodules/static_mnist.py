"""MNIST in the fixed binarisation on which likelihoods of binary models are compared."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ebmlab.data.interface import SPLITS
from ebmlab.datamodules.published import PublishedFile, PublishedImages
from ebmlab.domains import Binary
from ebmlab.errors import WHY, explained
from ebmlab.io.files import load, save

SIZES = {"train": 50_000, "val": 10_000, "test": 10_000}
_PUBLISHER = "https://www.cs.toronto.edu/~larocheh/public/datasets/binarized_mnist"
_COPY = (
    "https://raw.githubusercontent.com/riannevdberg/sylvester-flows/"
    "1b8ed5ef70359fc1dab2420da6c05b3c5b0397aa/data/MNIST_static"
)
_PIXELS = 28 * 28


def _file(name: str, sha256: str) -> PublishedFile:
    return PublishedFile(name, (f"{_PUBLISHER}/{name}", f"{_COPY}/{name}"), f"sha256:{sha256}")


class StaticMNIST(PublishedImages):
    """MNIST whose pixels were drawn once: 50,000 images to train on, 10,000 to validate, 10,000 to test.

    The files and splits are those of Larochelle and Murray (2011, The Neural Autoregressive Distribution Estimator),
    after Salakhutdinov and Murray (2008), without labels. They hold lines of 784 numbers 0 or 1. Downloaded files must
    have the checksums that TensorFlow Datasets lists (`binarized_mnist`). If the publisher's server does not have them
    (as was reported), a copy on GitHub is tried. Files that are already there need not have the checksums, but must
    hold as many images as published and only 0 and 1.

    Each split is cached beside its file, with eight pixels per byte.

    Args:
        batch_size: images per batch and process.
        seed: of the order of the training batches.
        root: folder of the data sets; the files are in its StaticMNIST/. By default $EBMLAB_DATA, else data/ in the
            working directory.
        download: download the files (110 MB) if they are missing.

    Example:
        >>> StaticMNIST(root="data").event_shape
        (1, 28, 28)
    """

    domains = (Binary,)
    name = "static_mnist"
    max_value = 1.0
    files = (
        _file("binarized_mnist_train.amat", "ad693b29f94c14277b095f5238ddefbbdaaae0939789dd2f4f0205278cee3e4d"),
        _file("binarized_mnist_valid.amat", "1de3d397c40fe8eeb33dafd4099a1f665ec01e96d9be234aaeeac8a34930e2e2"),
        _file("binarized_mnist_test.amat", "e6687bfea3f820c174f33b7865140b2a2dd2930ef786f35d45795fc193b5ab2c"),
    )

    def __init__(self, batch_size: int = 100, seed: int = 0, *, root: str | None = None, download: bool = True) -> None:
        self.save_hyperparameters(logger=False)
        super().__init__(batch_size, seed, root, download, binarize=True)

    def cache(self, split: str) -> Path:
        """The file that holds the split's pixels as bits."""
        return self.folder / f"ebmlab_{split}.pt"

    def prepare_data(self) -> None:
        """Downloads missing files, and caches the splits if the folder can be written."""
        if all(self.cache(split).is_file() for split in SPLITS):
            return
        super().prepare_data()
        for split in SPLITS:
            bits = torch.from_numpy(np.packbits(self._parse(split), axis=1))
            with contextlib.suppress(OSError):
                save(bits, self.cache(split))

    def load(self, split: str) -> tuple[Tensor, None]:
        """Images `(N, 1, 28, 28)`, uint8, 0 or 1, from the cache if there is one."""
        pixels = self._unpack(split) if self.cache(split).is_file() else self._parse(split)
        return torch.from_numpy(pixels).view(-1, 1, 28, 28), None

    def _unpack(self, split: str) -> np.ndarray:
        path = self.cache(split)
        with explained(self.damaged(path, WHY), Exception):
            bits = load(path).numpy()
            return np.unpackbits(bits, axis=1).reshape(SIZES[split], _PIXELS)

    def _parse(self, split: str) -> np.ndarray:
        """The text file's numbers, `(N, 784)`, uint8."""
        path = self.path(self.files[SPLITS.index(split)])
        text = np.fromfile(path, dtype=np.uint8)
        pixels = text[text > ord(" ")] - ord("0")  # each remaining character is one number
        if pixels.size != SIZES[split] * _PIXELS or pixels.max() > 1:
            what = f"{pixels.size} characters" if pixels.size else "nothing"
            raise self.damaged(path, f"it holds {what}, not {SIZES[split]} lines of {_PIXELS} numbers 0 or 1")
        return pixels.reshape(-1, _PIXELS)
