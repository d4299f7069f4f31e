"""Files of a user that do not fit are refused in one line, and no code in them runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers_errors import one_line
from helpers_own_data import RNG, save

from ebmlab.datamodules import Arrays
from ebmlab.datamodules.scaling import Form, scaling
from ebmlab.reading.number_files import read_numbers


@pytest.mark.parametrize(
    ("x", "form", "wrong"),
    [
        ([[0.0, 0.3]], Form("binary"), "between 0 and 0.3; bits must be 0 and 1, or -1 and +1, which"),
        ([[0.0, 0.3]], Form("binary"), "become 0 and 1: set binarize to true and max_value to 0.3"),
        ([[0.0, 0.5], [1.0, 1.0]], Form("spin"), "the values are 0, 0.5, 1; spins must be"),
        ([[0.0, 2.0]], Form("spin"), "spins must be -1 and +1, or 0 and 1"),
        ([[0.5, 1.0]], Form("ordinal"), "ordinal values must be whole numbers from 0 on"),
        ([[-1, 1]], Form("categorical"), "categorical values must be whole numbers from 0 on"),
        ([[0, 3]], Form("categorical", num_values=3), "but num_values is 3: they must be from 0 to 2"),
        (
            [[-0.1, 1.0]],
            Form("binary", binarize=True),
            "must lie in [0, 1] or [0, 255]: set domain to real and binarize to false, and",
        ),
        ([[0, 4095]], Form("binary", binarize=True), "must lie in [0, 1] or [0, 255]: set max_value"),
        ([[[[-128.0, 127.0]]]], Form("real"), "pixels must not be negative"),
        ([[[[-1.0, 2.0]]]], Form("real"), "pixels must not be negative"),
    ],
)
def test_numbers_that_are_not_what_is_said_are_refused(x: Any, form: Form, wrong: str) -> None:
    assert wrong in one_line(lambda: scaling(torch.tensor(x), form, "mine"))


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
        (
            {"path": path, "binarize": True},
            "binarize makes bits, but domain is real: set binarize to false, and take an energy on real numbers",
        ),
        ({"path": save(tmp_path / "few.npy", x[:2])}, "the number of samples is 2, too few to set some aside"),
        ({"path": path, "batch_size": 17}, "batch_size 17 is more than the 16 training samples"),
        ({"path": path, "max_value": 0.0, "domain": "real"}, "max_value is 0.0, but must be positive"),
    ):
        assert wrong in one_line(lambda options=options: Arrays(**{"batch_size": 4, **options}).setup("fit")), options


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "holds no numbers"),
        ("a,b\n", "holds no numbers"),
        ("a,b\n1,2\n\n3,\n", "line 4: the cell of column b is empty"),
        ("1,2\n3,4,5\n", "line 2: the number of cells is 3, but 2 in the first line"),
        ("1,2\n3\n", "line 2: the number of cells is 1, but 2 in the first line"),
        ("kind,b\ncat,2\n", "line 2: 'cat' in column kind is no number: if it is a label, set labels to kind"),
        ("1,2\n3,NA\n", "line 2: 'NA' in column 1 is no number: fill it, or leave the line out"),
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
