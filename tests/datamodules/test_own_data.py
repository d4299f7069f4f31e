"""A user's own files and data sets: what becomes of the numbers, which samples a split holds, and what is refused."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from ebmlab.data.first_batch import check_first_batch
from ebmlab.data.foreign_loaders import PlainData
from ebmlab.data.interface import Images, Points, chosen
from ebmlab.datamodules import Arrays, FromDataset, ImageFolder
from ebmlab.datamodules.number_files import read_numbers
from ebmlab.datamodules.pictures import pixels_of, read_picture
from ebmlab.datamodules.scaling import Form, scaling
from ebmlab.domains import Binary, Categorical, Ordinal, Real, Spin
from ebmlab.errors import UserError
from ebmlab.trained.numbers import as_tensor

RNG = np.random.default_rng(0)


def save(path: Path, x: Any, y: Any = None) -> str:
    """Writes samples x and labels y in the format that the file's suffix names."""
    if path.suffix == ".npy":
        np.save(path, x)
    elif path.suffix == ".npz":
        np.savez(path, **{"x": x} if y is None else {"y": y, "x": x})
    elif path.suffix == ".pt":
        torch.save(torch.as_tensor(x) if y is None else {"y": torch.as_tensor(y), "x": torch.as_tensor(x)}, path)
    else:
        rows = np.asarray(x).reshape(len(x), -1)
        names = [f"c{i}" for i in range(rows.shape[1])]
        head = ",".join(names if y is None else ["y", *names]) + "\n"
        lines = [
            ",".join(map(str, row if y is None else [label, *row])) for label, row in zip(y or rows, rows, strict=True)
        ]
        path.write_text(head + "\n".join(lines) + "\n")
    return str(path)


def one_line(act: Callable[[], Any]) -> str:
    with pytest.raises(UserError) as error:
        act()
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".pt", ".csv"])
@pytest.mark.parametrize("labelled", [False, True])
def test_every_format_holds_the_same_states(suffix: str, labelled: bool, tmp_path: Path) -> None:
    x, y = RNG.normal([5, -3], [2, 0.1], (40, 2)), [3 * (i % 2) for i in range(40)]
    if labelled and suffix == ".npy":
        np.save(tmp_path / "y.npy", y)
        data = Arrays(save(tmp_path / "a.npy", x), labels="y.npy", batch_size=4)
    else:
        path = save(tmp_path / f"a{suffix}", x, y if labelled else None)
        data = Arrays(path, labels="y" if labelled else None, batch_size=4)
    data.setup()
    train = torch.from_numpy(x[data.part("train")[1]])
    mean, std = train.mean(0), train.std(0, correction=0)
    torch.testing.assert_close(data.states("train"), ((train - mean) / std).float(), atol=1e-4, rtol=0)
    test = torch.from_numpy(x[data.part("test")[1]])
    torch.testing.assert_close(data.to_raw(data.states("test")), test.float(), atol=1e-4, rtol=1e-4)
    assert isinstance(data.show(data.states("test")), Points)
    labels = data.labels("val")
    if not labelled:
        assert labels is None and data.num_classes is None
    else:
        assert labels is not None and data.num_classes == 2
        assert labels.tolist() == [y[i] // 3 for i in data.part("val")[1].tolist()]


def test_splits_are_disjoint_parts_that_depend_on_their_seed_alone(tmp_path: Path) -> None:
    path = save(tmp_path / "a.npy", np.arange(100.0)[:, None])

    def parts(**options: Any) -> list[list[float]]:
        data = Arrays(path, standardize=False, batch_size=4, **options)
        return [data.raw(split).flatten().tolist() for split in ("train", "val", "test")]

    train, val, test = parts()
    assert [len(train), len(val), len(test)] == [80, 10, 10] and sorted(train + val + test) == list(range(100))
    assert parts(seed=5) == [train, val, test] and parts(split_seed=1)[2] != test
    assert [len(p) for p in parts(val_fraction=0.25, test_fraction=0.5)] == [25, 25, 50]
    other = save(tmp_path / "b.npy", np.full((7, 1), -1.0))
    train, val, test = parts(test=other)
    assert test == [-1.0] * 7 and len(train) == 90 and sorted(train + val) == list(range(100))


CASES: dict[str, tuple[Any, dict[str, Any], type, Any]] = {  # name: raw numbers, options, domain, expected states
    "pixels as bytes": (np.uint8([0, 255, 51, 102]), {"standardize": False}, Real, [0, 1, 0.2, 0.4]),
    "a table of whole numbers": (np.float64([0, 255, 51, 102]), {"standardize": False}, Real, [0, 255, 51, 102]),
    "pixels as floats": (
        np.float64([0, 255, 51, 102]),
        {"shape": [1, 2, 2], "standardize": False},
        Real,
        [0, 1, 0.2, 0.4],
    ),
    "images in [0, 1]": (
        np.float64([0, 1, 0.2, 0.4]),
        {"shape": [1, 2, 2], "standardize": False},
        Real,
        [0, 1, 0.2, 0.4],
    ),
    "a largest value": (np.int64([0, 10, 5, 2]), {"max_value": 10, "standardize": False}, Real, [0, 1, 0.5, 0.2]),
    "bits": (np.bool_([0, 1, 1, 0]), {"domain": "binary"}, Binary, [0, 1, 1, 0]),
    "an image of booleans": (
        np.bool_([0, 1, 1, 0]),
        {"shape": [1, 2, 2], "standardize": False, "max_value": 9},
        Real,
        [0, 1, 1, 0],
    ),
    "a table of booleans": (np.bool_([0, 1, 1, 0]), {"standardize": False}, Real, [0, 1, 1, 0]),
    "spins of booleans": (np.bool_([0, 1, 1, 0]), {"domain": "spin"}, Spin, [-1, 1, 1, -1]),
    "ordinal booleans": (np.bool_([0, 1, 1, 0]), {"domain": "ordinal"}, Ordinal, [0, 1, 1, 0]),
    "bits of pixels": (np.uint8([0, 127, 128, 255]), {"domain": "binary", "binarize": True}, Binary, [0, 0, 1, 1]),
    "bits of floats": (np.float32([0, 0.5, 0.6, 1]), {"domain": "binary", "binarize": True}, Binary, [0, 0, 1, 1]),
    "bits of bits": (np.int64([0, 1, 1, 0]), {"domain": "binary", "binarize": True}, Binary, [0, 1, 1, 0]),
    "spins": (np.int8([-1, 1, 1, -1]), {"domain": "spin"}, Spin, [-1, 1, 1, -1]),
    "spins of bits": (np.int64([0, 1, 1, 0]), {"domain": "spin"}, Spin, [-1, 1, 1, -1]),
    "ordinal": (np.float64([0, 3, 2, 1]), {"domain": "ordinal"}, Ordinal, [0, 3, 2, 1]),
    "categorical": (np.int64([0, 2]), {"domain": "categorical"}, Categorical, [1, 0, 0, 0, 0, 1]),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("by", ["Arrays", "FromDataset", "streamed"])
def test_numbers_become_states(case: str, by: str, tmp_path: Path) -> None:
    numbers, options, domain, states = CASES[case]
    rows = np.stack([numbers] * 20)
    if by == "Arrays":
        data: Any = Arrays(save(tmp_path / "a.npy", rows), batch_size=4, **options)
    else:
        options = dict(options)
        if shape := options.pop("shape", None):
            rows = rows.reshape(-1, *shape)
        if case == "categorical":
            options["num_values"] = 3
        data = FromDataset(list(rows), batch_size=4, streamed=by == "streamed", **options)
    data.setup("fit")
    assert data.domains == (domain,)
    (first, *_) = batches = list(data.train_dataloader())
    assert len(batches) == 4 and first.dtype == torch.float32 and first.shape == (4, *data.event_shape)
    torch.testing.assert_close(first[0].flatten(), torch.tensor(states, dtype=torch.float32))
    torch.testing.assert_close(data.states("val")[0].flatten(), torch.tensor(states, dtype=torch.float32))
    raw = torch.as_tensor(rows[:3].astype(np.float32) if rows.dtype == np.float64 else rows[:3])
    torch.testing.assert_close(data.preprocessing.to_states(raw)[0].flatten(), torch.tensor(states).float())


@pytest.mark.parametrize(
    ("by", "binarize"),
    [(by, b) for by in (".npy", ".npz", ".pt", "FromDataset") for b in (False, True, "dynamic")]
    + [("streamed", False), ("streamed", True)],
)
def test_booleans_beside_levels_are_black_and_white(by: str, binarize: Any, tmp_path: Path) -> None:
    """True is white. As one of the levels from 0 to 255 it would be nearly black."""
    levels, bits = RNG.integers(256, size=(20, 1, 2, 2)).astype(np.uint8), RNG.random((9, 1, 2, 2)) < 0.5
    options = {"binarize": binarize, "domain": "binary" if binarize else "real", "standardize": False, "batch_size": 4}
    if by.startswith("."):
        files = save(tmp_path / f"levels{by}", levels), save(tmp_path / f"bits{by}", bits)
        data: Any = Arrays(files[0], val=files[1], **options)
    else:
        data = FromDataset(list(levels), list(bits), streamed=by == "streamed", **options)
    expected = torch.from_numpy(bits).float()
    assert torch.equal(data.states("val"), expected)
    assert torch.equal(torch.cat(list(data.val_dataloader())), expected)


@pytest.mark.parametrize("by", ["npy", "whole npy", "csv", "FromDataset", "streamed"])
def test_points_of_time_keep_their_digits(by: str, tmp_path: Path) -> None:
    """Seconds since 1970: float32 has one number in 128 there, more than the standard deviation."""
    rows = (1.7e9 + 100 * np.random.default_rng(0).standard_normal((500, 2))).round()
    if by in ("FromDataset", "streamed"):
        data: Any = FromDataset(list(rows), batch_size=10, streamed=by == "streamed", val=list(rows))
    elif by == "csv":
        np.savetxt(tmp_path / "a.csv", rows, delimiter=",", fmt="%.0f")
        data = Arrays(tmp_path / "a.csv", batch_size=10)
    else:
        data = Arrays(save(tmp_path / "a.npy", rows.astype(np.int64) if by == "whole npy" else rows), batch_size=10)
    data.setup("fit")
    preprocessing = data.preprocessing
    assert preprocessing.std == pytest.approx(rows.std(0).tolist(), rel=0.1)
    states = data.states("train")
    assert states.dtype == torch.float32 and len(states[:, 0].unique()) > 200
    assert states.mean(0).abs().max() < 1e-4 and (states.std(0) - 1).abs().max() < 0.01
    back = preprocessing.to_raw(preprocessing.to_states(torch.from_numpy(rows)))
    assert back.dtype == torch.float64 and (back - torch.from_numpy(rows)).abs().max() < 0.01


@pytest.mark.parametrize(
    ("x", "form", "wrong"),
    [
        ([[0.0, 0.3]], Form("binary"), "the values lie between 0 and 0.3; bits must be 0 or 1: set binarize to true"),
        ([[-1.0, 1.0]], Form("binary"), "domain spin takes -1 and +1"),
        ([[0.0, 2.0]], Form("spin"), "spins must be -1 and +1, or 0 and 1"),
        ([[0.5, 1.0]], Form("ordinal"), "ordinal values must be whole numbers from 0 on"),
        ([[-1, 1]], Form("categorical"), "categorical values must be whole numbers from 0 on"),
        ([[0, 3]], Form("categorical", num_values=3), "but num_values is 3: they must be from 0 to 2"),
        ([[-0.1, 1.0]], Form("binary", binarize=True), "must lie in [0, 1] or [0, 255]: set max_value"),
        ([[0, 4095]], Form("binary", binarize=True), "must lie in [0, 1] or [0, 255]: set max_value"),
        ([[[[-128.0, 127.0]]]], Form("real"), "pixels must not be negative"),
        ([[[[-1.0, 2.0]]]], Form("real"), "pixels must not be negative"),
    ],
)
def test_numbers_that_are_not_what_is_said_are_refused(x: Any, form: Form, wrong: str) -> None:
    assert wrong in one_line(lambda: scaling(torch.tensor(x), form, "mine"))


def test_integers_beside_pixels_that_floats_give_are_levels() -> None:
    pixels = torch.tensor([[[[0.0, 0.5, 1.0]]]])
    assert scaling(pixels, Form("real"), "mine").scale == 255 and scaling(pixels, Form("real"), "mine").float_scale == 1
    assert scaling(pixels, Form("real", max_value=2.0), "mine").scale == 2
    assert scaling(pixels[0, 0], Form("real"), "mine").scale == 1


def test_a_spin_data_set_says_what_becomes_of_bits(tmp_path: Path) -> None:
    path = save(tmp_path / "a.npy", RNG.integers(2, size=(20, 3)))
    options = {"path": path, "batch_size": 4, "standardize": False}
    for domain, said in (("spin", "turned from 0 and 1 into -1 and +1"), ("binary", "the values stay what they are")):
        data = Arrays(**options, domain=domain)  # type: ignore[arg-type]
        data.setup("fit")
        assert said in data._said()


def test_the_only_array_of_a_file_holds_the_samples_by_any_name(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", images=[[1.0, 2.0]])
    assert read_numbers(tmp_path / "a.npz", None, "x")[0].tolist() == [[1, 2]]
    with pytest.raises(UserError, match="has no array x; it has images"):
        read_numbers(tmp_path / "a.npz", "images", "x")


def test_a_table_of_shares_is_not_cut_off_at_0_and_1(tmp_path: Path) -> None:
    x = RNG.random((40, 4))
    far = torch.tensor([[9.0, -9, 0, 1]])
    table = Arrays(save(tmp_path / "a.npy", x), batch_size=4)
    assert torch.allclose(table.to_states(table.to_raw(far)), far, atol=1e-4)
    pixels = (
        Arrays(str(tmp_path / "a.npy"), shape=[1, 2, 2], batch_size=4),
        Arrays(save(tmp_path / "b.npy", np.uint8(255 * x)), batch_size=4),
        Arrays(save(tmp_path / "c.npy", 10 * x), max_value=10.0, batch_size=4),
    )
    for data in pixels:
        raw = data.to_raw(far.view(-1, *data.raw_shape)) / data.preprocessing.float_scale
        assert raw.flatten()[:2].tolist() == [1, 0]


@pytest.mark.parametrize("rows", [1, 2, 50])
def test_digits_are_kept_where_float32_would_round_off_differences(rows: int, tmp_path: Path) -> None:
    times = 1_700_000_000.25 + np.arange(rows)[:, None] * [1, 0, 1]
    times[0, 2] = np.nan
    found = read_numbers(Path(save(tmp_path / "far.npy", times)), None, "x")[0]
    assert found.dtype == torch.float64 and np.array_equal(found.numpy(), times, equal_nan=True)
    for near in (RNG.normal(size=(50, 3)), np.full((50, 3), 0.1), times[:1] * np.nan, np.full((1, 3), 2.0**40)):
        assert read_numbers(Path(save(tmp_path / "near.npy", near)), None, "x")[0].dtype == torch.float32


def test_bad_files_are_named(tmp_path: Path) -> None:
    x = RNG.normal(size=(20, 3))
    path = save(tmp_path / "a.npy", x)
    text, words = tmp_path / "t.csv", tmp_path / "words.txt"
    text.write_text("a,b\n1,2\n3,x\n")
    words.write_text("1")
    flat = save(tmp_path / "flat.npy", np.zeros(5))
    objects = tmp_path / "o.npy"
    np.save(objects, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    odd = x.copy()
    odd[3, 1] = np.nan
    for options, wrong in (
        ({"path": str(tmp_path / "none.npy")}, "there is no file"),
        ({"path": str(words)}, "is none of .npy, .npz, .csv, .pt"),
        ({"path": str(text)}, "t.csv, line 3: 'x' in column b is no number: if it is a label, set labels to b"),
        ({"path": str(objects)}, "o.npy cannot be read (it is damaged or holds more than arrays of numbers)"),
        ({"path": flat}, "has shape (5,); it must be (N, ...) with N at least 1"),
        ({"path": path, "shape": [2, 2]}, "which cannot be (2, 2)"),
        ({"path": save(tmp_path / "a.csv", x), "labels": "kind"}, "has no column kind; it has c0, c1, c2"),
        ({"path": save(tmp_path / "a.npz", x, np.arange(20)), "field": "z"}, "has no array z; it has y, x"),
        ({"path": path, "labels": "y.npy"}, "there is no file"),
        (
            {"path": save(tmp_path / "odd.npy", odd)},
            "odd.npy: 1 of 20 samples hold NaN or infinity, the first is number 3, counted from 0",
        ),
        ({"path": path, "val_fraction": 1.0}, "must be above 0 and together below 1"),
        ({"path": path, "binarize": True}, "binarize makes bits, but domain is real: set domain to binary"),
        ({"path": save(tmp_path / "few.npy", x[:2])}, "the number of samples is 2, too few to set some aside"),
        ({"path": path, "batch_size": 17}, "batch_size 17 is more than the 16 training samples"),
        ({"path": path, "max_value": 0.0, "domain": "real"}, "max_value is 0.0, but must be positive"),
    ):
        assert wrong in one_line(lambda options=options: Arrays(**{"batch_size": 4, **options}).setup("fit")), options


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("1,2\n3,4\n", [[1, 2], [3, 4]]),
        ("\ufeff1;2\n3;4\n", [[1, 2], [3, 4]]),  # Excel begins files with a byte-order mark
        ("a\tb\n1\t2\n", [[1, 2]]),
        ("0,1,2\n7,8,9\n", [[7, 8, 9]]),  # the names that pandas gives to columns without
        ("0,1\n7,8\n", [[0, 1], [7, 8]]),  # two bits may be a sample
        ("1,2,3\n7,8,9\n", [[1, 2, 3], [7, 8, 9]]),
        ('"1","2"\n\n3 ,4', [[1, 2], [3, 4]]),
        ("5\n6\n", [[5], [6]]),
    ],
)
def test_tables_as_programs_write_them(text: str, rows: Any, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(text, encoding="utf-8")
    assert read_numbers(tmp_path / "a.csv", None, "x")[0].tolist() == rows


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "holds no numbers"),
        ("a,b\n", "holds no numbers"),
        ("a,b\n1,2\n\n3,\n", "line 4: the cell of column b is empty"),
        ("1,2\n3,4,5\n", "line 2: the number of cells is 3, but 2 in the first line"),
        ("1,2\n3\n", "line 2: the number of cells is 1, but 2 in the first line"),
        ("kind,b\ncat,2\n", "line 2: 'cat' in column kind is no number: if it is a label, set labels to kind"),
        ("1,2\n3,x\n", "line 2: 'x' in column 1 is no number: if it is a label, set labels to 1"),
        (",a\n0,1.5\n", "the first column has no name"),
    ],
)
def test_wrong_tables_are_refused_by_line(text: str, wrong: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(text)
    found = one_line(lambda: read_numbers(tmp_path / "a.csv", None, "x"))
    assert wrong in found and "a.csv" in found


class Evil:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def test_code_in_a_file_is_not_run(tmp_path: Path) -> None:
    torch.save(Evil(tmp_path / "run"), tmp_path / "a.pt")
    assert "holds more than arrays of numbers" in one_line(lambda: read_numbers(tmp_path / "a.pt", None, "x"))
    assert not (tmp_path / "run").exists()


def test_all_files_are_in_the_same_units(tmp_path: Path) -> None:
    levels = RNG.integers(0, 256, (40, 1, 4, 4))
    levels[0, 0, 0, :2] = 0, 255
    train = save(tmp_path / "train.npy", levels.astype(float))
    dark = save(tmp_path / "dark.npy", levels * 0.0)
    units = save(tmp_path / "units.npy", levels / 255)
    data = Arrays(train, val=dark, test=units, batch_size=4)
    assert data.states("val").max() < 0
    assert "test split: the values lie between 0 and 1, but those of the training samples are divided by 255" in (
        one_line(lambda: data.states("test"))
    )
    bits = save(tmp_path / "bits.npy", RNG.integers(0, 2, (40, 4)))
    reals = save(tmp_path / "reals.npy", RNG.random((40, 4)))
    wrong = Arrays(bits, "binary", val=reals, batch_size=4)
    assert "val split: the values lie between" in one_line(lambda: wrong.setup("fit"))


def test_images_with_their_channels_last(tmp_path: Path) -> None:
    pixels = RNG.integers(0, 256, (20, 4, 5, 3)).astype(np.uint8)
    path = save(tmp_path / "a.npy", pixels)
    data, streamed = Arrays(path, batch_size=4), FromDataset(list(pixels), batch_size=4)
    assert data.event_shape == streamed.event_shape == (3, 4, 5) and len(data.moments()[0]) == 3
    assert torch.equal(data.raw("train"), torch.from_numpy(pixels)[data.part("train")[1]].permute(0, 3, 1, 2))
    assert torch.equal(data.raw("train"), streamed.raw("train"))
    assert Arrays(path, shape=[4, 5, 3], batch_size=4).event_shape == (4, 5, 3)
    assert Arrays(save(tmp_path / "b.npy", pixels[..., :1]), batch_size=4).event_shape == (1, 4, 5)


def test_rare_ordinal_values_that_the_training_samples_lack(tmp_path: Path) -> None:
    levels = np.arange(160).reshape(40, 4) % 4
    train, rare = save(tmp_path / "train.npy", levels), levels.copy()
    rare[35, 0] = 7
    data = Arrays(train, "ordinal", val=save(tmp_path / "rare.npy", rare), batch_size=4)
    message = "val split: the values lie between 0 and 7, but num_values is 4: they must be from 0 to 3"
    assert message in one_line(lambda: data.states("val"))
    dataset = FromDataset(TensorDataset(torch.tensor(levels)), TensorDataset(torch.tensor(rare)), domain="ordinal")
    assert message in one_line(lambda: dataset.states("val"))
    data = Arrays(str(tmp_path / "rare.npy"), "ordinal", batch_size=4)  # 7 may be set aside
    assert data.preprocessing.limits == (0.0, 7.0) and data.preprocessing.num_classes == 0
    few, many = Ordinal(4, num_values=5), Ordinal(4, num_values=8)
    check_first_batch(data, "train", many, "Mine")
    assert "the values go up to 7, but Mine models Ordinal(4, num_values=5): change its num_values" in (
        one_line(lambda: check_first_batch(data, "train", few, "Mine"))
    )


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"domain": "spin", "max_value": 2.0}, "it is for real numbers"),
        ({"num_values": 3}, "it must be above 1, and is for ordinal and categorical data"),
        ({"labels": "y.npy", "test": "b.npy"}, "y.npy has the labels of one file"),
    ],
)
def test_options_that_would_do_nothing_are_refused(options: dict[str, Any], wrong: str, tmp_path: Path) -> None:
    path = save(tmp_path / "a.npy", 2 * RNG.integers(0, 2, (20, 4)) - 1)
    assert wrong in one_line(lambda: Arrays(path, **options))


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Grey pictures of two brightnesses and three sizes, in folders named for them, one with an alpha channel."""
    root = tmp_path / "pictures"
    for i in range(30):
        folder = root / ("bright" if i % 3 else "dark")
        folder.mkdir(parents=True, exist_ok=True)
        image = Image.new("L", (8 + i % 3, 8), color=200 if i % 3 else 20)
        (image.convert("RGBA") if i == 5 else image).save(folder / f"{i:02}.png")
    (root / "notes.txt").write_text("not a picture")
    return root


def test_pictures_are_cut_scaled_and_labelled(pictures: Path) -> None:
    data = ImageFolder(str(pictures), size=4, batch_size=4)
    assert (data.name, data.num_classes, data.classes, data.event_shape) == (
        "pictures",
        2,
        ["bright", "dark"],
        (1, 4, 4),
    )
    raw, labels = data.raw("train"), data.labels("train")
    assert labels is not None and len(raw) == 24
    assert torch.equal(raw, torch.where(labels.bool(), 20, 200).byte().view(-1, 1, 1, 1).expand(-1, 1, 4, 4))
    x = data.states("train")
    assert x.mean().abs() < 1e-5 and (x.std(correction=0) - 1).abs() < 1e-5
    shown = data.show(data.states("val"))
    assert isinstance(shown, Images)
    torch.testing.assert_close(shown.values, data.raw("val") / 255)
    bits = ImageFolder(str(pictures), size=[4, 6], channels=3, binarize=True, batch_size=4)
    assert bits.domains == (Binary,) and bits.raw("val").shape == (3, 3, 4, 6)
    kinds = bits.labels("val")
    assert kinds is not None and torch.equal(bits.states("val")[:, 0, 0, 0], 1 - kinds.float())


def test_pixels_of_every_kind_of_picture(tmp_path: Path) -> None:
    deep = np.array([[0, 256, 65535]], np.uint16)
    Image.fromarray(deep).save(tmp_path / "deep.png")
    assert read_picture(tmp_path / "deep.png", (1, 1, 3)).pixels.tolist() == [[[0, 1, 255]]]
    upright = Image.fromarray(np.array([[10, 200]], np.uint8))
    exif = Image.Exif()
    exif[0x0112] = 6  # lies on its side: to be turned by 90 degrees, clockwise
    upright.save(tmp_path / "turned.png", exif=exif)
    assert read_picture(tmp_path / "turned.png", (1, 2, 1)).pixels.flatten().tolist() == [10, 200]
    palette = Image.new("RGB", (2, 2), (250, 0, 10)).quantize()
    assert pixels_of(palette)[:, 0, 0].tolist() == [250, 0, 10]
    assert pixels_of(Image.fromarray(np.array([[True, False]]))).tolist() == [[[255, 0]]]


@pytest.mark.parametrize("numbers", [np.float32([[0, 0.5, 1]]), np.int32([[0, 128, 255]])])
def test_pictures_of_32_bits_are_refused(numbers: Any, tmp_path: Path) -> None:
    """They do not say what white is: fractions, and levels as 32-bit integers, would all become black."""
    Image.fromarray(numbers).save(tmp_path / "a.tif")
    found = one_line(lambda: read_picture(tmp_path / "a.tif", (1, 1, 3)))
    assert found.startswith(f"{tmp_path / 'a.tif'}: the picture's pixels are numbers of 32 bits")
    assert "32 bits" in one_line(lambda: FromDataset([Image.fromarray(numbers)] * 9, batch_size=4))  # type: ignore[arg-type]


def test_numbers_without_sign_of_16_bits(tmp_path: Path) -> None:
    """torch cannot compare them; PlainData and trained models take them, too."""
    x = np.arange(80, dtype=np.uint16).reshape(20, 4) * 500
    plain = PlainData("mine", {"train": lambda: [torch.from_numpy(x)]}, Real(4))
    assert torch.equal(plain.states("train"), torch.from_numpy(x.astype(np.float32)))
    data = FromDataset(TensorDataset(torch.from_numpy(x)), batch_size=4)
    torch.testing.assert_close(data.states("train").mean(0), torch.zeros(4), atol=1e-5, rtol=0)
    assert as_tensor(torch.from_numpy(x))[0].tolist() == x.tolist()


@pytest.mark.parametrize("binarize", [True, "dynamic"])
def test_levels_that_would_all_be_black_are_refused(binarize: Any, tmp_path: Path) -> None:
    path = save(tmp_path / "a.npy", np.arange(20 * 8).reshape(20, 8) % 17)  # levels from 0 to 16, as of scikit-learn
    options: dict[str, Any] = {"domain": "binary", "binarize": binarize, "batch_size": 4}
    wrong = "the values go up to 16, but 255 would be white, so that next to all bits would be 0: set max_value"
    assert wrong in one_line(lambda: Arrays(path, **options).setup("fit"))
    assert 0.3 < float(Arrays(path, max_value=16, **options).states("train").mean()) < 0.7


def test_a_list_of_samples_in_a_file_is_refused(tmp_path: Path) -> None:
    """Its first sample was read as the samples, its rows as vectors."""
    for n in (2, 20):
        torch.save([torch.rand(8, 8) for _ in range(n)], tmp_path / "a.pt")
        wrong = f"holds a list of {n} objects, not samples or (samples, labels)"
        assert wrong in one_line(lambda: read_numbers(tmp_path / "a.pt", None, "x"))
    torch.save((torch.rand(20, 8), torch.arange(20)), tmp_path / "a.pt")
    assert len(read_numbers(tmp_path / "a.pt", None, "x")[0]) == 20
    torch.save([torch.rand(20, 8)], tmp_path / "a.pt")
    assert len(read_numbers(tmp_path / "a.pt", None, "x")[0]) == 20


def test_one_hot_vectors_are_no_class_numbers(tmp_path: Path) -> None:
    x = np.eye(3)[RNG.integers(0, 3, (30, 5))]
    data = Arrays(save(tmp_path / "a.npy", x), domain="categorical", batch_size=4)
    assert "one-hot vectors become class numbers by .argmax(-1)" in one_line(lambda: data.setup("fit"))
    numbers = Arrays(save(tmp_path / "b.npy", x.argmax(-1)), domain="categorical", batch_size=4)
    assert numbers.states("train").shape == (24, 5, 3)


def test_folders_named_for_splits_are_splits(pictures: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    pictures.rename(root / "train")
    test = root / "test" / "dark"
    test.mkdir(parents=True)
    Image.new("L", (9, 9), color=20).save(test / "a.jpg")
    data = ImageFolder(str(root), size=4, batch_size=4)
    assert data.classes == ["bright", "dark"] and len(data.raw("test")) == 1
    assert data.labels("test").tolist() == [1]  # type: ignore[union-attr]
    assert len(data.raw("train")) == 27 and len(data.raw("val")) == 3
    (root / "test" / "grey").mkdir()
    (test / "a.jpg").rename(root / "test" / "grey" / "a.jpg")
    assert "has the label grey" in one_line(lambda: ImageFolder(str(root), size=4).raw("test"))


def test_bad_folders_are_named(pictures: Path, tmp_path: Path) -> None:
    assert "there is no folder" in one_line(lambda: ImageFolder(str(tmp_path / "none")))
    (tmp_path / "empty").mkdir()
    assert "there is no picture in" in one_line(lambda: ImageFolder(str(tmp_path / "empty")))
    assert "size is 0 and channels 1" in one_line(lambda: ImageFolder(str(pictures), size=0))
    for path in (pictures / "dark").iterdir():
        path.write_bytes(path.read_bytes()[:40])
    assert "is not a readable picture" in one_line(
        lambda: ImageFolder(str(pictures), size=4, batch_size=4).setup("fit")
    )


class Items(Dataset[Any]):
    """A data set whose i-th item is `make(i)`."""

    def __init__(self, make: Callable[[int], Any], n: int = 20) -> None:
        self.make, self.n = make, n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> Any:
        return self.make(i)


class Numbered(Dataset[Tensor]):
    def __getitem__(self, i: int) -> Tensor:
        return torch.ones(2)


class Endless(IterableDataset[Tensor]):
    def __iter__(self) -> Any:
        return iter(torch.randn(20, 2))


@pytest.mark.parametrize(
    "make",
    [
        lambda i: torch.tensor([float(i), -float(i)]),
        lambda i: (np.array([i, -i]), i % 3),
        lambda i: [torch.tensor([i, -i]), torch.tensor(i % 3)],
        lambda i: {"x": [i, -i], "kind": "a"},
        lambda i: [float(i), -float(i)],
    ],
)
def test_items_in_every_form_that_holds_a_sample(make: Callable[[int], Any]) -> None:
    data = FromDataset(Items(make), standardize=False, batch_size=4)
    data.setup()
    expected = [[i, -i] for i in data.part("train")[1].tolist()]
    assert data.states("train").tolist() == expected
    labels, labelled = data.labels("train"), isinstance(make(0), list | tuple) and not isinstance(make(0)[0], float)
    assert (labels is not None) == labelled == (data.num_classes is not None)
    if labels is not None:
        assert labels.tolist() == [i % 3 for i, _ in expected] and data.num_classes == 3


def test_pictures_of_a_dataset_and_their_labels() -> None:
    data = FromDataset(Items(lambda i: (Image.new("RGB", (3, 2), (i, 0, 255)), i % 2)), batch_size=4)
    assert data.event_shape == (3, 2, 3)
    raw = data.raw("test")
    assert raw[:, 0].float().mean((1, 2)).tolist() == data.part("test")[1].tolist() and (raw[:, 2] == 255).all()


def test_streaming_gives_what_memory_gives_and_resumes_within_an_epoch() -> None:
    source = TensorDataset(torch.randn(50, 3, generator=torch.Generator().manual_seed(0)), torch.arange(50) % 2)
    memory, streamed, workers = (
        FromDataset(source, batch_size=6, **options)
        for options in ({}, {"streamed": True}, {"streamed": True, "num_workers": 2})
    )
    before = torch.get_rng_state()
    expected = list(memory.train_dataloader())
    for data in (streamed, workers):
        data.setup("fit")
        assert data.preprocessing == memory.preprocessing
        loader = data.train_dataloader()
        batches = iter(loader)
        first = [next(batches) for _ in range(2)]
        state = loader.state_dict()
        again = data.train_dataloader()
        again.load_state_dict(state)
        for one, two in zip(expected, first + list(again), strict=True):
            torch.testing.assert_close(one, two)
        assert torch.equal(data.states("val"), memory.states("val"))
        assert torch.equal(data.states("test", 2), memory.states("test", 2))
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("workers", [0, 2])
def test_random_transforms_are_drawn_anew_only_where_data_are_streamed(workers: int) -> None:
    def make(i: int) -> Tensor:
        return torch.arange(3.0) + i * (1 + torch.rand(()))

    options: dict[str, Any] = {"batch_size": 16, "standardize": False, "num_workers": workers}
    before = torch.get_rng_state()
    memory = FromDataset(Items(make), **options)
    with pytest.warns(UserWarning, match="training items differ from one reading to the next.* set streamed to true"):
        memory.setup("fit")
    assert torch.equal(before, torch.get_rng_state())
    streamed = FromDataset(Items(make), streamed=True, **options)
    streamed.setup("fit")
    for data, fresh in ((memory, False), (streamed, True)):
        loader, epochs = data.train_dataloader(), []
        for number in range(2):
            loader.sampler.set_epoch(number)
            epochs.append(torch.cat(list(loader)).sort(0).values)
        assert torch.equal(*epochs) != fresh
    FromDataset(Items(lambda i: torch.arange(3.0) + i), **options).setup("fit")  # no warning


@pytest.mark.parametrize(
    ("options", "usual", "odd", "wrong"),
    [
        ({"domain": "ordinal"}, 2.0, 5.0, "but num_values is 3: they must be from 0 to 2"),
        ({"domain": "binary"}, 1.0, 0.5, "bits must be 0 or 1"),
        ({"domain": "spin"}, -1.0, 0.0, "spins must be -1 and +1"),
        ({"domain": "binary", "binarize": True}, 1.0, 2.0, "what becomes bits must lie between 0 and 1"),
        ({}, 1.0, np.nan, "1 of 10 samples hold NaN or infinity"),
    ],
)
def test_streamed_samples_that_were_not_measured_are_checked(
    options: dict[str, Any], usual: float, odd: float, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ebmlab.datamodules.from_dataset.MEASURED", 20)
    values = [[1.0, usual] for _ in range(100)]
    data = FromDataset(Items(values.__getitem__, 100), streamed=True, batch_size=10, **options)
    data.setup("fit")
    _, index = data.part("train")
    measured = set(index[chosen(len(index), 20, 0)].tolist())
    values[next(i for i in index.tolist() if i not in measured)] = [1.0, odd]
    assert wrong in one_line(lambda: list(data.train_dataloader()))
    assert wrong.replace("of 10", "of 80") in one_line(lambda: data.states("train"))
    assert list(data.val_dataloader())


def test_bad_datasets_are_named() -> None:
    for make, options, wrong in (
        (lambda i: {"image": [i]}, {}, "an item has no x, but image: set `field` to one of them"),
        (lambda i: "word", {}, "a sample is of the type str"),
        (lambda i: torch.zeros(1 + i // 10), {}, "samples have different shapes, (1,) and (2,)"),
        (lambda i: torch.zeros(2), {"domain": "categorical"}, "domain categorical needs num_values"),
        (
            lambda i: [i],
            {"streamed": True, "binarize": "dynamic", "domain": "binary"},
            "binarize dynamic draws from data",
        ),
    ):
        data: Any = Items(make)  # type: ignore[arg-type]
        assert wrong in one_line(lambda data=data, o=options: FromDataset(data, batch_size=4, **o).setup("fit")), wrong
    assert "train is empty" in one_line(lambda: FromDataset(Items(lambda i: i, 0)))
    assert "train has no length: give Numbered a __len__" in one_line(lambda: FromDataset(Numbered()))
    assert "is an IterableDataset" in one_line(lambda: FromDataset(Endless(), streamed=True))
    assert len(FromDataset(Endless(), batch_size=4).raw("train")) == 16
    assert FromDataset(Items(lambda i: float(i)), batch_size=4).raw("val").shape == (2, 1)
