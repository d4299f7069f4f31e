"""Scikit-learn's handwritten digits, 8x8, which come with scikit-learn and need no download."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

from ebmlab.data.preprocessing import Binarize
from ebmlab.datamodules.tensor_datamodule import TensorDataModule
from ebmlab.domains import Binary, Real
from ebmlab.errors import explained
from ebmlab.numerics.streams import stream

_BOUNDS = {"train": (0, 1437), "val": (1437, 1617), "test": (1617, 1797)}


class Digits(TensorDataModule):
    """1,797 handwritten digits, 8x8, 17 grey levels: 1,437 to train on, 180 to validate, 180 to test.

    The split is one fixed permutation, the same for every seed.

    Args:
        batch_size: images per batch and process.
        seed: of the order of the training batches.
        binarize: true: pixels above half intensity are 1, the others 0. dynamic: pixels are 1 with their intensity as
            probability, drawn again for each training batch, and once for validation and test images.

    Example:
        >>> data = Digits(batch_size=100, binarize=True)
        >>> next(iter(data.train_dataloader())).shape
        torch.Size([100, 1, 8, 8])
    """

    domains = (Real, Binary)
    name = "digits"
    num_classes = 10
    max_value = 16.0
    mean = (0.305769,)
    std = (0.376497,)

    def __init__(self, batch_size: int = 128, seed: int = 0, *, binarize: Binarize = False) -> None:
        self.save_hyperparameters(logger=False)
        super().__init__((1, 8, 8), batch_size, seed=seed, binarize=binarize)

    def load(self, split: str) -> tuple[Tensor, Tensor]:
        """Images `(N, 1, 8, 8)`, uint8 from 0 to 16, and labels `(N,)`."""
        with explained("Digits needs scikit-learn, which is not installed: pip install scikit-learn", ImportError):
            from sklearn.datasets import load_digits
        begin, end = _BOUNDS[split]
        images, labels = _shuffled(load_digits)
        return images[begin:end].clone(), labels[begin:end].clone()


@cache
def _shuffled(load: Callable[[], Any]) -> tuple[Tensor, Tensor]:
    """All images and labels in the order of the splits. Scikit-learn would parse its table again for each."""
    bunch = load()
    order = torch.randperm(len(bunch.target), generator=stream("digits"))
    return torch.from_numpy(bunch.images).byte().unsqueeze(1)[order], torch.from_numpy(bunch.target).long()[order]
