"""The benchmark harness: which programs it times, in which order, and what it records."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from helpers_tier import cases as in_tiers

from benchmarks import cases, harness
from benchmarks.__main__ import main
from benchmarks.harness import Contestant, Race, chosen, run_race
from benchmarks.tables import TABLES, put, rows


def _missing() -> Contestant:
    raise ModuleNotFoundError("No module named 'elsewhere'")


def _broken() -> Contestant:
    raise RuntimeError("first line\nsecond line")


@pytest.fixture
def order(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The contestants in the order in which they ran. Each reports 1 second for a run, the peer 3."""
    calls: list[str] = []
    monkeypatch.setattr(harness, "SHORTEST", 0.0)
    monkeypatch.setattr(harness.gc, "collect", lambda: 0)  # seconds among the objects of all tests
    return calls


def _race(calls: list[str]) -> Race:
    def entry(name: str, seconds: float) -> harness.Make:
        return lambda: Contestant(lambda: (calls.append(name), seconds)[1], "1 / 1", own_clock=True)

    return Race(
        "A race",
        2,
        {
            "ebmlab": entry("ebmlab", 1.0),
            "peer": entry("peer", 3.0),
            "absent": _missing,
            "broken": _broken,
            "floor": entry("floor", 0.5),
        },
    )


def test_turns_alternate_and_rotate(order: list[str]) -> None:
    run_race(_race(order), 3)
    assert order[6:] == ["ebmlab", "peer", "floor", "peer", "floor", "ebmlab", "floor", "ebmlab", "peer"]


def test_times_are_per_unit_and_missing_packages_are_named(order: list[str]) -> None:
    results = run_race(_race(order), 3)
    assert results["ebmlab"].seconds == [0.5] * 3
    assert harness.ratios(results, "peer") == [3.0] * 3
    assert results["absent"].missing == "not installed: No module named 'elsewhere'"
    assert results["broken"].missing == "failed: first line"
    assert math.isnan(results["absent"].median)
    table = rows("a-race", harness.as_data(_race(order), results))
    assert "3.00 | 3.00 to 3.00 | 6.00" in table[1]
    assert any("not installed" in line for line in table)


def test_the_result_of_a_run_is_not_taken_for_its_time() -> None:
    results = run_race(Race("A race", 1, {"ebmlab": lambda: Contestant(lambda: 1000.0)}), 1)
    assert 0 < results["ebmlab"].median < 1000


def test_a_failure_of_ebmlab_raises(order: list[str]) -> None:
    with pytest.raises(RuntimeError, match="first line"):
        run_race(Race("A race", 1, {"ebmlab": _broken}), 1)


def test_json_and_chart_are_written(order: list[str], tmp_path: Path) -> None:
    contest = _race(order)
    data = {"machine": harness.machine(), "races": {"a": harness.as_data(contest, run_race(contest, 2))}}
    harness.write(tmp_path, data)
    (written,) = tmp_path.glob("results-*.json")
    contestants = json.loads(written.read_text())["races"]["a"]["contestants"]
    assert contestants["peer"]["median"] == 1.5
    assert "absent" in contestants
    assert written.with_suffix(".png").stat().st_size > 1000


def test_tables_replace_those_of_the_page(order: list[str]) -> None:
    contest = _race(order)
    races = {"a": harness.as_data(contest, run_race(contest, 3)) | {"updates": 10**9}}
    texts = {name: make(races) for name, (_, make) in TABLES.items()}
    assert "| `a` | 500 ms |  | peer 3.00 |" in texts["short"] and texts["ahead"] == "None."
    assert "| `a` | ebmlab | 2.000 |" in texts["spins"] and "| A race (`a`) | **ebmlab** |" in texts["all"]
    page = put("before\n<!-- short -->\nold\n<!-- end of short -->\nafter", "short", "new")
    assert page == "before\n<!-- short -->\nnew\n<!-- end of short -->\nafter"
    with pytest.raises(SystemExit, match="end of ahead"):
        put(page, "ahead", "new")


def test_names_choose_races(capsys: pytest.CaptureFixture[str]) -> None:
    assert chosen(["dmala"]) == [f"dmala-{n}" for n in (1, 16, 100, 1000, 10000)]
    assert chosen(["acs"]) == ["acs-100"]
    assert set(chosen([])) == set(harness.RACES)
    with pytest.raises(SystemExit, match="2"):
        chosen(["dmla"])
    assert "no race is called dmla" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", [["--threads", "0"], ["--rounds", "0"], ["--rounds", "-1"], ["--threads", "two"]])
def test_numbers_below_one_are_refused(
    wrong: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["python -m benchmarks", *wrong])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert f"{wrong[1]!r} is not a whole number of at least 1" in capsys.readouterr().err


# Their networks and the packages of their peers take seconds to set up.
DEAR = {f"{kernel}-{target}" for kernel in ("hmc", "nuts") for target in ("network", "schools", "normals")}
DEAR |= {"rbm-epoch-bare", "rbm-epoch-trainer", "trajectory"}


@in_tiers("name", {name: name for name in harness.RACES}, fast=harness.RACES.keys() - DEAR)
def test_every_race_can_be_set_up(name: str) -> None:
    assert cases.__doc__
    contest = harness.RACES[name]()
    assert next(iter(contest.entries)) == "ebmlab"
    assert contest.title and contest.units >= 1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # of a peer
@pytest.mark.filterwarnings("ignore:You passed in a `val_dataloader` but have no `validation_step`")  # of a peer
@pytest.mark.parametrize("name", ["dmala-1", "block-gibbs-1", "checkerboard-20", "trainer", "rbm-pcd-1", "lattice-20"])
def test_races_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "SHORTEST", 0.0)
    results = run_race(harness.RACES[name](), 1)
    assert results["ebmlab"].median > 0
    assert not any(t.missing.startswith("failed") for t in results.values())
