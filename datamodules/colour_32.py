"""CIFAR-10 and SVHN: colour images of 32x32 pixels, from their published files."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ebmlab.datamodules import matlab, restricted_pickle
from ebmlab.datamodules.roots import data_root
from ebmlab.datamodules.tensor_datamodule import TensorDataModule
from ebmlab.errors import WHY, UserError, explained
from ebmlab.numerics.streams import stream


class Colour32(TensorDataModule):
    """Colour images of 32x32 pixels, whose training file gives the validation images, too.

    The validation images are the last `num_val` of one fixed permutation of the training images. Mean and standard
    deviation of each channel are measured on the others.

    Args:
        batch_size: images per batch and process.
        seed: of the order of the training batches.
        root: folder of the data sets; by default $EBMLAB_DATA, else data/ in the working directory.
        num_val: number of training images that are held out.
    """

    num_classes = 10
    mean, std = (), ()
    folder: str
    """The files' folder in `root`."""
    source: str
    """Where they are published."""

    def __init__(self, batch_size: int = 128, seed: int = 0, *, root: str | None = None, num_val: int = 5000) -> None:
        self.save_hyperparameters(logger=False)
        super().__init__((3, 32, 32), batch_size, seed=seed)
        self.root = data_root(root)
        self.num_val = num_val

    @abstractmethod
    def read(self, train: bool) -> tuple[np.ndarray, np.ndarray]:
        """Images `(N, 3, 32, 32)` and labels `(N,)` of a file; raises `ValueError` if it holds something else."""

    def load(self, split: str) -> tuple[Tensor, Tensor]:
        """Images `(N, 3, 32, 32)`, uint8, and labels `(N,)`."""
        x, y = self.read(train=split != "test")
        if x.dtype != np.uint8 or x.shape != (len(y), 3, 32, 32) or not set(np.unique(y)) <= set(range(10)):
            raise UserError(
                f"{self.title}: the files in {self.root / self.folder} hold {x.dtype} of shape {x.shape}, but must "
                f"hold uint8 (N, 3, 32, 32) with labels from 0 to 9: put those of {self.source} there"
            )
        images, labels = torch.from_numpy(np.ascontiguousarray(x)), torch.from_numpy(y.astype(np.int64))
        if split == "test":
            return images, labels
        if not 1 <= self.num_val < len(images):
            raise UserError(
                f"{self.title}: num_val is {self.num_val}, but must be from 1 to {len(images) - 1}, as there are "
                f"{len(images)} images in the training files"
            )
        order = torch.randperm(len(images), generator=stream(self.name))
        chosen = order[: -self.num_val] if split == "train" else order[-self.num_val :]
        return images[chosen], labels[chosen]

    def path(self, name: str) -> Path:
        """The path of one of the files; raises `UserError` if it is missing."""
        path = self.root / self.folder / name
        if not path.is_file():
            raise UserError(
                f"{self.title}: no {name} in {path.parent}; put the files of {self.source} there, unpacked (or name "
                "another folder of data sets in EBMLAB_DATA), or begin with configs/dsm_colours.yaml, which needs none"
            )
        return path


class CIFAR10(Colour32):
    """Photographs of ten kinds of things (Krizhevsky, 2009): 45,000 to train on, 5,000 to validate, 10,000 to test.

    The files are those of the Python version, in the folder cifar-10-batches-py/ of `root`, as torchvision has them.

    Args:
        batch_size: see `Colour32`.
        seed: see `Colour32`.
        root: see `Colour32`.
        num_val: see `Colour32`.

    Example:
        >>> CIFAR10(root="data").event_shape
        (3, 32, 32)
    """

    name = "cifar10"
    folder = "cifar-10-batches-py"
    source = "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz"

    def read(self, train: bool) -> tuple[np.ndarray, np.ndarray]:
        paths = [self.path(f"data_batch_{i}") for i in range(1, 6)] if train else [self.path("test_batch")]
        parts: list[Any] = [restricted_pickle.load(path, arrays=True) for path in paths]
        for path, part in zip(paths, parts, strict=True):
            if not (isinstance(part, dict) and isinstance(part.get("data"), np.ndarray) and "labels" in part):
                raise UserError(f"{self.title}: {path} holds no data and labels: put that of {self.source} there")
        rows = np.concatenate([part["data"].reshape(-1, 3, 32, 32) for part in parts])
        return rows, np.concatenate([np.asarray(part["labels"]) for part in parts])


class SVHN(Colour32):
    """House numbers, cropped to one digit (Netzer et al., 2011): 68,257 to train on, 5,000 to validate, 26,032 to test.

    The files train_32x32.mat and test_32x32.mat lie in the folder SVHN/ of `root`. The label of a 0, which is 10 in the
    files, is 0 here.

    Args:
        batch_size: see `Colour32`.
        seed: see `Colour32`.
        root: see `Colour32`.
        num_val: see `Colour32`.

    Example:
        >>> SVHN(root="data").event_shape
        (3, 32, 32)
    """

    name = "svhn"
    folder = "SVHN"
    source = "http://ufldl.stanford.edu/housenumbers"

    def read(self, train: bool) -> tuple[np.ndarray, np.ndarray]:
        path = self.path(f"{'train' if train else 'test'}_32x32.mat")
        with explained(f"{self.title}: {path} is damaged ({WHY}); put that of {self.source} there", ValueError):
            x, y = matlab.read(path, "X", "y")
        return np.moveaxis(x, (3, 2), (0, 1)) if x.ndim == 4 else x, y.flatten() % 10
