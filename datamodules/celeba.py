"""CelebA: faces, cropped and resized once and then read from one file."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from ebmlab.data.interface import SPLITS
from ebmlab.data.preprocessing import Preprocessing, moments
from ebmlab.datamodules import celeba_files as files
from ebmlab.datamodules.roots import data_root
from ebmlab.datamodules.tensor_datamodule import TensorDataModule
from ebmlab.errors import UserError


class CelebA(TensorDataModule):
    """Aligned faces in colour: the centre 140x140, resized. The splits are the official ones.

    `size=64, num_images=2000` corresponds to CelebA-2K-64 of the GRBM paper, which draws its 2,000 training images at
    random. Here they are the first 2,000 of the official training split, so that everyone has the same images.

    The resized images and the training images' mean and standard deviation are cached beside the originals.

    Args:
        size: height and width, 32 or 64.
        num_images: number of images to use from the beginning of each split; all by default.
        batch_size: images per batch and process.
        seed: of the order of the training batches.
        root: folder of the data sets; the files are in its celeba/, laid out as torchvision has them. By default
            $EBMLAB_DATA, else data/ in the working directory.
        download: download the files (1.4 GB from Google Drive, needs gdown) if they are missing.

    Example:
        >>> CelebA(size=64, root="data").event_shape
        (3, 64, 64)
    """

    name = "celeba"

    def __init__(
        self,
        size: int = 32,
        num_images: int | None = None,
        *,
        batch_size: int = 512,
        seed: int = 0,
        root: str | None = None,
        download: bool = False,
    ) -> None:
        self.save_hyperparameters(logger=False)
        super().__init__((3, size, size), batch_size, seed=seed)
        if size not in (32, 64):
            raise UserError(f"CelebA: size is {size}; it must be 32 or 64")
        if num_images is not None and num_images < 1:
            raise UserError(f"CelebA: num_images is {num_images}; it must be at least 1, or null for all")
        self.size = size
        self.num_images = num_images
        self.root = data_root(root)
        self.download = download

    @property
    def folder(self) -> Path:
        """The folder of the images and of the file that assigns them to splits."""
        return self.root / "celeba"

    def cache(self, split: str) -> Path:
        """The file that holds the split's resized images."""
        number = "all" if self.num_images is None else self.num_images
        return self.folder / f"ebmlab_{split}_{self.size}px_{number}.pt"

    def prepare_data(self) -> None:
        """Resizes and caches the images; downloads them first if they are missing and `download` is set."""
        todo = [split for split in SPLITS if not self.cache(split).is_file()]
        if not todo:
            return
        if not self._originals_exist():
            self._fetch()
        names = files.listed(self.folder)
        for split in todo:
            data = files.faces(self.folder, names[split][: self.num_images], self.size)
            content = {"images": data}
            if split == "train":
                mean, std = moments(data, Preprocessing(self.event_shape, self.max_value))
                content["mean"], content["std"] = torch.tensor([mean, std], dtype=torch.float64)
            files.save(content, self.cache(split))

    def load(self, split: str) -> tuple[Tensor, None]:
        """The cached images `(N, 3, size, size)`, uint8."""
        return self._cached(split)["images"], None

    def moments(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Mean and standard deviation of the training images in [0, 1] per channel, from the cache."""
        if len(self.mean) == 1:
            cached = self._cached("train")
            self.mean, self.std = tuple(cached["mean"].tolist()), tuple(cached["std"].tolist())
        return self.mean, self.std

    def _cached(self, split: str) -> dict[str, Tensor]:
        if not self.cache(split).is_file():
            if not self._originals_exist():
                raise self._missing("prepare_data() would look for them")
            raise UserError(f"CelebA: {self.cache(split)} is not there; call prepare_data() first, which makes it")
        return files.read(self.cache(split))

    def _originals_exist(self) -> bool:
        return (self.folder / files.PARTITION).is_file() and (self.folder / files.IMAGES).is_dir()

    def _fetch(self) -> None:
        if not self.download:
            raise self._missing("download is off")
        import torchvision.datasets

        try:
            torchvision.datasets.CelebA(self.root, download=True)
        except Exception as error:
            reason = " ".join(str(error).split())[:200]
            raise self._missing(f"the download failed ({reason})") from error

    def _missing(self, why: str) -> UserError:
        return UserError(
            f"CelebA: no {files.PARTITION} and {files.IMAGES}/ (from img_align_celeba.zip) in {self.folder} and "
            f"{why}; put both there, or begin with configs/grbm_digits.yaml, which needs no download"
        )
