"""MNIST's files: found, missing, damaged; and the real ones where they are present."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from urllib.error import URLError

import pytest
import torch
import torchvision.datasets

from ebmlab.datamodules import MNIST, FashionMNIST
from ebmlab.datamodules.mnist import FILES
from ebmlab.errors import UserError

PLACES = [os.environ.get("EBMLAB_DATA"), Path(__file__).parents[2] / "data", Path(__file__).parents[3] / "shared/data"]
REAL = next((Path(p) for p in PLACES if p and (Path(p) / "MNIST" / "raw" / FILES[0]).is_file()), None)


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> list[float | None]:
    """Makes every download fail; returns the time-outs in force when it was tried."""
    timeouts = []

    def fail(*args: object, **kwargs: object) -> None:
        timeouts.append(socket.getdefaulttimeout())
        raise URLError("no route to host")

    monkeypatch.setattr("torchvision.datasets.mnist.download_and_extract_archive", fail)
    return timeouts


def number_in_file(module: MNIST, split: str) -> list[int]:
    return module.raw(split)[:, 0, 0, 0].tolist()


def test_validation_images_do_not_depend_on_the_options(data_folder: Path) -> None:
    root = str(data_folder)
    small = MNIST(root=root, num_val=12, num_train=20, seed=1)
    large = MNIST(root=root, num_val=12, seed=2)
    assert number_in_file(small, "val") == number_in_file(large, "val")
    assert number_in_file(small, "train") == number_in_file(large, "train")[:20]
    assert sorted(number_in_file(large, "train") + number_in_file(large, "val")) == list(range(60))
    assert number_in_file(large, "test") == list(range(20))
    assert large.labels("val").tolist() == [i % 10 for i in number_in_file(large, "val")]
    assert number_in_file(large, "val") != sorted(number_in_file(large, "val"))


@pytest.mark.parametrize(("num_val", "num_train"), [(60, None), (0, None), (12, 49), (12, 0), (5000, None)])
def test_sizes_that_do_not_fit_are_refused(data_folder: Path, num_val: int, num_train: int | None) -> None:
    with pytest.raises(UserError, match=f"num_val {num_val} and num_train {num_train} do not fit the 60 images"):
        MNIST(root=str(data_folder), num_val=num_val, num_train=num_train).setup("fit")


def test_root_is_option_then_environment_then_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EBMLAB_DATA", str(tmp_path))
    assert MNIST(root="elsewhere").folder == Path("elsewhere/MNIST/raw")
    assert FashionMNIST().folder == tmp_path / "FashionMNIST" / "raw"
    monkeypatch.delenv("EBMLAB_DATA")
    assert MNIST().folder == Path("data/MNIST/raw")


def test_present_files_are_not_downloaded(data_folder: Path, no_network: list[float | None]) -> None:
    MNIST(root=str(data_folder)).prepare_data()
    assert not no_network


@pytest.mark.parametrize("module_class", [MNIST, FashionMNIST])
def test_no_network_is_one_helpful_line(
    module_class: type[MNIST], tmp_path: Path, no_network: list[float | None]
) -> None:
    before = socket.getdefaulttimeout()
    with pytest.raises(UserError) as caught:
        module_class(root=str(tmp_path)).prepare_data()
    line = str(caught.value)
    assert "\n" not in line and str(tmp_path / module_class.__name__ / "raw") in line and "no route to host" in line
    assert all(file in line for file in FILES) and "configs/grbm_digits.yaml" in line
    assert set(no_network) == {10.0} and socket.getdefaulttimeout() == before


@pytest.mark.parametrize("file", range(4))
def test_the_half_that_lacks_a_file_is_downloaded(file: int, mnist_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(MNIST, "download_by_torchvision", lambda self, **options: asked.append(options))
    (mnist_root / "MNIST" / "raw" / FILES[file]).unlink()
    MNIST(root=str(mnist_root)).prepare_data()
    assert asked == [{"train": file < 2}]


def test_missing_files_are_named_without_download(mnist_root: Path, no_network: list[float | None]) -> None:
    (mnist_root / "MNIST" / "raw" / FILES[3]).unlink()
    module = MNIST(root=str(mnist_root), download=False)
    for action in (module.prepare_data, lambda: module.setup("test")):
        with pytest.raises(UserError, match=f"^MNIST: no {FILES[3]} in "):
            action()
    assert not no_network


@pytest.mark.parametrize("damage", [b"", b"\x00\x00\x08", b"<html>not found</html>" * 9, "truncated"])
@pytest.mark.parametrize("file", FILES[:2])
def test_damaged_files_are_named(mnist_root: Path, file: str, damage: bytes | str) -> None:
    path = mnist_root / "MNIST" / "raw" / file
    path.write_bytes(path.read_bytes()[:-7] if isinstance(damage, str) else damage)
    with pytest.raises(UserError, match=f"{file}.*is damaged") as caught:
        MNIST(root=str(mnist_root), num_val=12).setup("fit")
    assert "\n" not in str(caught.value)


def test_as_many_labels_as_images(mnist_root: Path, idx_writer: Callable[[Path, torch.Tensor], None]) -> None:
    idx_writer(mnist_root / "MNIST" / "raw" / FILES[1], torch.zeros(59, dtype=torch.uint8))
    with pytest.raises(UserError, match=r"is damaged \(60 images, but 59 labels\); delete both"):
        MNIST(root=str(mnist_root), num_val=12).setup("fit")


def test_wrong_image_size_is_named(mnist_root: Path, idx_writer: Callable[[Path, torch.Tensor], None]) -> None:
    idx_writer(mnist_root / "MNIST" / "raw" / FILES[0], torch.zeros(60, 14, 14, dtype=torch.uint8))
    with pytest.raises(UserError, match=r"MNIST, train split: the data have shape \(\d+, 1, 14, 14\)"):
        MNIST(root=str(mnist_root), num_val=12).setup("fit")


@pytest.mark.skipif(REAL is None, reason="MNIST's files are not on this machine")
def test_real_mnist_is_standardised_and_complete() -> None:
    module = MNIST(root=str(REAL), download=False)
    module.prepare_data()
    module.setup("fit")
    assert [len(module.raw(split)) for split in ("train", "val")] == [55_000, 5_000]
    x = module.to_states(torch.cat([module.raw("train"), module.raw("val")]))
    assert (x.mean().item(), x.std().item()) == pytest.approx((0, 1), abs=1e-3)
    assert torch.cat([module.labels("train"), module.labels("val")]).bincount().tolist() == (
        torchvision.datasets.MNIST(REAL).targets.bincount().tolist()
    )
    assert len(module.val_dataloader()) == 10


@pytest.mark.skipif(REAL is None, reason="MNIST's files are not on this machine")
def test_real_dynamic_mnist_has_the_published_splits() -> None:
    module = MNIST(root=str(REAL), download=False, binarize="dynamic")
    module.setup()
    assert [len(module.raw(split)) for split in ("train", "val", "test")] == [50_000, 10_000, 10_000]
    file = torchvision.datasets.MNIST(REAL)
    assert torch.equal(module.raw("train")[:, 0], file.data[:50_000])
    assert torch.equal(module.labels("val"), file.targets[50_000:])
    p = file.data[50_000:].double() / 255
    x = module.to_states(module.raw("val"))[:, 0]
    assert abs(float((x - p).sum() / (p * (1 - p)).sum().sqrt())) < 4
    z = (x.mean(0) - p.mean(0)) * 10_000 / (p * (1 - p)).sum(0).sqrt().clamp_min(1)
    assert float(z.abs().max()) < 5
