"""Arrays of any layout, byte order and type say the same numbers, wherever they come in."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers_errors import one_line
from torch import Tensor

from ebmlab.data.numbers import as_numbers
from ebmlab.datamodules import Arrays, FromDataset
from ebmlab.domains import Real
from ebmlab.energies import GRBM, Clamped, Ising, ResNet, ScalarPotts
from ebmlab.samplers import ACS, DMALA, AnyScale
from ebmlab.samplers.initial_states import FromPoint
from ebmlab.studies.targets import LatticeGaussian, LogisticPosterior


def read_only(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    x = x.copy()
    x.flags.writeable = False
    return x


FORMS: dict[str, Callable[[np.ndarray[Any, Any]], Any]] = {
    "flipped": lambda x: x[..., ::-1].copy()[..., ::-1],
    "upside down": lambda x: x[::-1].copy()[::-1],
    "big-endian": lambda x: x.astype(x.dtype.newbyteorder(">")),
    "longdouble": lambda x: x.astype(np.longdouble),
    "read-only": read_only,
    "Fortran order": np.asfortranarray,
    "every second": lambda x: np.repeat(x, 2, -1)[..., ::2],
    "nested lists": lambda x: x.tolist(),
    "an unsigned type": lambda x: x.astype(np.uint16) if (x >= 0).all() and (x == x.round()).all() else x,
    "bfloat16 tensor": lambda x: torch.from_numpy(x).bfloat16(),
}
SQUARE = np.array([[0.0, 1.0, -2.0], [1.0, 0.0, 0.5], [-2.0, 0.5, 0.0]])
ROWS = np.array([[1.0, 0.0, 2.0], [0.5, -1.0, 0.0]])


def clamped(x: Any) -> Tensor:
    return Clamped(GRBM(3, 2), x, mask=np.array([True, False, True])[::-1].copy()[::-1]).given


class Items(torch.utils.data.Dataset[Any]):
    """Rows as a user's data set gives them."""

    def __init__(self, make: Callable[[np.ndarray[Any, Any]], Any]) -> None:
        self.make = make

    def __len__(self) -> int:
        return 20

    def __getitem__(self, i: int) -> Any:
        return self.make(np.array([1.0 + i, 0.5, -2.0]))


ENTRIES: dict[str, tuple[np.ndarray[Any, Any], Callable[[Any], Tensor]]] = {
    "as_numbers": (ROWS, lambda x: as_numbers(x, "x")),
    "Ising": (SQUARE, lambda J: Ising(J).coupling),
    "Ising, field": (ROWS[0], lambda h: Ising(SQUARE, h).field),
    "Potts, field": (ROWS, lambda h: ScalarPotts([[0.0, 1.0], [1.0, 0.0]], h).field),
    "Clamped": (np.array([1.0, 7.0, -2.0]), clamped),
    "LogisticPosterior": (ROWS, lambda X: LogisticPosterior(X, [1, 0]).features),
    "LogisticPosterior, targets": (np.array([1.0, 0.0]), lambda y: LogisticPosterior(ROWS, y).targets),
    "LatticeGaussian": (np.array([[2.0, 0.5], [0.5, 1.0]]), lambda A: LatticeGaussian(A, [0.0, 0.0]).precision),
    "LatticeGaussian, mean": (np.array([2.0, 0.5]), lambda b: LatticeGaussian(np.eye(2), b).mean),
    "ResNet": (np.array([[0.5, 0.25], [0.75, 0.5]]), lambda base: ResNet((2, 2), 2, base=base).base_logits),
    "DMALA": (np.array([2.0, 0.5]), lambda p: DMALA(0.1, precondition=p).options.precondition),
    "ACS": (np.array([2.0, 0.5]), lambda a: ACS(step_sizes=a, balances=[0.5, 0.5], cycle_length=2).step_sizes),
    "AnyScale": (np.array([2.0, 0.5]), lambda c: AnyScale("diagonal", curvature=c).curvature),
    "FromPoint": (np.array([1.0, 0.0, 1.0]), lambda x: FromPoint(x).draw(Ising(SQUARE), 2)),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("entry", ENTRIES)
def test_every_form_of_an_array_is_the_same_numbers(entry: str, form: str) -> None:
    plain, use = ENTRIES[entry]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a read-only array is copied, not shared with a warning
        found, right = use(FORMS[form](plain)), use(plain.copy())
    torch.testing.assert_close(found.double(), right.double(), rtol=0, atol=0 if form != "nested lists" else 1e-6)


@pytest.mark.parametrize("form", FORMS)
def test_items_of_a_data_set(form: str) -> None:
    data = FromDataset(Items(FORMS[form]), batch_size=4, standardize=False)
    rows = data.raw("train")
    assert rows[:, 1].unique().tolist() == [0.5] and rows[:, 2].unique().tolist() == [-2.0]


@pytest.mark.parametrize("form", ["flipped", "big-endian", "longdouble", "Fortran order", "an unsigned type"])
def test_files_of_arrays(form: str, tmp_path: Path) -> None:
    x = np.arange(60.0).reshape(20, 3)
    np.save(tmp_path / "x.npy", FORMS[form](x))
    np.savez(tmp_path / "several.npz", x=FORMS[form](x), y=FORMS[form](x[:, 0]))
    for path, labels in (("x.npy", None), ("several.npz", "y")):
        rows = Arrays(str(tmp_path / path), labels=labels, standardize=False, batch_size=4).raw("train")
        assert {tuple(row) for row in rows.tolist()} <= {tuple(row) for row in x.tolist()}, path


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2, torch.float16, torch.uint16])
def test_tensors_of_small_types(kind: torch.dtype, tmp_path: Path) -> None:
    x = torch.arange(40.0).view(20, 2) % 8
    torch.save(
        {"x": x.to(kind), "y": torch.arange(20).to(torch.bfloat16), "z": torch.zeros(3, dtype=torch.complex64)},
        tmp_path / "x.pt",
    )
    data = Arrays(str(tmp_path / "x.pt"), labels="y", domain="ordinal", num_values=8, batch_size=4)
    assert data.num_classes == 20
    assert torch.cat([data.raw(s) for s in ("train", "val", "test")]).double().sum() == x.double().sum()


def test_a_file_is_told_by_its_content(tmp_path: Path) -> None:
    x = np.arange(60.0).reshape(20, 3)
    np.savez(tmp_path / "a.npz", x=x, y=x[:, 0])
    os.rename(tmp_path / "a.npz", tmp_path / "archive.npy")
    np.save(tmp_path / "a.npy", x)
    os.rename(tmp_path / "a.npy", tmp_path / "single.npz")
    for name, labels in (("archive.npy", None), ("archive.npy", "y"), ("single.npz", None)):
        data = Arrays(str(tmp_path / name), labels=labels, standardize=False, batch_size=4)
        assert data.event_shape == (3,) and (data.num_classes is None) == (labels is None)


WRONG: list[tuple[Any, str]] = [
    (np.array([2**63 + 5], dtype=np.uint64), "x holds 9223372036854775813, but whole numbers must be below 2**63"),
    (
        torch.tensor([2**64 - 1], dtype=torch.uint64),
        "x holds 18446744073709551615, but whole numbers must be below 2**63",
    ),
    (np.array([1j]), "x holds values of the type complex128; they must be real numbers"),
    (torch.ones(1, dtype=torch.complex64), "x holds values of the type torch.complex64"),
    (["a"], "they must be real numbers"),
    (np.array([object()]), "x holds objects; they must be real numbers"),
    (np.array(["2026-01-01"], dtype="datetime64[D]"), "they must be real numbers"),
    (np.ma.array([1.0, 2.0], mask=[False, True]), "x is an array with masked entries"),
    (torch.eye(2).to_sparse(), "give x.to_dense()"),
    ([[1.0], [1.0, 2.0]], "x is no array of numbers"),
]


@pytest.mark.parametrize(("x", "words"), WRONG, ids=[words for _, words in WRONG])
def test_what_is_no_array_of_numbers_is_refused_in_a_line(x: Any, words: str) -> None:
    assert words in one_line(lambda: as_numbers(x, "x"))


def test_what_is_given_is_not_shared_when_it_may_not_be_written() -> None:
    x = read_only(np.zeros(2))
    as_numbers(x, "x").add_(1)
    assert x.tolist() == [0.0, 0.0]


def test_numbers_of_lists_have_torchs_default_type_and_arrays_keep_theirs() -> None:
    assert as_numbers([[1.0, 2.0]], "x").dtype == torch.float32 and Real(1).random(1).dtype == torch.float32
    assert as_numbers([np.float64(1.0)], "x").dtype == as_numbers(np.ones(2), "x").dtype == torch.float64
    assert as_numbers(True, "x").dtype == torch.bool and as_numbers(np.int8(3), "x").item() == 3
