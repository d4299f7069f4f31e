"""EMNIST and KMNIST, which share MNIST's reader."""

from __future__ import annotations

from pathlib import Path
from urllib.error import URLError

import pytest
import torch

from ebmlab.datamodules import EMNIST, KMNIST, MNIST
from ebmlab.errors import UserError


@pytest.mark.parametrize("binarize", [False, True, "dynamic"])
def test_the_transposition_is_undone(data_folder: Path, binarize: bool) -> None:
    options = {"root": str(data_folder), "num_val": 12, "binarize": binarize}
    emnist, mnist = EMNIST(**options), MNIST(**options)
    for split in ("train", "val", "test") if binarize != "dynamic" else ("train",):
        assert torch.equal(emnist.raw(split), mnist.raw(split)) and emnist.raw(split).is_contiguous()
        assert torch.equal(emnist.labels(split), mnist.labels(split))
        assert not torch.equal(emnist.raw(split), mnist.raw(split).mT)


def test_moments_are_measured_on_the_training_images(data_folder: Path) -> None:
    module = EMNIST(root=str(data_folder), num_val=12)
    x = module.to_states(module.raw("train")).double()
    assert (x.mean().item(), x.std(correction=0).item()) == pytest.approx((0, 1), abs=1e-5)


def test_subsets_have_their_own_files_and_classes(tmp_path: Path, emnist_writer: object) -> None:
    emnist_writer(tmp_path, "letters")
    module = EMNIST(root=str(tmp_path), num_val=12, subset="letters")
    assert module.num_classes == 26 and module.hparams["subset"] == "letters"
    assert module.labels("test").tolist() == [i % 10 for i in range(20)]  # 1 to 10 in the file
    classes = {"mnist": 10, "digits": 10, "letters": 26, "balanced": 47, "bymerge": 47, "byclass": 62}
    assert {subset: EMNIST(subset=subset).num_classes for subset in classes} == classes  # type: ignore[arg-type]
    with pytest.raises(UserError, match="emnist-byclass-train-images-idx3-ubyte"):
        EMNIST(root=str(tmp_path), subset="byclass").setup("fit")
    with pytest.raises(UserError, match='subset is "digit", but must be "mnist", "digits", "letters"'):
        EMNIST(subset="digit")  # type: ignore[arg-type]


@pytest.mark.parametrize("cls", [EMNIST, KMNIST])
def test_no_network_is_one_line_with_the_address(
    cls: type[MNIST], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise URLError("no route to host")

    monkeypatch.setattr("torchvision.datasets.mnist.download_and_extract_archive", fail)
    with pytest.raises(UserError, match=r"the download failed .*no route to host") as caught:
        cls(root=str(tmp_path)).prepare_data()
    line = str(caught.value)
    assert "\n" not in line and str(tmp_path / cls.__name__ / "raw") in line and cls.source in line


def test_missing_test_files_are_downloaded_though_the_training_files_are_there(
    tmp_path: Path, emnist_writer: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    emnist_writer(tmp_path, "mnist")
    test = tmp_path / "EMNIST" / "raw" / "emnist-mnist-test-images-idx3-ubyte"
    good = test.read_bytes()
    test.unlink()
    tried = []
    monkeypatch.setattr("torchvision.datasets.EMNIST.download", lambda self: (tried.append(1), test.write_bytes(good)))
    module = EMNIST(root=str(tmp_path), num_val=12, batch_size=4)
    module.prepare_data()
    module.setup()
    assert tried == [1]


@pytest.mark.parametrize("cls", [EMNIST, KMNIST])
def test_damaged_files_are_named(cls: type[MNIST], tmp_path: Path, emnist_writer: object, mnist_writer: object) -> None:
    emnist_writer(tmp_path, "mnist")
    mnist_writer(tmp_path, "KMNIST")
    module = cls(root=str(tmp_path), num_val=12)
    path = module.folder / module.files[2]
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(UserError, match=f"{cls.__name__}: {module.files[2]} or {module.files[3]} in .* is damaged"):
        module.setup("test")
