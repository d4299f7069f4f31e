"""A folder of pictures."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Literal

import torch
from pytorch_lightning.utilities import rank_zero_info
from torch import Tensor

from ebmlab.data.preprocessing import LEVELS, Binarize, Preprocessing
from ebmlab.datamodules.own_data import OwnData
from ebmlab.datamodules.scaling import Form
from ebmlab.domains import Binary, Real
from ebmlab.errors import UserError
from ebmlab.io.progress import Meter
from ebmlab.numerics.launch import launched_rank
from ebmlab.reading.pictures import DARK, SUFFIXES, files_in, losses, read_picture, too_dark

NAMES = {"train": ("train", "training"), "val": ("val", "valid", "validation"), "test": ("test", "testing")}


class ImageFolder(OwnData):
    """A folder of pictures, PNG, JPEG and the like; where all of them lie in subfolders, these are their labels.

    Linked folders are read, and hidden files and folders left out. Transparent parts become white. Of several frames or
    pages the first is taken. What is left out is counted when training begins.

    Where the folder has a subfolder `train`, it is the training split. `val` and `test` are the other splits if they
    are there. Their subfolders are the labels. Pictures are scaled until they cover `size`, and their centre is cut
    out. Pixels are divided by 255, then standardised by channel, or binarised.

    Args:
        root: the folder.
        size: height and width of the images, or one number for both.
        channels: 1, grey, or 3, colours.
        standardize: give each channel mean 0 and variance 1; does nothing with `binarize`.
        binarize: black and white: true, split at half intensity, or dynamic, see `TensorDataModule`.
        val_fraction: part of the training images that validates, where there is no folder `val`.
        test_fraction: part of the training images that tests, where there is no folder `test`.
        split_seed: of the choice of these parts.
        batch_size: images per batch and process.
        seed: of the order of the training batches.

    Example:
        >>> from PIL import Image
        >>> root = Path("pictures")
        >>> root.mkdir()
        >>> for i in range(20):
        ...     Image.new("L", (12, 9), color=10 * i).save(root / f"{i}.png")
        >>> data = ImageFolder("pictures", size=8, batch_size=4)
        >>> next(iter(data.train_dataloader())).shape
        torch.Size([4, 1, 8, 8])
    """

    domains = (Real, Binary)

    def __init__(
        self,
        root: str,
        size: int | Sequence[int] = 32,
        *,
        channels: Literal[1, 3] = 1,
        standardize: bool = True,
        binarize: Binarize = False,
        val_fraction: float = 0.1,
        test_fraction: float = 0.1,
        split_seed: int = 0,
        batch_size: int = 100,
        seed: int = 0,
    ) -> None:
        self.save_hyperparameters(logger=False)
        sizes = (size, size) if isinstance(size, int) else tuple(size)
        if len(sizes) != 2 or min(sizes) < 1 or channels not in (1, 3):
            raise UserError(
                f"ImageFolder: size is {size} and channels {channels}; size must be one or two numbers of at least 1, "
                "channels 1 or 3"
            )
        form = Form("binary" if binarize else "real", standardize, binarize, LEVELS)
        super().__init__((channels, *sizes), form, val_fraction, test_fraction, split_seed, batch_size, seed)
        self.folder = Path(root).expanduser()
        if not self.folder.is_dir():
            raise UserError(f"ImageFolder: there is no folder {self.folder}")
        self.name = self.folder.absolute().name
        self._listed: dict[str, tuple[list[Path], list[Path]]] = {}
        self._notes: Counter[str] = Counter()
        self._deep = False  # whether pictures of 16 bits were read
        self.classes = self._classes()
        self.num_classes = len(self.classes) or None

    def count(self, split: str) -> int | None:
        return None if self._place(split) is None else len(self._paths(split))

    def take(self, split: str, index: Tensor) -> tuple[Tensor, Tensor | None]:
        paths = [self._paths(split)[i] for i in index.tolist()]
        images = torch.empty(len(paths), *self.raw_shape, dtype=torch.uint8)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            read = pool.map(partial(read_picture, shape=self.raw_shape), paths)
            meter = Meter(f"reading {split} pictures", "picture", len(paths), shown=not launched_rank())
            for i, picture in enumerate(meter.along(read)):
                images[i] = picture.pixels
                self._notes += losses(picture)
                self._deep |= picture.deep
        if not self.classes:
            return images, None
        place = self._place(split)
        assert place is not None
        names = [path.relative_to(place).parts[0] for path in paths]
        if unknown := set(names) - set(self.classes):
            raise UserError(f"ImageFolder: {place} has the label {min(unknown)}, which the training images lack")
        return images, torch.tensor([self.classes.index(name) for name in names])

    def announce(self) -> None:
        """Also says what was left out."""
        super().announce()
        others = Counter(p.suffix.lower() or p.name for split in self._listed for p in self._files(split)[1])
        notes = [f"{n} {what}" for what, n in self._notes.items()]
        if others:
            kinds = ", ".join(f"{n} {suffix}" for suffix, n in others.most_common(5))
            notes.append(f"{others.total()} files are no pictures by their names and left out ({kinds})")
        if notes:
            rank_zero_info(f"{self.title}: {'; '.join(notes)}")

    @property
    def scaling(self) -> Preprocessing:
        """Also refuses pictures that are so dark that little or nothing of them would be left."""
        known, found = self._scaling is not None, super().scaling
        high = 255.0 if known else float(self.sample().max())
        if self.form.binarize and high <= LEVELS / 2:
            raise UserError(
                f"{self.title}, train split: the pictures' levels go up to {high:g} of 255, so that all bits would be "
                "0: brighten the pictures, or take Arrays, which has the option max_value"
            )
        if self._deep and high < DARK:
            raise UserError(f"{self.title}, train split: {too_dark(high)}")
        return found

    def _place(self, split: str) -> Path | None:
        """The folder of the pictures that a split has of its own."""
        own, train = (
            next((self.folder / name for name in NAMES[k] if (self.folder / name).is_dir()), None)
            for k in (split, "train")
        )
        return own if train is not None else self.folder if split == "train" else None

    def _paths(self, split: str) -> list[Path]:
        paths = self._files(split)[0]
        if not paths:
            raise UserError(f"ImageFolder: there is no picture in {self._place(split)} ({', '.join(SUFFIXES)})")
        return paths

    def _files(self, split: str) -> tuple[list[Path], list[Path]]:
        """The pictures of a split, and other files beside them."""
        if split not in self._listed:
            place = self._place(split)
            assert place is not None
            files = sorted(files_in(place))
            pictures = [path for path in files if path.suffix.lower() in SUFFIXES]
            self._listed[split] = pictures, [path for path in files if path.suffix.lower() not in SUFFIXES]
        return self._listed[split]

    def _classes(self) -> list[str]:
        """The names of the subfolders of the training images, if every image lies in one."""
        place = self._place("train")
        assert place is not None
        parts = [path.relative_to(place).parts for path in self._paths("train")]
        return sorted({p[0] for p in parts}) if all(len(p) > 1 for p in parts) else []
