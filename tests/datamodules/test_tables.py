"""Tables in .csv files: which line holds names, which column labels, and which tables belong together."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers_errors import one_line
from helpers_trainer import quiet_trainer

import ebmlab
from ebmlab.app.cli import main
from ebmlab.data.preprocessing import Preprocessing, moments
from ebmlab.datamodules import Arrays
from ebmlab.energies import GRBM
from ebmlab.learners import ContrastiveDivergence, FromNoise
from ebmlab.reading.number_files import read_numbers
from ebmlab.reading.tables import read_head, read_table
from ebmlab.samplers import BlockGibbs


def table(text: str) -> Path:
    Path("t.csv").write_text(text, encoding="utf-8")
    return Path("t.csv")


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("text", "labels", "rows", "names"),
    [
        ("5,3,setosa\n4,2,virginica\n", 2, [[5, 3], [4, 2]], ["setosa", "virginica"]),  # UCI's files have no names
        ("5,3,setosa\n4,2,virginica\n", -1, [[5, 3], [4, 2]], ["setosa", "virginica"]),
        ("a,5,3\nb,4,2\n", "0", [[5, 3], [4, 2]], ["a", "b"]),
        ("0,1,kind\n5,3,a\n", "kind", [[5, 3]], ["a"]),
        ("0,1,kind\n5,3,a\n", 2, [[5, 3]], ["a"]),  # the names that pandas gives
        ("x,y,kind\n5,3,a\n", 2, [[5, 3]], ["a"]),
        ('"height, cm",width,kind\n5,3,a\n', "kind", [[5, 3]], ["a"]),
        ('"height, cm",width,kind\n5,3,a\n', "height, cm", None, None),  # kind is no number
        ("x,y,kind\n5,3, a\n4,2,a \n", "kind", [[5, 3], [4, 2]], ["a", "a"]),
    ],
)
def test_the_first_line_is_a_sample_unless_it_holds_names(text: str, labels: Any, rows: Any, names: Any) -> None:
    if rows is None:
        assert "'a' in column kind is no number" in one_line(lambda: read_numbers(table(text), labels, "x"))
        return
    x, y = read_numbers(table(text), labels, "x")
    assert y is not None and (x.tolist(), y.tolist()) == (rows, names)


READ: dict[str, tuple[str, list[list[float]], list[str]]] = {
    "one column whose name has a space": ("body height\n1.5\n2\n", [[1.5], [2]], ["body height"]),
    "a comma in a header of a semicolon table": (
        "height, cm;width\n1;2\n3;4\n",
        [[1, 2], [3, 4]],
        ["height, cm", "width"],
    ),
    "decimal commas": ("x;y\n1,5;2\n-3,25;1e-3\n", [[1.5, 2], [-3.25, 0.001]], ["x", "y"]),
    "decimal commas without names": ("1,5;2,5\n3,0;4,5\n", [[1.5, 2.5], [3, 4.5]], []),
    "decimal commas in one column": ("x\n1,5\n2,5\n", [[1.5], [2.5]], ["x"]),
    "decimal commas between tabs": ("1,5\t2,5\n3,0\t4,5\n", [[1.5, 2.5], [3, 4.5]], []),
    "a line feed in a quoted name": ('"body\nheight",y\n1,2\n3,4\n', [[1, 2], [3, 4]], ["body height", "y"]),
    "a line feed and decimal commas": ('"body\nheight";y\n1,5;2\n3;4\n', [[1.5, 2], [3, 4]], ["body height", "y"]),
    "True and False": ("x,y\n1,True\n2,FALSE\n", [[1, 1], [2, 0]], ["x", "y"]),
    "True and False without names": ("True,False\nFalse,False\n", [[1, 0], [0, 0]], []),
    "a comma at the end of lines": ("x,y,\n1,2,\n3,4,\n", [[1, 2], [3, 4]], ["x", "y"]),
    "a comma at the end of samples": ("x,y\n1,2,\n3,4,\n", [[1, 2], [3, 4]], ["x", "y"]),
    "a comma at the end of some": ("x,y\n1,2\n3,4,\n", [[1, 2], [3, 4]], ["x", "y"]),
    "empty lines": ("\nx,y\n\n1,2\n\n3,4\n\n", [[1, 2], [3, 4]], ["x", "y"]),
    "white space": ("  x   y \n 1   2 \n3\t4\n", [[1, 2], [3, 4]], ["x", "y"]),
    "Windows lines": ("x;y\r\n1,5;2\r\n", [[1.5, 2]], ["x", "y"]),
    "one sample": ("1,5;2,5\n", [[1.5, 2.5]], []),
    "three decimals in each": ("x;y\n1,500;2,125\n3,250;4,000\n", [[1.5, 2.125], [3.25, 4]], ["x", "y"]),
    "three decimals, and fewer": ("x;y\n1,125;2\n3,25;4\n7;5\n", [[1.125, 2], [3.25, 4], [7, 5]], ["x", "y"]),
    "three decimals beside a large number": ("x;y\n1,125;2\n3000;4\n", [[1.125, 2], [3000, 4]], ["x", "y"]),
    "three decimals after a zero": ("x;y\n0,125;2\n3;4\n", [[0.125, 2], [3, 4]], ["x", "y"]),
}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("case", READ)
def test_tables_as_programs_write_them(case: str, encoding: str) -> None:
    text, rows, names = READ[case]
    Path("t.csv").write_bytes(text.encode(encoding))
    x, labels = read_numbers(Path("t.csv"), None, "x")
    assert labels is None and x.tolist() == [pytest.approx(row) for row in rows]
    assert read_head(Path("t.csv")).names == names


@pytest.mark.parametrize("text", ["kind,height,tall\n2,171.5,\n", "kind,height,tall,\n2,171.5,,\n"])
def test_a_named_column_stays_where_all_its_cells_are_empty(text: str) -> None:
    Path("a.csv").write_text(text)
    np.testing.assert_equal(read_table(Path("a.csv"), None, holes=True)[0], [[2.0, 171.5, np.nan]])


def test_labels_of_a_table_that_is_read_cell_by_cell() -> None:
    x, labels = read_numbers(table("x;kind;y\n1,5;iris setosa;True\n2;b;False\n"), "kind", "x")
    assert labels is not None and labels.tolist() == ["iris setosa", "b"] and x.tolist() == [[1.5, 1], [2, 0]]


def test_a_large_table_that_is_read_cell_by_cell_takes_little_more_than_its_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ebmlab.reading.cells.LOOKED_AT", 10)
    rows = np.random.default_rng(0).integers(10**6, size=(4000, 5)) / 1e3
    path = table("".join(f"{','.join(map(str, row))},\n" for row in rows.tolist()))  # read so for its last commas
    tracemalloc.start()
    x, _ = read_table(path, None)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert np.array_equal(x, rows) and most < 3 * rows.nbytes


def test_other_encodings_and_open_quotation_marks_are_named() -> None:
    Path("t.csv").write_bytes("Höhe,y\n1,2\n".encode("latin-1"))
    assert "t.csv is no text in UTF-8 or UTF-16: save the table in UTF-8" in one_line(
        lambda: read_numbers(Path("t.csv"), None, "x")
    )
    assert "t.csv, line 2: a quotation mark is opened and not closed" in one_line(
        lambda: read_numbers(table('x,y\n"1,2\n' + 20_000 * "3,4,5,6\n"), None, "x")
    )


@pytest.mark.parametrize(
    ("text", "labels", "wrong"),
    [
        (
            "5,3,setosa\n4,2,setosa\n",
            None,
            "line 2: 'setosa' in column 2 is no number: if it is a label, set labels to 2",
        ),
        ("5,NA,1\n4,2,1\n", None, "line 1: 'NA' in column 1 is no number"),
        ("5,?,a\n4,2,b\n", 2, "line 1: '?' in column 1 is no number"),
        ("5,,1\n4,2,1\n", None, "line 1: the cell of column 1 is empty: fill it"),
        ("x,y\n1,NA\n", None, "line 2: 'NA' in column y is no number"),
        ("\tx\ty\n0\t5\t3\n", None, "the first column has no name, like the row numbers of pandas"),
        ("\tx\ty\n0\t5\t3\n", "y", "the first column has no name, like the row numbers of pandas"),
        ('"x","y"\n"1",5,3\n', None, "line 2: the number of cells is 3, but 2 in the first line: remove row names"),
        ('"x","y"\n\n"1",5,3\n', "y", "line 3: the number of cells is 3, but 2 in the first line: remove row names"),
        ("x,x\n1,2\n", "x", "several columns are called x: set labels to the number of one of them"),
        ("x,y\n1\n2\n", None, "line 2: the number of cells is 1, but 2 in the first line"),
        ("1,5;2\n2.5;3\n", None, "line 2: some numbers have a decimal comma, others a point: take one"),
        ("x;y\n1.234,5;2\n", None, "line 2: '1.234,5' in column x is no number"),
        ("x;y\n432;1\n5,411;2\n", None, "line 3: '5,411' may have a comma of thousands: write it without the comma"),
        ("x\ty\n-999\t1\n-5,411\t2\n", None, "line 3: '-5,411' may have a comma of thousands"),
        ("x,y\n1,True\n2,maybe\n", None, "line 3: 'maybe' in column y is no number"),
        ("x,y\n1,1_000\n", None, "line 2: '1_000' in column y is no number"),
        ("body height\n1.5\nabc\n", None, "line 3: 'abc' in column body height is no number"),
        ('"body\nheight",y\n1,"a\nb"\n', None, "line 3: 'a b' in column y is no number"),
    ],
)
def test_no_sample_is_lost_and_no_row_number_becomes_a_feature(text: str, labels: Any, wrong: str) -> None:
    found = one_line(lambda: read_numbers(table(text), labels, "x"))
    assert wrong in found and "t.csv" in found
    if "NA" in wrong or "?" in wrong:
        assert "label" not in found


@pytest.mark.parametrize("names", ["2019,2020,2021", "400.5,401.0,401.5"])
def test_names_that_are_numbers_are_warned_of(names: str) -> None:
    rows = "".join(f"{i},{2 * i},5\n" for i in range(9))
    with pytest.warns(
        UserWarning, match=rf"the first line, {names.replace(',', ', ')}, is read as a sample; .* letter"
    ):
        x, _ = read_numbers(table(f"{names}\n{rows}"), None, "x")
    assert len(x) == 10
    assert len(read_numbers(table(f"y{names}\n{rows}"), None, "x")[0]) == 9
    assert len(read_numbers(table(f"1,2,3\n{rows}"), None, "x")[0]) == 10  # a sample like the others


def test_columns_in_another_order_are_refused() -> None:
    rows = [f"{i},{100 + 3 * (i % 7)}\n" for i in range(40)]
    swapped = [",".join(reversed(row.strip().split(","))) + "\n" for row in rows]
    files = {"a": ["x,y\n", *rows], "b": ["y,x\n", *swapped], "bare": rows}
    for name, lines in files.items():
        Path(f"{name}.csv").write_text("".join(lines))
    for split in ("val", "test"):
        data = Arrays("a.csv", batch_size=10, **{split: "b.csv"})  # type: ignore[arg-type]
        wrong = (
            "b.csv: column 0 of the samples is y, but x in the training data: give the same columns in the same order"
        )
        assert wrong in one_line(lambda data=data, split=split: data.raw(split))
    data = Arrays("a.csv", batch_size=10, val="bare.csv")
    assert data.preprocessing.columns == ("x", "y") and Preprocessing.from_dict(data.preprocessing.to_dict()).columns
    torch.manual_seed(0)
    learner = ContrastiveDivergence(GRBM(2, 3), BlockGibbs(), start=FromNoise(), num_steps=1)
    trainer = quiet_trainer(Path(), max_epochs=1)
    trainer.fit(learner, data)
    trainer.save_checkpoint("m.ckpt")
    main(["score", "a.csv", "bare.csv", "--ckpt_path=m.ckpt", "--output=s.csv"])
    scores = np.loadtxt("s.csv", delimiter=",", skiprows=1, usecols=2)
    x = torch.tensor([[float(n) for n in row.split(",")] for row in rows])
    assert scores == pytest.approx(ebmlab.load("m.ckpt").energy(x).repeat(2).tolist(), abs=1e-4)
    with pytest.raises(SystemExit, match="2"):
        main(["score", "b.csv", "--ckpt_path=m.ckpt", "--output=s.csv"])
    assert "column 0 of the samples is y" in one_line(lambda: Arrays("b.csv").adopt(data.preprocessing))


@pytest.mark.parametrize("unit", [1e-47, 1e39])
def test_numbers_beyond_those_of_float32_are_standardised(unit: float) -> None:
    x = np.random.default_rng(0).normal(3, 1, (200, 2)) * [unit, 1]
    np.save("x.npy", x)
    data = Arrays("x.npy")
    states = data.states("train")
    raw = data.raw("train").double()
    torch.testing.assert_close(states.double(), (raw - raw.mean(0)) / raw.std(0, correction=0), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(data.to_raw(states).double(), raw, rtol=1e-5, atol=0)


@pytest.mark.parametrize("unit", [1e-170, 1e200])
def test_numbers_without_a_variance_are_refused(unit: float) -> None:
    raw = torch.tensor([[1.0, unit], [1.0, 2 * unit]], dtype=torch.float64)
    wrong = "column or channel 1, counted from 0, are too large or too small"
    assert wrong in one_line(lambda: moments(raw, Preprocessing((2,))))


def test_a_file_that_is_removed_during_training_does_not_keep_its_checkpoints_from_being_written() -> None:
    Path("t.csv").write_text("a,b\n" + "1,2\n3,5\n" * 10)
    data = Arrays("t.csv", batch_size=2)
    data.setup("fit")
    Path("t.csv").unlink()
    assert data.preprocessing.columns == ("a", "b")
