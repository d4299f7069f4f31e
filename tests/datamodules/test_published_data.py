"""StaticMNIST, Omniglot and CaltechSilhouettes: reading, refusing and downloading files."""

from __future__ import annotations

import hashlib
import io
import re
import socket
import subprocess
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest
import scipy.io
import torch

from ebmlab.data.interface import SPLITS
from ebmlab.datamodules import CaltechSilhouettes, Omniglot, StaticMNIST, caltech_silhouettes, omniglot, static_mnist
from ebmlab.datamodules.published import PublishedFile, PublishedImages, checksum
from ebmlab.errors import UserError

SETS = [StaticMNIST, Omniglot, CaltechSilhouettes]


def pixels(split: str, n: int) -> torch.Tensor:
    """The pixels of the stand-ins that conftest.py writes."""
    return torch.tensor(np.random.default_rng(SPLITS.index(split)).integers(0, 2, (n, 784), dtype=np.uint8))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Contents by address, in place of the network; other addresses fail, and another time-out fails the test."""
    answers: dict[str, bytes] = {}

    def urlopen(url: str, timeout: float) -> io.BytesIO:
        assert timeout == 10.0
        if url not in answers:
            raise URLError(socket.gaierror("name or service\nnot known"))
        return io.BytesIO(answers[url])

    monkeypatch.setattr("ebmlab.datamodules.published.urlopen", urlopen)
    return answers


def test_static_mnist_is_the_file_and_its_cache_is_the_same(
    published_root: Path, small: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = StaticMNIST(root=str(published_root))
    text = {split: module.raw(split) for split in SPLITS}
    for split, n in small.items():
        assert torch.equal(text[split].view(-1, 784), pixels(split, n))  # row by row
        assert torch.equal(module.to_states(text[split]), text[split].float())
    assert not any(module.cache(split).exists() for split in SPLITS)
    module.prepare_data()
    assert module.cache("test").stat().st_size < 20 * 784
    monkeypatch.setattr("numpy.fromfile", None)
    for file in module.files:
        (module.folder / file.name).unlink()
    again = StaticMNIST(root=str(published_root))
    again.prepare_data()
    assert all(torch.equal(again.raw(split), text[split]) for split in SPLITS)
    module.cache("val").write_bytes(b"junk")
    with pytest.raises(UserError, match=r"StaticMNIST: .*ebmlab_val\.pt is damaged"):
        StaticMNIST(root=str(published_root)).setup("validate")


def test_no_cache_in_a_folder_that_cannot_be_written_to(
    published_root: Path, small: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_only(content: object, path: Path) -> None:
        raise PermissionError("read-only file system")

    monkeypatch.setattr("torch.save", read_only)
    module = StaticMNIST(root=str(published_root), batch_size=4)
    module.prepare_data()
    module.setup()
    assert len(list(module.folder.iterdir())) == 3


@pytest.mark.parametrize(
    "damage", [lambda t: t[:-9], lambda t: t.replace(b"1", b"2", 1), lambda t: t + b"0 1", lambda t: b"<html>", len]
)
def test_damaged_static_mnist_is_one_line(published_root: Path, small: dict[str, int], damage: object) -> None:
    path = published_root / "StaticMNIST" / "binarized_mnist_valid.amat"
    text = path.read_bytes()
    path.write_bytes(b"" if damage is len else damage(text))
    with pytest.raises(UserError, match=r"valid\.amat is damaged \(.*not 12 lines of 784 numbers 0 or 1\)") as caught:
        StaticMNIST(root=str(published_root)).prepare_data()
    assert "\n" not in str(caught.value)
    path.write_bytes(text.replace(b" \n", b"\r\n"))  # line ends of Windows
    StaticMNIST(root=str(published_root)).setup("validate")


def test_omniglot_is_upright_grey_and_split_as_published(published_root: Path, small: dict[str, int]) -> None:
    module = Omniglot(root=str(published_root))
    content = scipy.io.loadmat(published_root / "Omniglot" / "chardata.mat")
    order = np.random.RandomState(123).permutation(52)
    for split, prefix, chosen in (("train", "", order[:40]), ("val", "", order[40:]), ("test", "test", range(20))):
        for image, label, i in zip(module.raw(split), module.labels(split), chosen, strict=True):
            columns = content[f"{prefix}data"][:, i]  # pixel 28 x + y
            assert np.allclose(image[0, 3, 1], columns[28 * 1 + 3]) and np.allclose(image[0].T.flatten(), columns)
            assert int(label) == i % 50
    x = module.to_states(module.raw("train"))
    assert float(x.mean()) == pytest.approx(0, abs=1e-5) and float(x.std(correction=0)) == pytest.approx(1, abs=1e-5)


def test_caltech_is_upright_and_objects_are_one(published_root: Path, small: dict[str, int]) -> None:
    module = CaltechSilhouettes(root=str(published_root))
    for split, n in small.items():
        columns = pixels(split, n)  # the file holds 1 - pixels
        assert torch.equal(module.raw(split)[:, 0].mT.flatten(1), columns)
        assert torch.equal(module.labels(split), torch.arange(n) * 100 // n)
        assert torch.equal(module.to_states(module.raw(split)), module.raw(split).float())


@pytest.mark.parametrize(
    ("cls", "variable", "change", "message"),
    [
        (Omniglot, "data", lambda a: a[:, 1:], r"shapes \(784, 51\) and \(50, 52\)"),
        (Omniglot, "data", lambda a: a * 255, r"values outside \[0, 1\]"),
        (Omniglot, "data", lambda a: a * np.nan, r"values outside \[0, 1\]"),
        (Omniglot, "target", lambda a: a[:49], r"shapes \(784, 52\) and \(49, 52\)"),
        (Omniglot, "target", None, "no variable target"),
        (CaltechSilhouettes, "train_data", lambda a: a[1:], r"shapes \(39, 784\) and \(40, 1\)"),
        (CaltechSilhouettes, "train_data", lambda a: a * 2, "values other than 0 and 1"),
        (CaltechSilhouettes, "train_labels", lambda a: a - 1, "values outside 1 to 101"),
        (CaltechSilhouettes, "train_labels", None, "no variable train_labels"),
    ],
)
def test_other_content_is_one_line(
    cls: type[PublishedImages], variable: str, change: object, message: str, published_root: Path, small: object
) -> None:
    path = published_root / cls.__name__ / cls.files[0].name
    content = {k: v for k, v in scipy.io.loadmat(path).items() if k[0] != "_"}
    content = {k: (change(v) if change else None) if k == variable else v for k, v in content.items()}
    scipy.io.savemat(path, {k: v for k, v in content.items() if v is not None})
    with pytest.raises(UserError, match=f"{cls.__name__}: .*{path.name} is damaged .*{message}") as caught:
        cls(root=str(published_root), batch_size=1).setup("fit")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("damage", [b"", b"<html>not found</html>" * 99, "truncated"])
@pytest.mark.parametrize("cls", [Omniglot, CaltechSilhouettes])
def test_unreadable_files_are_one_line(
    cls: type[PublishedImages], damage: bytes | str, published_root: Path, small: object
) -> None:
    path = published_root / cls.__name__ / cls.files[0].name
    path.write_bytes(path.read_bytes()[:-700] if isinstance(damage, str) else damage)
    with pytest.raises(UserError, match=f"{re.escape(str(path))} is damaged") as caught:
        cls(root=str(published_root)).setup("test")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("cls", SETS)
def test_no_network_is_one_helpful_line(cls: type[PublishedImages], tmp_path: Path, server: object) -> None:
    module, first = cls(root=str(tmp_path)), cls.files[0]
    off = cls(root=str(tmp_path), download=False)
    for action, why in (
        (module.prepare_data, "the download failed"),
        (off.prepare_data, "download is off"),
        (lambda: cls(root=str(tmp_path)).setup("fit"), "prepare_data"),
    ):
        with pytest.raises(UserError, match=why) as caught:
            action()
        line = str(caught.value)
        assert "\n" not in line and first.name in line and str(tmp_path / cls.__name__) in line
        assert first.urls[0] in line and "EBMLAB_DATA" in line and "configs/ebm_digits_cd.yaml" in line
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_every_file_has_an_encrypted_address_and_a_checksum() -> None:
    files = [file for cls in SETS for file in cls.files]
    assert len(files) == 5
    for file in files:
        assert all(url.startswith("https://") and url.endswith(file.name) for url in file.urls)
        kind, value = file.checksum.split(":")
        assert len(value) == {"sha256": 64, "git": 40, "md5": 32}[kind] and int(value, 16)


def test_downloads_are_verified_whole_or_not_there(
    published_root: Path, tmp_path: Path, small: object, server: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    good = (published_root / "Omniglot" / "chardata.mat").read_bytes()
    digest = hashlib.sha256(good).hexdigest()
    file = PublishedFile("chardata.mat", ("https://a/chardata.mat", "https://b/chardata.mat"), f"sha256:{digest}")
    monkeypatch.setattr(Omniglot, "files", (file,))
    module = Omniglot(root=str(tmp_path / "new"), batch_size=4)
    server["https://a/chardata.mat"] = good[:-1]
    with pytest.raises(
        UserError, match=rf"a/chardata\.mat: it has checksum sha256:\w+, the .*sha256:{digest}; https://b"
    ):
        module.prepare_data()
    assert not module.folder.exists() or not list(module.folder.iterdir())
    server["https://b/chardata.mat"] = good  # the first address gives another file, the second the right one
    module.prepare_data()
    assert [path.name for path in module.folder.iterdir()] == ["chardata.mat"]
    assert (module.folder / "chardata.mat").read_bytes() == good
    server.clear()
    module.prepare_data()  # reads the file and needs no network
    module.setup()


def test_checksums_are_those_of_the_usual_programs(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)) * 9000)
    assert checksum(path, "md5") == f"md5:{hashlib.md5(path.read_bytes()).hexdigest()}"
    git = subprocess.run(["git", "hash-object", path], capture_output=True, text=True, check=True).stdout.strip()
    assert checksum(path, "git") == f"git:{git}"


def test_splits_have_the_published_sizes() -> None:
    """Marlin et al. (2010) for the silhouettes, Larochelle for the digits, Burda et al. (2016) for the characters."""
    assert (omniglot.NUM_TRAIN, omniglot.NUM_VAL, omniglot.NUM_TEST) == (23_000, 1_345, 8_070)
    assert caltech_silhouettes.SIZES == {"train": 4100, "val": 2264, "test": 2307}
    assert static_mnist.SIZES == {"train": 50_000, "val": 10_000, "test": 10_000}
