"""Silhouettes of the objects of Caltech-101."""

from __future__ import annotations

import torch
from torch import Tensor

from ebmlab.datamodules import matlab
from ebmlab.datamodules.published import PublishedFile, PublishedImages
from ebmlab.domains import Binary
from ebmlab.errors import WHY, explained

SIZES = {"train": 4_100, "val": 2_264, "test": 2_307}
_NAME = "caltech101_silhouettes_28_split1.mat"
_FILE = PublishedFile(
    _NAME, (f"https://people.cs.umass.edu/~marlin/data/{_NAME}",), "md5:4483e9c14b188fd09937f9ea6f9ea777"
)


class CaltechSilhouettes(PublishedImages):
    """Filled outlines of objects of 101 kinds, 28x28, binary: 4,100 to train on, 2,264 to validate, 2,307 to test.

    The file and the splits are those of Marlin et al. (2010, Inductive Principles for Restricted Boltzmann Machine
    Learning). In the file, objects are 0 on a background of 1. Here objects are 1, as in the code of the EBM papers
    (Grathwohl et al., 2021; Zhang et al., 2022; Pynadath et al., 2024).

    A downloaded file must have the checksum that DeepMind's NEVIS benchmark lists (its entry for the unsplit file of
    the same page was verified). A file that is already there need not have it, but must hold the published numbers of
    images and only 0 and 1.

    Args:
        batch_size: images per batch and process.
        seed: of the order of the training batches.
        root: folder of the data sets; the file is in its CaltechSilhouettes/. By default $EBMLAB_DATA, else data/ in
            the working directory.
        download: download the file if it is missing.

    Example:
        >>> CaltechSilhouettes(root="data").event_shape
        (1, 28, 28)
    """

    domains = (Binary,)
    name = "caltech_silhouettes"
    num_classes = 101
    max_value = 1.0
    files = (_FILE,)

    def __init__(self, batch_size: int = 100, seed: int = 0, *, root: str | None = None, download: bool = True) -> None:
        self.save_hyperparameters(logger=False)
        super().__init__(batch_size, seed, root, download, binarize=True)

    def load(self, split: str) -> tuple[Tensor, Tensor]:
        """Images `(N, 1, 28, 28)`, uint8, 0 or 1, and kinds `(N,)` from 0 to 100."""
        path = self.path(_FILE)
        with explained(self.damaged(path, WHY), ValueError):
            data, labels = matlab.read(path, f"{split}_data", f"{split}_labels")
        if data.shape != (SIZES[split], 784) or labels.size != SIZES[split]:
            raise self.damaged(path, f"{split}_data and {split}_labels have shapes {data.shape} and {labels.shape}")
        if not ((data == 0) | (data == 1)).all():
            raise self.damaged(path, f"{split}_data has values other than 0 and 1")
        if not (labels.min() >= 1 and labels.max() <= self.num_classes):
            raise self.damaged(path, f"{split}_labels has values outside 1 to {self.num_classes}")
        return matlab.images(1 - data.astype("uint8")), torch.from_numpy(labels.flatten().astype("int64")) - 1
