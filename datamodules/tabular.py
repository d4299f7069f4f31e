"""The tables on which binary Bayesian networks are sampled (Zhang et al. 2022, Sec. 7.4 and App. I.5)."""

from __future__ import annotations

import csv
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from ebmlab.data.tables import Rows
from ebmlab.datamodules.roots import data_root
from ebmlab.errors import UserError
from ebmlab.numerics.streams import stream

Array = NDArray[np.float64]

_CATEGORIES = ("workclass", "marital-status", "occupation", "relationship", "race", "sex", "native-country")
_ADULT = (
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship"),
    *("race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income"),
)


class TabularData(ABC):
    """A table in files: 80 % of the rows are for training, 20 % for testing.

    The target and every column are scaled to [0, 1] over all rows, as in the paper; constant columns are left out. The
    authors' code then standardises the columns, without which the COMPAS likelihoods of Table 2 cannot be reached. The
    split depends on the seed alone and does not use the global generator.

    Args:
        root: folder of the data sets; by default $EBMLAB_DATA, else data/ in the working directory.
        seed: of the split.
        standardize: give each feature mean 0 and variance 1 over the training rows.

    Example:
        >>> class Squares(TabularData):
        ...     def read(self):
        ...         x = np.linspace(-1, 1, 100)[:, None]
        ...         return x, x[:, 0] ** 2
        >>> rows = Squares().load()
        >>> rows.train_x.shape, rows.test_y.shape
        (torch.Size([80, 1]), torch.Size([20]))
    """

    folder: str
    """The files' folder in `root`."""
    source: str
    """Where the data set is published."""

    def __init__(self, root: str | None = None, seed: int = 0, *, standardize: bool = True) -> None:
        self.root = data_root(root)
        self.seed = seed
        self.standardize = standardize

    @abstractmethod
    def read(self) -> tuple[Array, Array]:
        """Raw features `(N, F)` and targets `(N,)` of all rows."""

    def load(self) -> Rows:
        """Reads, scales and splits the table."""
        try:
            x, y = self.read()
        except (KeyError, TypeError, ValueError) as error:  # a missing column, a short row, not a number
            raise self._damaged(" ".join(str(error).split())[:120]) from error
        if len(y) < 2 or not (np.isfinite(x).all() and np.isfinite(y).all()):
            raise self._damaged("fewer than two usable rows" if len(y) < 2 else "not all numbers are finite")
        order = torch.randperm(len(y), generator=stream("tabular", type(self).__name__, self.seed)).numpy()
        train, test = np.split(order, [int(0.8 * len(y))])
        x, y = _unit(x[:, np.ptp(x, axis=0) > 0]), _unit(y)
        if self.standardize:
            x = (x - x[train].mean(0)) / np.where(np.ptp(x[train], axis=0) > 0, x[train].std(0), 1)
        return Rows(*(torch.from_numpy(part).float() for part in (x[train], y[train], x[test], y[test])))

    def path(self, name: str) -> Path:
        """The path of one of the files; raises `UserError` if it is missing."""
        path = self.root / self.folder / name
        if not path.is_file():
            raise UserError(
                f"{type(self).__name__}: no file {path}; it is published as {self.source}: put it there, "
                "or name another folder of data sets in EBMLAB_DATA"
            )
        return path

    def _damaged(self, why: str) -> UserError:
        name, folder = type(self).__name__, self.root / self.folder
        return UserError(f"{name}: the files in {folder} do not have the layout of {self.source}: {why}")


class COMPAS(TabularData):
    """Whether a defendant commits another crime within two years: 6,172 rows, 13 features.

    The file is compas-scores-two-years.csv. The rows are those that its publisher's analysis keeps. The features are
    four counts of earlier offences, age, and indicators of the six races and two sexes. The other columns, which are
    verdicts and outcomes, are left out.

    Example:
        >>> COMPAS(root="data").load()
        Traceback (most recent call last):
        ebmlab.errors.UserError: COMPAS: no file data/compas/compas-scores-two-years.csv; it is published as ...
    """

    folder = "compas"
    source = "ProPublica's 'compas-analysis'"

    def read(self) -> tuple[Array, Array]:
        with self.path("compas-scores-two-years.csv").open(newline="") as file:
            rows = [row for row in csv.DictReader(file) if self._usable(row)]
        counts = ("priors_count", "juv_fel_count", "juv_misd_count", "juv_other_count", "age")
        return _features(rows, counts, ("race", "sex")), _column(rows, "two_year_recid")

    @staticmethod
    def _usable(row: dict[str, str]) -> bool:
        days = row["days_b_screening_arrest"]
        known = row["is_recid"] != "-1" and row["c_charge_degree"] != "O" and row["score_text"] != "N/A"
        return known and days != "" and abs(float(days)) <= 30


class Adult(TabularData):
    """Whether an adult earns more than 50,000 dollars a year: 45,222 rows, 88 features.

    The files adult.data and adult.test are pooled and split again. Rows with unknown entries are left out, and so is
    `education`, which `education-num` repeats. Categories become indicators.

    Example:
        >>> Adult(root="data").load()
        Traceback (most recent call last):
        ebmlab.errors.UserError: Adult: no file data/adult/adult.data; it is published as ...
    """

    folder = "adult"
    source = "UCI Machine Learning Repository, 'Adult'"

    def read(self) -> tuple[Array, Array]:
        rows = []
        for name in ("adult.data", "adult.test"):
            with self.path(name).open(newline="") as file:
                lines = csv.reader(file, skipinitialspace=True)
                # the test file begins with a comment, and its labels end with a full stop
                rows += [dict(zip(_ADULT, line, strict=True)) for line in lines if line and not line[0].startswith("|")]
        rows = [row for row in rows if "?" not in row.values()]
        numbers = [name for name in _ADULT[:-1] if name not in (*_CATEGORIES, "education")]
        income = np.array([float(row["income"].startswith(">50K")) for row in rows])
        return _features(rows, numbers, _CATEGORIES), income


class News(TabularData):
    """How often an article is shared: 39,644 rows, 58 features.

    The file is OnlineNewsPopularity.csv. The target is the logarithm of the number of shares. The address and the days
    until the data were collected, which the publisher calls non-predictive, are left out.

    Example:
        >>> News(root="data").load()
        Traceback (most recent call last):
        ebmlab.errors.UserError: News: no file data/OnlineNewsPopularity/OnlineNewsPopularity.csv; ...
    """

    folder = "OnlineNewsPopularity"
    source = "UCI Machine Learning Repository, 'Online News Popularity'"

    def read(self) -> tuple[Array, Array]:
        table = np.loadtxt(
            self.path("OnlineNewsPopularity.csv"), delimiter=",", skiprows=1, usecols=range(2, 61), ndmin=2
        )
        with np.errstate(divide="ignore", invalid="ignore"):  # `load` refuses numbers that are not finite
            return table[:, :-1], np.log(table[:, -1])


class Blog(TabularData):
    """How many comments a blog post gets within a day: about 54,000 rows, 276 features.

    The files blogData_train.csv and blogData_test-*.csv are pooled and split again. The tenth of the posts with the
    most comments is left out, which explains the paper's 54,270 of 60,021 rows.

    Example:
        >>> Blog(root="data").load()
        Traceback (most recent call last):
        ebmlab.errors.UserError: Blog: no file data/BlogFeedback/blogData_train.csv; ...
    """

    folder = "BlogFeedback"
    source = "UCI Machine Learning Repository, 'BlogFeedback'"

    def read(self) -> tuple[Array, Array]:
        train = self.path("blogData_train.csv")
        tests = sorted(train.parent.glob("blogData_test-*.csv")) or [self.path("blogData_test-2012.02.01.00_00.csv")]
        table = np.concatenate(
            [np.loadtxt(path, delimiter=",", usecols=range(281), ndmin=2) for path in (train, *tests)]
        )
        table = table[table[:, -1] <= np.percentile(table[:, -1], 90)]
        return table[:, :-1], table[:, -1]


def _column(rows: Iterable[dict[str, str]], name: str) -> Array:
    return np.array([float(row[name]) for row in rows])


def _features(rows: Sequence[dict[str, str]], numbers: Iterable[str], categories: Iterable[str]) -> Array:
    """The columns of numbers, followed by an indicator of each value of each category."""
    columns = [_column(rows, name) for name in numbers]
    for name in categories:
        values = np.array([row[name] for row in rows])
        columns += [(values == value).astype(float) for value in np.unique(values)]
    return np.stack(columns, 1)


def _unit(x: Array) -> Array:
    """Shifts and scales columns to [0, 1]."""
    spread = np.ptp(x, axis=0)
    scaled: Array = (x - x.min(0)) / np.where(spread > 0, spread, 1)
    return scaled
