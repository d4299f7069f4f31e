"""Published files, which are downloaded completely or not at all and verified by their checksum."""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

from ebmlab.data.preprocessing import Binarize
from ebmlab.datamodules.roots import data_root
from ebmlab.datamodules.tensor_datamodule import TensorDataModule
from ebmlab.errors import UserError, one_line
from ebmlab.io.files import whole

_TIMEOUT = 10.0  # seconds without an answer before a server counts as unreachable


@dataclass(frozen=True)
class PublishedFile:
    """A file that can be downloaded.

    Attributes:
        name: of the file in its folder.
        urls: its addresses, the publisher's first.
        checksum: `sha256:...`, `md5:...`, or `git:...`, the id that git gives to a file's content.
    """

    name: str
    urls: tuple[str, ...]
    checksum: str

    def download(self, folder: Path) -> None:
        """Downloads the file into `folder`, from the first address that works; raises `OSError` if none does."""
        reasons = []
        for url in self.urls:
            try:
                with whole(folder / self.name) as path:
                    _fetch(url, path)
                    if (found := checksum(path, self.checksum.partition(":")[0])) != self.checksum:
                        raise OSError(f"it has checksum {found}, the published file {self.checksum}")
                return
            except Exception as error:
                reasons.append(f"{url}: {one_line(error)}")
        raise OSError("; ".join(reasons))


class PublishedImages(TensorDataModule):
    """Images of 28x28 pixels from one published file or more, in a folder named after the class.

    Args:
        batch_size: images per batch and process.
        seed: of the order of the training batches.
        root: folder of the data sets.
        download: download the files if they are missing.
        binarize: see `TensorDataModule`.
    """

    files: tuple[PublishedFile, ...]

    def __init__(self, batch_size: int, seed: int, root: str | None, download: bool, binarize: Binarize) -> None:
        super().__init__((1, 28, 28), batch_size, seed=seed, binarize=binarize)
        self.root = data_root(root)
        self.download = download

    @property
    def folder(self) -> Path:
        """The folder of the files."""
        return self.root / type(self).__name__

    def prepare_data(self) -> None:
        """Downloads missing files if `download` is set; fails within seconds if there is no network."""
        for file in self.files:
            if (self.folder / file.name).is_file():
                continue
            if not self.download:
                raise self._missing(file, "download is off")
            try:
                file.download(self.folder)
            except OSError as error:
                raise self._missing(file, f"the download failed ({error})") from error

    def path(self, file: PublishedFile) -> Path:
        """The path of a file; raises `UserError` if it is missing."""
        if not (self.folder / file.name).is_file():
            raise self._missing(file, "prepare_data() would look for it")
        return self.folder / file.name

    def damaged(self, path: Path, why: str) -> UserError:
        """The error to raise if a file does not hold what was published."""
        return UserError(
            f"{type(self).__name__}: {path} is damaged ({why}); delete it and it is fetched again, or put a good one "
            "there"
        )

    def _missing(self, file: PublishedFile, why: str) -> UserError:
        return UserError(
            f"{type(self).__name__}: no {file.name} in {self.folder} and {why}; put {file.urls[0]} there (or name "
            "another folder of data sets in EBMLAB_DATA), or begin with configs/ebm_digits_cd.yaml, which needs no "
            "download"
        )


def checksum(path: Path, kind: str) -> str:
    """The checksum of a file as `PublishedFile` writes it, `kind:hexadecimal`."""
    hasher = hashlib.sha1(b"blob %d\0" % path.stat().st_size) if kind == "git" else hashlib.new(kind)
    with path.open("rb") as file:
        while chunk := file.read(2**20):
            hasher.update(chunk)
    return f"{kind}:{hasher.hexdigest()}"


def _fetch(url: str, path: Path) -> None:
    with urlopen(url, timeout=_TIMEOUT) as answer, path.open("wb") as file:
        shutil.copyfileobj(answer, file)
