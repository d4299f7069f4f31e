"""Scikit-learn's handwritten digits in colours, which need no download."""

from __future__ import annotations

import torch
from torch import Tensor

from ebmlab.datamodules.digits import Digits
from ebmlab.datamodules.tensor_datamodule import TensorDataModule
from ebmlab.numerics.streams import stream

_INKS = ((0.95, 0.85, 0.2), (0.9, 0.25, 0.2), (0.2, 0.75, 0.35), (0.25, 0.5, 0.95))  # yellow, red, green, blue
_DARK = 0.25  # brightness of the paper, which has one of the other colours


class ColourDigits(TensorDataModule):
    """The 1,797 images of `Digits`, 8x8, in colours: a bright ink on dark paper of another colour.

    There are four inks, each as likely as the others, and for each three papers. A model thus has to draw one digit in
    two colours that fit each other. The splits are those of `Digits`, and colours are the same in every run.

    Args:
        batch_size: images per batch and process.
        seed: of the order of the training batches.

    Example:
        >>> data = ColourDigits(batch_size=100)
        >>> next(iter(data.train_dataloader())).shape
        torch.Size([100, 3, 8, 8])
    """

    name = "colour_digits"
    num_classes = 10
    mean, std = (), ()

    def __init__(self, batch_size: int = 128, seed: int = 0) -> None:
        self.save_hyperparameters(logger=False)
        super().__init__((3, 8, 8), batch_size, seed=seed)

    def load(self, split: str) -> tuple[Tensor, Tensor]:
        """Images `(N, 3, 8, 8)`, uint8 from 0 to 255, and labels `(N,)`."""
        grey, labels = Digits().load(split)
        generator, n, colours = stream("colour_digits", split), len(grey), torch.tensor(_INKS)
        ink = torch.randint(len(_INKS), (n,), generator=generator)
        paper = (ink + torch.randint(1, len(_INKS), (n,), generator=generator)) % len(_INKS)
        front, back = (c.view(n, 3, 1, 1) for c in (colours[ink], _DARK * colours[paper]))
        share = grey / Digits.max_value
        return (255 * (share * front + (1 - share) * back)).round().byte(), labels
