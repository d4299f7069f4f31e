"""Tables: four layouts on tiny files, the real COMPAS if present, splits, and invalid files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers_data import COMPAS_HEAD, make_adult, make_blog, make_compas, make_news
from helpers_errors import refused

from ebmlab.data.tables import Rows
from ebmlab.datamodules.tabular import COMPAS, Adult, Blog, News, TabularData
from ebmlab.errors import UserError

PLACES = [os.environ.get("EBMLAB_DATA"), "data"]
REAL = next((Path(p) for p in PLACES if p and (Path(p) / "compas" / "compas-scores-two-years.csv").is_file()), None)


SETS: dict[type[TabularData], tuple[Callable[[Path], None], int, int]] = {  # writer, usable rows, features
    COMPAS: (make_compas, 10, 5 + 2 + 2),
    Adult: (make_adult, 10, 5 + 2 + 2),
    News: (make_news, 11, 58),
    Blog: (make_blog, 18, 276),
}


def everything(table: Rows) -> torch.Tensor:
    x, y = torch.cat([table.train_x, table.test_x]), torch.cat([table.train_y, table.test_y])
    return torch.cat([x, y.unsqueeze(1)], 1)


@pytest.mark.parametrize("cls", SETS)
def test_layouts_splits_and_scales(cls: type[TabularData], tmp_path: Path) -> None:
    write, rows, features = SETS[cls]
    write(tmp_path)
    before = torch.get_rng_state()
    table = cls(root=str(tmp_path), standardize=False).load()
    assert torch.equal(before, torch.get_rng_state())
    train = int(0.8 * rows)
    assert table.train_x.shape == (train, features) and table.train_y.shape == (train,)
    assert table.test_x.shape == (rows - train, features) and table.test_y.shape == (rows - train,)
    data = everything(table)
    assert data.dtype == torch.float32
    assert torch.equal(data.amin(0), torch.zeros(features + 1)) and torch.equal(data.amax(0), torch.ones(features + 1))

    again, other = (cls(root=str(tmp_path), seed=seed, standardize=False).load() for seed in (0, 1))
    assert torch.equal(again.train_x, table.train_x) and torch.equal(again.test_y, table.test_y)
    assert not torch.equal(everything(other), data)
    torch.testing.assert_close(sorted(map(tuple, everything(other).tolist())), sorted(map(tuple, data.tolist())))

    standard = cls(root=str(tmp_path)).load()
    varies = table.train_x.amax(0) > table.train_x.amin(0)
    x, raw = standard.train_x[:, varies].double(), table.train_x[:, varies].double()
    torch.testing.assert_close(x.mean(0), torch.zeros_like(x[0]), atol=1e-6, rtol=0)
    torch.testing.assert_close(x.square().mean(0), torch.ones_like(x[0]), atol=1e-5, rtol=0)
    scaled = (table.test_x[:, varies].double() - raw.mean(0)) / raw.std(0, unbiased=False)
    torch.testing.assert_close(standard.test_x[:, varies].double(), scaled, atol=1e-5, rtol=1e-5)
    assert torch.equal(standard.train_y, table.train_y) and standard.test_x.isfinite().all()


def test_columns_and_targets_stay_together(tmp_path: Path) -> None:
    make_compas(tmp_path)
    data = everything(COMPAS(root=str(tmp_path), standardize=False).load())
    data = data[data[:, 4].argsort()]  # sorted by age, which is the order of the file
    i = torch.arange(10)
    odd = (i % 2).float()
    expected = [(i % 4) / 3, odd, odd, 1 - odd, i / 9, odd, 1 - odd, odd, 1 - odd, odd]
    torch.testing.assert_close(data, torch.stack(expected, 1))

    make_adult(tmp_path)
    data = everything(Adult(root=str(tmp_path), standardize=False).load())
    data = data[data[:, 0].argsort()]
    assert data[:, -1].tolist() == [i % 2 for i in range(10)]  # labels with and without a full stop
    assert data[:, 5].tolist() == [float(i % 3 > 0) for i in range(10)]

    make_news(tmp_path)
    targets = everything(News(root=str(tmp_path)).load())[:, -1].sort().values
    torch.testing.assert_close(targets, torch.arange(11) / 10)

    make_blog(tmp_path)
    targets = everything(Blog(root=str(tmp_path)).load())[:, -1].sort().values
    torch.testing.assert_close(targets, torch.arange(18) / 17)  # the two largest of the twenty targets are left out


@pytest.mark.parametrize("cls", SETS)
def test_missing_files_are_named_with_their_publisher(cls: type[TabularData], tmp_path: Path) -> None:
    data = cls(root=str(tmp_path))  # nothing is read before load
    with pytest.raises(UserError) as error:
        data.load()
    message = str(error.value)
    assert str(tmp_path / cls.folder) in message and cls.source in message and "\n" not in message
    SETS[cls][0](tmp_path)
    data.load()
    max((tmp_path / cls.folder).iterdir()).unlink()  # removes one of the files
    if cls is not Blog:
        with pytest.raises(UserError, match="no file"):
            data.load()


@pytest.mark.parametrize(
    ("cls", "file", "text"),
    [
        (COMPAS, "compas-scores-two-years.csv", "age,sex\n3,Male\n"),
        (COMPAS, "compas-scores-two-years.csv", COMPAS_HEAD),
        (COMPAS, "compas-scores-two-years.csv", COMPAS_HEAD + "old,Male,Other,0,0,0,0,-1,F,0,Low,1,0\n" * 3),
        (COMPAS, "compas-scores-two-years.csv", COMPAS_HEAD + "34,Male\n"),
        (Adult, "adult.test", "30, Private\n"),
        (News, "OnlineNewsPopularity.csv", "url, shares\nhttp://site/, 3\n"),
        (Blog, "blogData_train.csv", "<html>\n"),
    ],
)
def test_other_layouts_are_refused_in_one_line(cls: type[TabularData], file: str, text: str, tmp_path: Path) -> None:
    SETS[cls][0](tmp_path)
    (tmp_path / cls.folder / file).write_text(text)
    with refused(f"{cls.__name__}: the files in .* do not have the layout of"):
        cls(root=str(tmp_path)).load()


def test_two_rows_are_enough(tmp_path: Path) -> None:
    class Rising(COMPAS):
        num_rows = 2

        def read(self) -> tuple[np.ndarray, np.ndarray]:
            return np.arange(self.num_rows, dtype=float)[:, None], np.arange(self.num_rows, dtype=float)

    rows = Rising(root=str(tmp_path)).load()
    assert (len(rows.train_y), len(rows.test_y)) == (1, 1)
    Rising.num_rows = 1
    with pytest.raises(UserError, match="fewer than two usable rows"):
        Rising(root=str(tmp_path)).load()


def test_infinite_targets_are_refused(tmp_path: Path) -> None:
    make_news(tmp_path)
    path = tmp_path / News.folder / "OnlineNewsPopularity.csv"
    path.write_text(path.read_text().replace(", 16\n", ", 0\n"))
    with pytest.raises(UserError, match="not all numbers are finite"):
        News(root=str(tmp_path)).load()


@pytest.mark.skipif(REAL is None, reason="compas/compas-scores-two-years.csv is not in the data root")
def test_the_real_compas() -> None:
    table = COMPAS(root=str(REAL), standardize=False).load()
    assert table.train_x.shape == (4937, 13) and table.test_x.shape == (1235, 13)
    data = everything(table)
    assert set(data[:, -1].tolist()) == {0.0, 1.0}
    assert int(data[:, -1].sum()) == 2809
    assert torch.equal(data[:, 5:11].sum(1), torch.ones(6172)) and torch.equal(data[:, 11:13].sum(1), torch.ones(6172))
    assert data.amin() == 0 and data.amax() == 1
