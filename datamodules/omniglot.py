"""Omniglot at 28x28, in the version on which generative models are compared."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ebmlab.data.preprocessing import Binarize
from ebmlab.datamodules import matlab
from ebmlab.datamodules.published import PublishedFile, PublishedImages
from ebmlab.domains import Binary, Real
from ebmlab.errors import WHY, explained

NUM_TRAIN, NUM_VAL, NUM_TEST = 23_000, 1_345, 8_070
_FILE = PublishedFile(
    "chardata.mat",
    (
        "https://raw.githubusercontent.com/yburda/iwae/78a6075484bd7dd6f47a4bb9880d2295bc7a5220/datasets/OMNIGLOT/"
        "chardata.mat",
    ),
    "git:016a3536ffe5e1d38e42563a18d7a78bfaf643ec",
)


class Omniglot(PublishedImages):
    """Handwritten characters of 50 alphabets, 28x28: 23,000 to train on, 1,345 to validate, 8,070 to test.

    The file and the splits are those of Burda et al. (2016, Importance Weighted Autoencoders), grey in [0, 1]. The
    validation images are the last 1,345 of their permutation of the training characters. The deep EBMs of Grathwohl et
    al. (2021) and Zhang et al. (2022) use `binarize: dynamic`, and another permutation in each run. The published code
    of the ACS paper (Pynadath et al., 2024) trains and tests its RBMs on other images of Omniglot. They are the
    background set of torchvision, resized and thresholded, so its numbers do not belong to these splits. Labels are
    alphabets.

    A downloaded file must have git's checksum of the file in the authors' repository. A file that is already there need
    not have it, but must hold the published numbers of images and values in [0, 1].

    Args:
        batch_size: images per batch and process.
        seed: of the order of the training batches, and of their draws.
        root: folder of the data sets; the file is in its Omniglot/. By default $EBMLAB_DATA, else data/ in the working
            directory.
        download: download the file if it is missing.
        binarize: true: pixels above half intensity are 1, the others 0. dynamic: pixels are 1 with their intensity as
            probability, drawn again for each training batch, and once for validation and test images.

    Example:
        >>> Omniglot(root="data", binarize="dynamic").num_classes
        50
    """

    domains = (Real, Binary)
    name = "omniglot"
    num_classes = 50
    mean = std = ()
    files = (_FILE,)

    def __init__(
        self,
        batch_size: int = 100,
        seed: int = 0,
        *,
        root: str | None = None,
        download: bool = True,
        binarize: Binarize = False,
    ) -> None:
        self.save_hyperparameters(logger=False)
        super().__init__(batch_size, seed, root, download, binarize)

    def load(self, split: str) -> tuple[Tensor, Tensor]:
        """Images `(N, 1, 28, 28)`, float32 in [0, 1], and alphabets `(N,)` from 0 to 49."""
        data, labels = self._read("test" if split == "test" else "")
        if split == "test":
            return data, labels
        order = torch.from_numpy(np.random.RandomState(123).permutation(len(data)))  # of the published code
        chosen = order[:NUM_TRAIN] if split == "train" else order[NUM_TRAIN:]
        return data[chosen], labels[chosen]

    def _read(self, prefix: str) -> tuple[Tensor, Tensor]:
        """Images and alphabets from the variables data and target, or testdata and testtarget, of the file."""
        path, count = self.path(_FILE), NUM_TEST if prefix else NUM_TRAIN + NUM_VAL
        with explained(self.damaged(path, WHY), ValueError):
            data, target = matlab.read(path, f"{prefix}data", f"{prefix}target")
        if data.shape != (784, count) or target.shape != (self.num_classes, count):
            raise self.damaged(path, f"{prefix}data and {prefix}target have shapes {data.shape} and {target.shape}")
        if not (data.min() >= 0 and data.max() <= 1):
            raise self.damaged(path, f"{prefix}data has values outside [0, 1]")
        return matlab.images(data.T.astype(np.float32)), torch.from_numpy(target.argmax(0))
