"""Sequences that are compared by the kernel, against comparisons one by one; mutants of its text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from helpers_native import replace, unchecked
from helpers_tier import cases
from numpy.typing import NDArray

from ebmlab.native import identities
from ebmlab.native.identities import kernel

pytestmark = pytest.mark.skipif(kernel() is None, reason="needs a C++ compiler, Linux, and AVX2 or AVX-512")
GAP = 0


def family(size: int, sites: int) -> NDArray[np.uint8]:
    """Sequences at all distances from each other, with gaps."""
    random = np.random.default_rng(size + sites)
    parents = random.integers(0, 4, (max(1, size // 6), sites))[np.arange(size) % max(1, size // 6)]
    found = np.where(
        random.random((size, sites)) < 0.5 * random.random((size, 1)), random.integers(0, 4, parents.shape), parents
    )
    found[: size // 3, : sites // 3] = GAP
    found[:1] = GAP  # the nearest of nothing but the zeros behind the last
    return found.astype(np.uint8)


def differences(x: NDArray[np.uint8], y: NDArray[np.uint8]) -> NDArray[np.int64]:
    return np.stack([(row != y).sum(1) for row in x])


def wrong(size: int, sites: int, gap: int | None, rows: int = 64) -> bool:
    """Whether counts, groups or nearest distances differ from those of comparisons one by one."""
    x = family(size, sites)
    least = np.array([min(n, 7 * n // 10 + 1) for n in range(sites + 1)])
    both = np.stack([((row == gap) & (x == gap)).sum(1) for row in x]) if gap is not None else 0
    alike = sites - differences(x, x) - both >= least[sites - both]
    found = identities.alike(x, least, gap)
    assert found is not None and found.shape == x.shape
    for first in range(0, size, rows):
        found.find(first, min(first + rows, size))
    groups = np.arange(size)
    for _ in range(size):
        groups = np.where(alike, groups, size).min(1)
    half = (size + 1) // 2
    near = identities.nearest(x[:half], x[half:])
    expected = differences(x[:half], x[half:]).min(1) if size > 1 else np.array([sites])
    right = np.array_equal(found.counts, alike.sum(1)) and np.array_equal(found.groups, groups)
    return not (right and np.array_equal(near, expected))


@pytest.mark.parametrize("gap", [None, GAP])
@pytest.mark.parametrize("sites", [1, 31, 32, 33, 100, 257, 700])
@pytest.mark.parametrize("size", [1, 2, 63, 64, 65, 203])
def test_sequences_are_compared_as_one_by_one(size: int, sites: int, gap: int | None) -> None:
    assert not wrong(size, sites, gap)


@pytest.mark.parametrize("rows", [1, 3, 70, 1000])
def test_any_number_of_rows_at_a_time_by_any_number_of_threads(rows: int) -> None:
    before = torch.get_num_threads()
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            assert not wrong(300, 90, GAP, rows)
    finally:
        torch.set_num_threads(before)


def test_nearest_ones_are_found_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    x = family(203, 40)
    whole = identities.nearest(x[:150], x[150:])
    monkeypatch.setattr(identities, "BURST", 1)
    assert np.array_equal(whole, differences(x[:150], x[150:]).min(1))
    assert np.array_equal(whole, identities.nearest(x[:150], x[150:]))


def test_all_alike_and_all_values() -> None:
    same = np.full((500, 40), 255, np.uint8)
    found = identities.alike(same, np.arange(41), 255)
    assert found is not None
    found.find(0, 500)
    assert set(found.counts) == {500} and set(found.groups) == {0}
    every = np.arange(256, dtype=np.uint8)[:, None].repeat(3, 1)
    assert identities.alike(every, np.arange(4), 0) is None  # no value is left for the gaps of columns
    alone = identities.alike(every, np.arange(4))
    assert alone is not None
    alone.find(0, 256)
    assert set(alone.counts) == {1} and len(set(alone.groups)) == 256


def test_what_it_cannot_take_is_left_to_numpy() -> None:
    assert identities.alike(np.zeros((0, 4), np.uint8), np.arange(5)) is None
    assert identities.nearest(np.zeros((2, 0), np.uint8), np.zeros((3, 0), np.uint8)) is None
    wide = np.zeros((2, 2**16), np.uint8)
    assert identities.alike(wide, np.arange(2**16 + 1)) is None and identities.nearest(wide, wide) is None


MUTANTS = {
    "left too soon": ("even[r][v] <= allowed[r]) |", "even[r][v] < allowed[r]) |"),
    "odd columns are left": ("| reinterpret_cast<Shorts>(odd[r][v] <= allowed[r])", ""),
    "bytes overflow": ("STRETCH = 32;", "STRETCH = 512;"),
    "the last stretch is whole": ("std::min(begin + STRETCH, sites)", "std::max(sites / STRETCH * STRETCH, begin)"),
    "columns of one kind": ("(k % 2 ? odd : even)", "even"),
    "pairs twice": ("column <= row ||", "column == row ||"),
    "gaps of both are forgotten": ("sites - both]) return", "sites]) return"),
    "gaps of one": ("x[s] == gap && y[s] == gap", "x[s] == gap"),
    "counts of rows alone": ("counts[column].fetch_add(1,", "counts[column].fetch_add(0,"),
    "greater numbers lead": ("if (i < j) std::swap", "if (i > j) std::swap"),
    "zeros behind the last sequence": ("if (j + k < size) most", "most"),
}


@cases("name", {name: name for name in MUTANTS}, fast=["left too soon", "gaps of one"])
def test_a_wrong_comparison_is_seen(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    right = kernel()
    replace(*MUTANTS[name], tmp_path, monkeypatch)
    library = unchecked("identities", right)
    monkeypatch.setattr(identities, "kernel", lambda: library)
    assert any(wrong(size, sites, gap) for size, sites in ((203, 100), (65, 33), (90, 700)) for gap in (None, GAP))


def test_a_kernel_that_is_wrong_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    replace("STRETCH = 32;", "STRETCH = 64;", tmp_path, monkeypatch)  # has the same results
    assert kernel.__wrapped__() is not None
    monkeypatch.undo()
    replace("(k % 2 ? odd : even)", "even", tmp_path, monkeypatch)
    assert kernel.__wrapped__() is None
