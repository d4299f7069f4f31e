"""EMNIST: handwritten digits and letters in MNIST's format."""

from __future__ import annotations

from typing import Any, Literal

from torch import Tensor

from ebmlab.data.preprocessing import Binarize
from ebmlab.datamodules.mnist import MNIST
from ebmlab.settings import require_choice

_NUM_CLASSES = {"mnist": 10, "digits": 10, "letters": 26, "balanced": 47, "bymerge": 47, "byclass": 62}


class EMNIST(MNIST):
    """Handwritten digits and letters (Cohen et al., 2017), 28x28 and upright, with MNIST's options and splits.

    The eMNIST of the ACS paper (Pynadath et al., 2024) is, according to its published code, `subset: mnist`, `binarize:
    true`. It has 60,000 digits to train on, none of them held out, and 10,000 to test. The publisher's files hold
    transposed images, which are transposed back here. Mean and standard deviation are measured on the training images.

    Args:
        batch_size: images per batch and process.
        seed: of the order of the training batches, and of their draws.
        root: folder of the data sets; the files are in its EMNIST/raw/. By default $EBMLAB_DATA, else data/ in the
            working directory.
        download: download the files (560 MB, all subsets) if they are missing.
        num_val: as for MNIST.
        num_train: as for MNIST.
        binarize: as for MNIST. With dynamic binarisation, the validation images are also those that the publisher
            suggests, in the subsets for which it does (mnist, digits, letters, balanced).
        subset: mnist or digits (10 classes), letters (26), balanced or bymerge (47), byclass (62).

    Example:
        >>> EMNIST(root="data", subset="letters").num_classes
        26
    """

    name = "emnist"
    mean = std = ()
    source = "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip"

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
        subset: Literal["mnist", "digits", "letters", "balanced", "bymerge", "byclass"] = "mnist",
    ) -> None:
        super().__init__(
            batch_size, seed, root=root, download=download, num_val=num_val, num_train=num_train, binarize=binarize
        )
        require_choice("EMNIST", _NUM_CLASSES, subset=subset)
        self.subset = subset
        self.num_classes = _NUM_CLASSES[subset]

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(
            f"emnist-{self.subset}-{part}-{kind}-ubyte"
            for part in ("train", "test")
            for kind in ("images-idx3", "labels-idx1")
        )

    def _read(self, train: bool) -> tuple[Tensor, Tensor]:
        images, labels = super()._read(train)
        return images.mT.contiguous(), labels - int(self.subset == "letters")  # numbered from 1 there

    def download_by_torchvision(self, **options: Any) -> None:
        super().download_by_torchvision(split=self.subset, **options)
