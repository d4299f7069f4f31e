"""MNIST, FashionMNIST and KMNIST, which torchvision downloads."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ebmlab.data.preprocessing import Binarize
from ebmlab.datamodules.roots import data_root
from ebmlab.datamodules.tensor_datamodule import TensorDataModule
from ebmlab.domains import Binary, Real
from ebmlab.errors import WHY, UserError, explained, one_line
from ebmlab.numerics.streams import stream
from ebmlab.reading.idx import read_idx

FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
_TIMEOUT = 10.0  # seconds without an answer before a mirror counts as unreachable


class MNIST(TensorDataModule):
    """Handwritten digits, 28x28: 55,000 to train on, 5,000 of the training file to validate, 10,000 to test.

    The validation images are the last `num_val` of one fixed permutation of the training file, and the training images
    are from its beginning. Neither depends on the seed, and the validation images do not depend on `num_train`.

    Dynamic MNIST (Salakhutdinov and Murray, 2008) is `binarize: dynamic`. Its splits are those of Tomczak and Welling
    (2018, VAE with a VampPrior). The deep EBMs of Grathwohl et al. (2021) and Zhang et al. (2022) use them as well.
    They keep the file's order: the first 50,000 images are for training, the last 10,000 for validation.

    Args:
        batch_size: images per batch and process.
        seed: of the order of the training batches, and of their draws.
        root: folder of the data sets; the files are in its MNIST/raw/. By default $EBMLAB_DATA, else data/ in the
            working directory.
        download: download the files if they are missing.
        num_val: number of images of the training file that are held out for validation. The default is 5,000, and with
            dynamic binarisation as many as there are test images.
        num_train: number of training images; by default all that remain.
        binarize: true: pixels above half intensity are 1, the others 0. dynamic: pixels are 1 with their intensity as
            probability, drawn again for each training batch, and once for validation and test images.

    Example:
        >>> MNIST(root="data", binarize=True).domains[0].__name__
        'Binary'
    """

    domains = (Real, Binary)
    name = "mnist"
    num_classes = 10
    mean: tuple[float, ...] = (0.1307,)
    std: tuple[float, ...] = (0.3081,)
    source = "https://ossci-datasets.s3.amazonaws.com/mnist"

    def __init__(
        self,
        batch_size: int = 512,
        seed: int = 0,
        *,
        root: str | None = None,
        download: bool = True,
        num_val: int | None = None,
        num_train: int | None = None,
        binarize: Binarize = False,
    ) -> None:
        self.save_hyperparameters(logger=False)
        super().__init__((1, 28, 28), batch_size, seed=seed, binarize=binarize)
        self.root = data_root(root)
        self.download = download
        self.num_val = num_val
        self.num_train = num_train

    @property
    def files(self) -> tuple[str, ...]:
        """The names of the files: training images and labels, test images and labels."""
        return FILES

    @property
    def folder(self) -> Path:
        """The folder of the four files."""
        return self.root / type(self).__name__ / "raw"

    def prepare_data(self) -> None:
        """Downloads missing files if `download` is set; fails within seconds if there is no network."""
        missing = self._not_there()
        if not missing:
            return
        if not self.download:
            raise self._missing(missing, "download is off")
        made = [folder for folder in (self.folder, *self.folder.parents) if not folder.exists()]
        try:
            with _socket_timeout(_TIMEOUT):
                self.download_by_torchvision(train=missing[0] in self.files[:2])
        except Exception as error:
            raise self._missing(missing, f"the download failed ({one_line(error)})") from error
        finally:
            with suppress(OSError):  # a failed download leaves no empty folders
                for folder in made:
                    folder.rmdir()

    def load(self, split: str) -> tuple[Tensor, Tensor]:
        """Images `(N, 1, 28, 28)`, uint8, and labels `(N,)`."""
        images, labels = self._read(train=split != "test")
        if split == "test":
            return images, labels
        if self.binarize == "dynamic":
            order, num_val = torch.arange(len(images)), len(self._read(train=False)[0])
        else:
            order, num_val = torch.randperm(len(images), generator=stream("mnist")), 5000
        if self.num_val is not None:
            num_val = self.num_val
        available = len(images) - num_val
        num_train = available if self.num_train is None else self.num_train
        if num_val < 1 or not 1 <= num_train <= available:
            raise UserError(
                f"{type(self).__name__}: num_val {num_val} and num_train {self.num_train} do not fit the "
                f"{len(images)} images of the training file; both must be at least 1 and together at most {len(images)}"
            )
        chosen = order[:num_train] if split == "train" else order[available:]
        return images[chosen], labels[chosen]

    def _read(self, train: bool) -> tuple[Tensor, Tensor]:
        if missing := self._not_there():
            raise self._missing(missing, "prepare_data() would look for them")
        pair = self.files[:2] if train else self.files[2:]
        damaged = (
            f"{type(self).__name__}: {' or '.join(pair)} in {self.folder} is damaged ({WHY}); "
            "delete both and they are fetched again, or put good ones there"
        )
        with explained(damaged, (OSError, ValueError)):
            images, labels = read_idx(self.folder / pair[0], 3), read_idx(self.folder / pair[1], 1)
            if len(images) != len(labels):
                raise ValueError(f"{len(images)} images, but {len(labels)} labels")
        return images.unsqueeze(1), labels.long()

    def download_by_torchvision(self, **options: Any) -> None:
        import torchvision.datasets  # here, because it takes longer to load than torch

        getattr(torchvision.datasets, type(self).__name__)(self.root, download=True, **options)

    def _not_there(self) -> list[str]:
        return [file for file in self.files if not (self.folder / file).is_file()]

    def _missing(self, missing: list[str], why: str) -> UserError:
        return UserError(
            f"{type(self).__name__}: no {', '.join(missing)} in {self.folder} and {why}; put the files of "
            f"{self.source} there, unpacked (or name another folder in EBMLAB_DATA), or begin with "
            "configs/grbm_digits.yaml, which needs no download"
        )


class FashionMNIST(MNIST):
    """Pictures of clothes in MNIST's format, with MNIST's options; the files are in FashionMNIST/raw/.

    Example:
        >>> FashionMNIST(root="data").event_shape
        (1, 28, 28)
    """

    name = "fashion_mnist"
    mean = (0.2860,)
    std = (0.3530,)
    source = "https://github.com/zalandoresearch/fashion-mnist"


class KMNIST(MNIST):
    """Cursive Japanese characters (Clanuwat et al., 2018) in MNIST's format, with its options; in KMNIST/raw/.

    The kMNIST of the ACS paper (Pynadath et al., 2024) has `binarize: true`, according to its published code.

    Example:
        >>> KMNIST(root="data").event_shape
        (1, 28, 28)
    """

    name = "kmnist"
    mean = (0.1918,)
    std = (0.3483,)
    source = "https://github.com/rois-codh/kmnist"


@contextmanager
def _socket_timeout(seconds: float) -> Iterator[None]:
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(seconds)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)
