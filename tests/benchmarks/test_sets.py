"""Searches side by side: rows that survive a cut, the tables made of them, and a small race."""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path

import pytest

from benchmarks import sets
from benchmarks.contestants import SEARCHES
from benchmarks.kept_rows import KeptRows

OURS, TABU = "ebmlab, Metropolis", "dwave-samplers, tabu"


def row(who: str, graph: int, curve: list[tuple[float, float]], known: float | None = None) -> dict[str, object]:
    about = {"table": "cuts like G14", "graph": graph, "who": who, "package": "", "known": known}
    return about | {"seconds": 5.0, "threads": 1, "curve": curve}


def test_a_row_survives_a_cut_line(tmp_path: Path) -> None:
    file = tmp_path / "a" / "rows.jsonl"
    KeptRows(file).add("one", {"table": "a", "x": 1})
    with file.open("a") as out:
        out.write('{"key": "cut", "tab')
    kept = KeptRows(file)
    assert "one" in kept and "cut" not in kept
    kept.add("two", {"table": "a", "x": 2})
    kept.add("one", {"table": "a", "x": 3})
    assert [row["x"] for row in KeptRows(file).of("a")] == [3, 2]


def test_the_table_of_rows() -> None:
    rows = [
        row(OURS, 0, [(0.5, 98.0), (1.0, 99.0), (5.0, 100.0)]),
        row(OURS, 1, [(5.0, 50.0)]),
        row(OURS, 2, [(5.0, 7.0)]),
        row(TABU, 0, [(2.0, 90.0), (8.0, 90.0)]),
        row(TABU, 1, [(2.0, 51.0), (5.0, 51.0)]),
    ]
    lines = sets.table(rows, "cuts").splitlines()
    assert lines[0] == "cuts; 2 graphs, 5 s, 1 thread:"
    assert lines[4:6] == [f"| {OURS} | 75.00 | 1 of 2 | not always |", f"| {TABU} | 70.50 | 1 of 2 | not always |"]
    assert f"{OURS}, all 3 graphs: 52.33." in lines and f"{TABU} took 8 s." in lines
    planted = sets.table([row(OURS, 0, [(0.5, 98.0), (1.0, 99.0), (5.0, 99.5)], known=100.0)], "loops").splitlines()
    assert planted[4] == f"| {OURS} | 99.50 | 0 of 1 | 1.00 |"


def test_names_and_words() -> None:
    assert [who for who in SEARCHES if sets.wanted(who, [OURS])] == [OURS]
    assert [who for who in SEARCHES if sets.wanted(who, ["Metropolis", "tabu"])] == [OURS, f"{OURS}, reheated", TABU]


def test_more_graphs_begin_with_the_same() -> None:
    sizes = [[made[2].energy.domain.size for made in sets.sets(graphs)] for graphs in (2, 3)]
    assert sizes[0] == sizes[1][:2]


def test_a_race_makes_each_row_once_and_writes_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sets.KINDS, "loops", (lambda graphs: islice(sets.loops(graphs), 1), 1))
    words = ["sets", "loops", "--seconds=0.2", "--graphs=1", "--only", "ebmlab"]
    monkeypatch.setattr(sys, "argv", words)
    sets.main()
    _, _, instance = next(iter(sets.loops(1)))
    ours = [who for who, (_, fits, package) in SEARCHES.items() if package is None and fits(instance)]
    rows = KeptRows(Path("benchmarks/rows/annealers.jsonl")).of("loops 1024")
    assert [row["who"] for row in rows] == ours and all(row["curve"][-1][0] < 10 for row in rows)
    assert all(row["curve"][-1][1] <= row["known"] for row in rows)
    capsys.readouterr()
    sets.main()
    assert capsys.readouterr().out == "", "all rows are there"
    page = Path("page.md")
    page.write_text("a\n<!-- loops 1024 -->\nb\n<!-- end of loops 1024 -->\nc\n")
    monkeypatch.setattr(sys, "argv", ["sets", "page", "--page=page.md"])
    sets.main()
    text = page.read_text()
    assert "b\n" not in text and all(f"| {who} | " in text for who in ours) and text.endswith("-->\nc\n")


def test_the_page_has_a_place_for_each_table() -> None:
    page = (Path(__file__).parents[2] / "docs/results/annealers.md").read_text()
    assert all(f"<!-- {name} -->\n" in page and f"<!-- end of {name} -->" in page for name in ["sweeps", *sets.TITLES])
