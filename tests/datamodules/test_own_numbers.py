"""A user's own numbers become the states that they mean, in every format of file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from helpers_errors import one_line
from helpers_own_data import RNG, save
from torch.utils.data import TensorDataset

from ebmlab.data.batch_checks import check_first_batch
from ebmlab.data.interface import Points
from ebmlab.data.weighted import weighted_states
from ebmlab.datamodules import Arrays, FromDataset
from ebmlab.datamodules.scaling import Form, scaling
from ebmlab.domains import Binary, Categorical, Ordinal, Real, Spin
from ebmlab.energies import Ising
from ebmlab.energies.pairwise.statistics import half_moments
from ebmlab.errors import UserError
from ebmlab.learners import BoltzmannLearning
from ebmlab.reading.number_files import read_numbers


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


def test_all_files_are_in_the_same_units(tmp_path: Path) -> None:
    levels = RNG.integers(0, 256, (40, 1, 4, 4))
    levels[0, 0, 0, :2] = 0, 255
    train = save(tmp_path / "train.npy", levels.astype(float))
    dark = save(tmp_path / "dark.npy", (levels > 200) * 1.0)
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


def test_one_hot_vectors_are_no_class_numbers(tmp_path: Path) -> None:
    x = np.eye(3)[RNG.integers(0, 3, (30, 5))]
    data = Arrays(save(tmp_path / "a.npy", x), domain="categorical", batch_size=4)
    assert "one-hot vectors become class numbers by .argmax(-1)" in one_line(lambda: data.setup("fit"))
    numbers = Arrays(save(tmp_path / "b.npy", x.argmax(-1)), domain="categorical", batch_size=4)
    assert numbers.states("train").shape == (24, 5, 3)


def test_weights_come_from_a_file_and_stay_with_their_samples(tmp_path: Path) -> None:
    x = np.arange(40)[:, None] >> np.arange(6) & 1
    np.save(tmp_path / "x.npy", x)
    (tmp_path / "w.txt").write_text("".join(f"{k}\n" for k in range(40)))
    data = Arrays(str(tmp_path / "x.npy"), "binary", weights_file=str(tmp_path / "w.txt"), batch_size=5)
    data.setup("fit")
    number = lambda states: (states.long() << torch.arange(6)).sum(1)  # noqa: E731  which row it is, and its weight
    own = number(data.states("train")).double()
    torch.testing.assert_close(data.weights("train"), (own / own.mean()).float())
    seen = [(number(states), weights) for states, weights in data.train_dataloader()]
    torch.testing.assert_close(torch.cat([w for _, w in seen]), (torch.cat([n for n, _ in seen]) / own.mean()).float())
    apart = Arrays(str(tmp_path / "x.npy"), "binary", weights_file=str(tmp_path / "w.txt"), val=str(tmp_path / "x.npy"))
    assert apart.weights("val").tolist() == [1.0] * 40
    assert not Arrays(str(tmp_path / "x.npy"), "binary").weighted
    (tmp_path / "w.txt").write_text("1\n2\n")
    with pytest.raises(UserError, match="holds 2 weights, but the data's file 40 samples"):
        Arrays(str(tmp_path / "x.npy"), "binary", weights_file=str(tmp_path / "w.txt"))


def test_real_numbers_are_standardised_by_their_weights(tmp_path: Path) -> None:
    x = RNG.normal(3, 2, (40, 3)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    (tmp_path / "w.txt").write_text("0\n1\n2\n7\n" * 10)
    data = Arrays(str(tmp_path / "x.npy"), weights_file=str(tmp_path / "w.txt"), batch_size=5)
    part = data.part("train")[1]
    repeated = np.repeat(x[part], np.tile([0, 1, 2, 7], 10)[part], 0)
    mean, std = data.moments()
    assert mean == pytest.approx(repeated.mean(0), rel=1e-5) and std == pytest.approx(repeated.std(0), rel=1e-5)
    x[::4] = 1e6  # does not count
    np.save(tmp_path / "y.npy", x)
    assert Arrays(str(tmp_path / "y.npy"), weights_file=str(tmp_path / "w.txt"), batch_size=5).moments() == (mean, std)


def test_a_weight_of_two_is_a_sample_twice(tmp_path: Path) -> None:
    x = torch.randint(2, (30, 5), generator=torch.Generator().manual_seed(0)) * 2 - 1
    np.save(tmp_path / "once.npy", x.numpy())
    (tmp_path / "w.txt").write_text("".join(f"{1 + k % 2}\n" for k in range(30)))
    data = Arrays(str(tmp_path / "once.npy"), "spin", weights_file=str(tmp_path / "w.txt"), batch_size=8)
    part = data.part("train")[1]
    learner = BoltzmannLearning(Ising.learnable(5), num_chains=50, pseudo_count=0.0)
    pl.Trainer(max_steps=1, accelerator="cpu", logger=False, enable_checkpointing=False).fit(learner, data)
    twice = x[part].repeat_interleave(1 + part % 2, 0).float()
    x, weights = weighted_states(data, "train")
    assert weights is not None
    torch.testing.assert_close(half_moments(x, weights).two.full(), half_moments(twice).two.full())
