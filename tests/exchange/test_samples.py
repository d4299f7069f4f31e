"""Samples of other packages as data: sample sets, chains in HDF5 and .npy files."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from ebmlab.app.cli import main
from ebmlab.datamodules import Arrays
from ebmlab.errors import UserError
from ebmlab.evaluation import exact_samples
from ebmlab.exchange import read, read_samples
from ebmlab.exchange.samples import variables


def sample_set(rows: list[list[int]], names: list[str], packed: bool = False, counts: list[int] | None = None) -> str:
    """What dimod's `to_serializable` gives; packed, each row is one number whose lowest bit is the first variable."""
    data = [[sum(2**k for k, s in enumerate(row) if s > 0)] for row in rows] if packed else rows
    content = {"type": "SampleSet", "variable_labels": names, "variable_type": "SPIN", "num_rows": len(rows)}
    content |= {"sample_packed": packed, "sample_data": {"data": data, "use_bytes": False}}
    content |= {"vectors": {"num_occurrences": {"data": counts or [1] * len(rows)}}}
    return json.dumps(content)


ROWS = [[1, -1, 1], [-1, -1, 1]]


@pytest.mark.parametrize("packed", [False, True])
def test_rows_count_as_often_as_they_occurred_in_the_order_of_the_names(packed: bool, tmp_path: Path) -> None:
    path = tmp_path / "set"
    path.write_text(sample_set(ROWS, ["c", "a", "b"], packed, [1, 2]))
    assert read_samples(path, ("a", "b", "c")).tolist() == [[-1, 1, 1], [-1, 1, -1], [-1, 1, -1]]
    assert read_samples(path).tolist() == [[1, -1, 1], [-1, -1, 1], [-1, -1, 1]]


def test_dimods_own_sample_sets_over_more_than_one_word(tmp_path: Path) -> None:
    dimod = pytest.importorskip("dimod")
    values = 2 * np.random.default_rng(0).integers(0, 2, (5, 70)).astype(np.int8) - 1
    names = [f"v{k}" for k in range(70)]
    made = dimod.SampleSet.from_samples((values, names), energy=np.zeros(5), vartype="SPIN")
    (tmp_path / "set.json").write_text(json.dumps(made.to_serializable()))
    for given in (tmp_path / "set.json", made):
        np.testing.assert_array_equal(read_samples(given, names), values)


def test_numbers_come_in_their_order(tmp_path: Path) -> None:
    (tmp_path / "set").write_text(sample_set(ROWS, [2, 0, 1]))  # type: ignore[list-item]
    assert read_samples(tmp_path / "set").tolist() == [[-1, 1, 1], [-1, 1, -1]]


def test_numbers_from_one_come_in_their_order(tmp_path: Path) -> None:
    (tmp_path / "set").write_text(sample_set(ROWS, [3, 1, 2]))  # type: ignore[list-item]
    assert read_samples(tmp_path / "set").tolist() == [[-1, 1, 1], [-1, 1, -1]]
    assert variables(tmp_path / "set") == ("1", "2", "3")


def test_numbers_of_numpy_come_in_their_order() -> None:
    record = SimpleNamespace(sample=np.array(ROWS), num_occurrences=np.array([1, 1]))
    given = SimpleNamespace(variables=[np.int64(k) for k in (3, 1, 2)], record=record)
    assert read_samples(given).tolist() == [[-1, 1, 1], [-1, 1, -1]]


def test_variables_that_are_called_alike_are_refused(tmp_path: Path) -> None:
    (tmp_path / "set.json").write_text(sample_set(ROWS, ["b", "a", "b"]))
    for read_it in (read_samples, variables):
        with pytest.raises(UserError, match="several variables are called b"):
            read_it(tmp_path / "set.json")
    np.savez(tmp_path / "a.npz", J=np.zeros((2, 2)), names=np.array(["x", "x"]))
    with pytest.raises(UserError, match="several variables are called x"):
        read(tmp_path / "a.npz")


def test_variables_of_arrays_are_put_in_the_order_of_the_training_file(tmp_path: Path) -> None:
    (tmp_path / "set.json").write_text(sample_set(20 * [[1, -1, -1]], ["b", "a", "c"]))
    (tmp_path / "other.json").write_text(sample_set(4 * [[-1, -1, 1]], ["c", "a", "b"]))
    data = Arrays(str(tmp_path / "set.json"), val=str(tmp_path / "other.json"), domain="spin", batch_size=4)
    assert data.preprocessing.columns == ("b", "a", "c")
    for loader in (data.train_dataloader(), data.val_dataloader()):
        assert next(iter(loader)).tolist() == 4 * [[1, -1, -1]]
    (tmp_path / "other.json").write_text(sample_set(4 * [[-1, -1, 1]], ["c", "a", "d"]))
    with pytest.raises(UserError, match="b, d is only in one of them"):
        Arrays(str(tmp_path / "set.json"), val=str(tmp_path / "other.json"), domain="spin").val_dataloader()


def test_arrays_take_sample_sets_and_hdf5(tmp_path: Path) -> None:
    (tmp_path / "set.json").write_text(sample_set(20 * ROWS, ["a", "b", "c"]))
    data = Arrays(str(tmp_path / "set.json"), domain="spin", batch_size=4)
    assert set(next(iter(data.train_dataloader())).unique().tolist()) == {-1, 1}
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "chains.h5", "w") as file:
        file["parallel_chains"] = np.random.default_rng(0).integers(0, 2, (50, 6)).astype(np.float32)
        file["other"] = np.zeros((3, 3))
    assert Arrays(str(tmp_path / "chains.h5"), domain="binary").event_shape == (6,)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["ebmlab"])


def test_score_says_whether_samples_follow_the_law(folder: None, capsys: pytest.CaptureFixture[str]) -> None:
    torch.manual_seed(0)
    Path("ring.coo").write_text("# vartype=SPIN\n" + "".join(f"{i} {(i + 1) % 8} -0.8\n" for i in range(8)))
    main(["convert", "ring.coo", "ring"])
    energy = read("ring.coo").energy
    good = exact_samples(energy, 1000).int()
    Path("good.json").write_text(sample_set(good.tolist(), list(range(8))))  # type: ignore[arg-type]
    np.save("bad.npy", energy.random(1000).numpy())
    np.save("chains.npy", good.view(100, 10, 8).numpy())
    main(["score", "good.json", "bad.npy", "chains.npy", "--ckpt_path", "ring", "--law"])
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    verdicts = [line for line in lines if line.startswith("law")]
    assert [line.partition(" (p")[0] for line in verdicts] == [
        "law, exactly: no sign against the law",
        "law, exactly: NOT samples of the law",
        "law, exactly: no sign against the law",
    ]
    assert "R-hat 1.0" in next(line for line in lines if line.startswith("chains.npy"))


def test_a_large_model_is_judged_by_the_first_file(folder: None, capsys: pytest.CaptureFixture[str]) -> None:
    Path("free.coo").write_text("# vartype=SPIN\n" + "".join(f"{i} {i} 0.5\n" for i in range(30)))
    main(["convert", "free.coo", "free"])
    law = np.random.default_rng(0).random((2, 1000, 30)) < 1 / (1 + np.exp(1))
    np.save("good.npy", 2 * law[0] - 1)
    np.save("more.npy", 2 * law[1] - 1)
    np.save("bad.npy", 1 - 2 * law[1])
    main(["score", "good.npy", "more.npy", "bad.npy", "--ckpt_path", "free", "--law"])
    verdicts = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  law")]
    assert "too many" in verdicts[0] and "no sign" in verdicts[1] and "NOT" in verdicts[2]
    np.save("held.npy", np.repeat(2 * law[0, :150].reshape(15, 10, 30) - 1, 50, axis=0))  # 10 chains, 50 steps a state
    main(["score", "held.npy", "more.npy", "bad.npy", "--ckpt_path", "free", "--law"])
    verdicts = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  law")]
    assert "too many" in verdicts[0] and "no sign" in verdicts[1] and "NOT" in verdicts[2]
