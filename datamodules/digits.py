"""Scikit-learn's handwritten digits, 8x8, which come with scikit-learn and need no download."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
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
            table = _table()
        begin, end = _BOUNDS[split]
        images, labels = _shuffled(table)
        return images[begin:end].clone(), labels[begin:end].clone()


def _table() -> Path:
    """The file in scikit-learn's package, whose import would take as long as that of torch and the Trainer."""
    spec = find_spec("sklearn")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("No module named 'sklearn'", name="sklearn")
    return Path(spec.origin).parent / "datasets" / "data" / "digits.csv.gz"


@cache
def _shuffled(table: Path) -> tuple[Tensor, Tensor]:
    """All images and labels in the order of the splits: rows of 64 pixels and a label."""
    if table.exists():
        rows = np.loadtxt(table, delimiter=",")
        pixels, labels = rows[:, :64].reshape(-1, 8, 8), rows[:, 64]
    else:  # scikit-learn knows where it is
        from sklearn.datasets import load_digits

        bunch = load_digits()
        pixels, labels = bunch.images, bunch.target
    order = torch.randperm(len(labels), generator=stream("digits"))
    return torch.from_numpy(pixels).byte().unsqueeze(1)[order], torch.from_numpy(labels).long()[order]
