"""Files that are damaged, lie or are something else: one line each, and nothing in them is executed."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ebmlab.energies import RBM, Ising
from ebmlab.errors import UserError
from ebmlab.exchange import make, read, read_samples, write

HIT: list[str] = []


class Bomb:
    def __reduce__(self) -> Any:
        return HIT.append, ("run",)


def h5(path: Path, arrays: dict[str, Any]) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        for name, value in arrays.items():
            file[name] = value


def model(**changes: Any) -> dict[str, Any]:
    plain: dict[str, Any] = {"model_type": "BBRBM", "update_1/params/weight_matrix": np.zeros((3, 2))}
    plain |= {"update_1/params/vbias": np.zeros(3), "update_1/params/hbias": np.zeros(2)}
    changed = plain | {
        f"update_1/params/{key}" if key != "model_type" else key: value for key, value in changes.items()
    }
    return {key: value for key, value in changed.items() if value is not None}


def bqm(**changes: Any) -> str:
    plain = {"type": "BinaryQuadraticModel", "variable_type": "SPIN", "offset": 0.0, "variable_labels": ["a", "b"]}
    plain |= {"num_variables": 2, "use_bytes": False, "linear_biases": [0, 1], "quadratic_biases": [1]}
    return json.dumps(plain | {"quadratic_head": [0], "quadratic_tail": [1]} | changes)


TEXTS = [
    ("# vartype=SPIN\n0 1 x\n", "line 2 is '0 1 x', and must be: i j bias"),
    ("# vartype=SPIN\n0 1\n", "must be: i j bias"),
    ("# vartype=SPIN\n0 1 nan\n", "biases are finite"),
    ("# vartype=SPIN\n-1 1 2\n", "indices begin at 0"),
    ("# vartype=SPIN\n0 1 2\n1 0 3\n", "gives 1 0 again"),
    ("# vartype=SPIN\n", "there are no variables"),
    ("# vartype=OTHER\n0 1 2\n", "spins or bits"),
    ("0 1 2\n", "give vartype"),
    ("3 3\n1 2 1\n2 3 1\n", "says 3 edges, and 2 follow"),
    ("3 2\n1 2 1\n1 4 1\n", "edge 2 is '1 4 1': nodes must be from 1 to 3"),
    ("3 1\n0 1 1\n", "edge 1 is '0 1 1': nodes must be from 1 to 3"),
    ("3 2\n1 2 1\n2 1 -1\n", "edge 2 is '2 1 -1': edge 1 joins the same nodes"),
    ("3 1\n2 2 1\n", "edge 1 is '2 2 1': it joins a node to itself"),
    ("3 1\n1 2 nan\n", "edge 1 is '1 2 nan': its weight must be finite"),
    ("1.0\n2.0\n", "2 numbers"),
    (bqm(offset=float("nan")), "NaN"),
    (bqm(linear_biases=[0, float("inf")]), "NaN or infinity"),
    (bqm(quadratic_tail=[5]), "beyond the 2"),
    (bqm(quadratic_tail=[0]), "with itself"),
    (bqm(variable_type="INTEGER"), "must be SPIN or BINARY"),
    (bqm(variable_labels=["a"]), "other lengths"),
    (bqm(quadratic_head=[]), "other lengths"),
    (bqm(linear_biases=None), "damaged"),
    (bqm()[:90], "damaged"),
    ("some words\n", "of no known format"),
]


@pytest.mark.parametrize(("text", "message"), TEXTS)
def test_text(text: str, message: str, tmp_path: Path) -> None:
    fails(tmp_path / "given", lambda path: path.write_text(text), message)


ARRAYS = [
    ({"J": np.array([[0, 1.0], [2, 0]])}, "the two triangles of J disagree: J[0, 1] is 1 and J[1, 0] 2"),
    ({"J": np.eye(2)}, "diagonal"),
    ({"J": np.ones((2, 3))}, "square"),
    ({"J": np.array([[0, np.nan], [np.nan, 0]])}, "NaN"),
    ({"J": np.zeros((2, 2)), "names": np.array(["a"])}, "1 names"),
    ({"W": np.ones((3, 2)), "b_v": np.ones(2), "b_h": np.ones(2)}, "have the shapes"),
    ({"components_": np.ones((2, 3)), "intercept_visible_": np.ones(3), "intercept_hidden_": [1, np.inf]}, "infinity"),
    ({"J": np.array([Bomb()], object)}, "pickled objects"),
]


@pytest.mark.parametrize(("arrays", "message"), ARRAYS)
def test_arrays(arrays: dict[str, Any], message: str, tmp_path: Path) -> None:
    fails(tmp_path / "given.npz", lambda path: np.savez(path, **arrays), message)


ARCHIVES = [
    (model(hbias=None), "update_1 has no hbias"),
    (model(vbias=np.zeros(4)), "have the shapes (3, 2), (4,), (2,)"),
    (model(vbias=np.array([0, np.nan, 0])), "NaN"),
    (model(model_type="PBRBM"), "the shapes (3, 2) and (3,)"),
    (model(model_type="PGRBM"), "only BBRBM, IIRBM, BGRBM, IGRBM, PBRBM are read"),
    (model(model_type="os.system"), "only BBRBM"),
    (model(weight_matrix=np.array([b"x"])), "damaged"),
    (model() | {"sampling_args/beta": -1.0}, "beta is -1"),
    ({"x": np.zeros((3, 3))}, "neither update_n"),
]


@pytest.mark.parametrize(("content", "message"), ARCHIVES)
def test_archives(content: dict[str, Any], message: str, tmp_path: Path) -> None:
    fails(tmp_path / "given.h5", lambda path: h5(path, content), message)


def test_files_that_are_cut_short(tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    pytest.importorskip("dimod")
    spins, units = Ising([[0.0, 1.0], [1.0, 0.0]]), RBM(3, 2)
    for energy, name, kind in [
        (spins, "a.bqm", None),
        (spins, "a.npz", None),
        (units, "b.h5", None),
        (units, "b.pt", "ebmkit"),
        (spins, "a.npy", "coniii"),
    ]:
        write(energy, tmp_path / name, kind=kind)
        whole = (tmp_path / name).read_bytes()
        for part in (0.3, 0.6, 0.95):
            cut = whole[: int(part * len(whole))]
            fails(tmp_path / name, lambda path, cut=cut: path.write_bytes(cut), "")


def test_nothing_in_a_file_is_executed(tmp_path: Path) -> None:
    fails(tmp_path / "model.pkl", lambda path: path.write_bytes(pickle.dumps(Bomb())), "pickled object")
    fails(tmp_path / "model.pt", lambda path: torch.save({"W": Bomb()}, path), "more than tensors")
    fails(tmp_path / "old.pt", lambda path: torch.save([Bomb()], path, _use_new_zipfile_serialization=False), "tensors")
    fails(tmp_path / "model.npy", lambda path: np.save(path, np.array([Bomb()], object)), "no vector of numbers")
    assert HIT == []


def fails(path: Path, made: Callable[[Path], Any], message: str) -> None:
    made(path)
    with pytest.raises(UserError) as error:
        read(path)
    line = str(error.value)
    assert message in line and str(path) in line and "\n" not in line


def test_objects_that_are_wrong() -> None:
    for given, message in [
        (np.zeros(4), "d fields and d"),
        (np.array([1, np.nan, 1]), "NaN"),
        ({"W": torch.zeros(2, 2)}, "no model or problem"),
        (object(), "no model or problem"),
        ({(0, 1): float("nan")}, "NaN"),
        (({0: 1.0}, {(0, 1): "x"}), "cannot be read"),
    ]:
        with pytest.raises(UserError, match=message):
            read(given)


def test_what_a_format_cannot_hold_is_refused(tmp_path: Path) -> None:
    spins, units = Ising([[0.0, 1.0], [1.0, 0.0]], 0.5), RBM(3, 2)
    for energy, name, kind, message in [
        (units, "a.coo", None, "coo holds an Ising, not RBM"),
        (spins, "a.h5", None, "rbms holds an RBM, not Ising"),
        (spins, "a.rud", None, "gset holds no fields"),
        (spins, "a.xyz", None, "say which kind"),
        (spins, "a.xyz", "thrml", "it has no files"),
        (spins, "a.xyz", "gone", "there is no format gone"),
    ]:
        with pytest.raises(UserError, match=message):
            write(energy, tmp_path / name, kind=kind)
        assert not (tmp_path / name).exists()
    with pytest.raises(UserError, match="coo has no objects"):
        make(spins, "coo")


SET = {"type": "SampleSet", "variable_labels": ["a", "b"], "variable_type": "SPIN", "num_rows": 1}
SET |= {"sample_packed": True, "sample_data": {"data": [[1]], "use_bytes": False}, "vectors": {}}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"variable_labels": ["a", "c"]}, "not those of the model: b, c"),
        ({"num_rows": 2}, "shape"),
        ({"sample_data": {"data": [], "use_bytes": False}}, "damaged|shape"),
        ({"sample_data": {"data": [[1]], "use_bytes": True}}, "bytes"),
        ({"vectors": {"num_occurrences": {"data": [1, 2]}}}, "shape"),
    ],
)
def test_sample_sets(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = tmp_path / "set.json"
    path.write_text(json.dumps(SET | changes))
    with pytest.raises(UserError, match=message):
        read_samples(path, ("a", "b"))
