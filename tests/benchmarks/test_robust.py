"""The suite that tries to break the command line sees what it should see; its aimed kills, each by itself."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from benchmarks.robust.__main__ import Part
from benchmarks.robust.aims import AIMS
from benchmarks.robust.configs import mutated
from benchmarks.robust.endurance import endurance, grows
from benchmarks.robust.families import energies_are_right, families
from benchmarks.robust.inputs import bad_inputs
from benchmarks.robust.kills import differs, kills
from benchmarks.robust.server import Case, Outcome, judge
from ebmlab.io.files import save


@pytest.mark.parametrize(
    ("log", "code", "fault"),
    [
        ("error: num_steps is 0, but must be at least 1", 2, None),
        ("", 0, None),
        ("", None, "hung for 60 s"),
        ("Traceback (most recent call last):\nerror: a long enough message", 2, "traceback"),
        ("no line", 2, "0 error lines"),
        ("error: a long enough message\nerror: and another one of them", 2, "2 error lines"),
        ("error: cli.py, line 3: TypeError: 'int' object is not iterable", 2, "an error of the library's own"),
        ("error: own_energy.py, line 3: TypeError: 'int' object is not iterable", 2, None),
        ("Killed", -9, "exit code -9"),
    ],
)
def test_what_a_log_is_judged_to_be(log: str, code: int | None, fault: str | None, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(log)
    assert judge(Case("a", []), code, tmp_path).fault == fault


def test_a_nan_in_the_metrics_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "metrics.csv").write_text("step,loss\n0,1.0\n1,nan\n")
    assert judge(Case("a", []), 0, tmp_path).fault == "silent NaN"


@pytest.mark.slow
def test_there_are_as_many_cases_as_are_asked_for() -> None:
    assert len({case.name for case in bad_inputs()}) >= 300
    assert len({case.name for case in mutated()}) == 500
    assert [case.files for case in mutated(9)] == [case.files for case in mutated(9)]
    assert sum("random kills" in name for name in kills()) * 4 >= 30
    assert sum("random kills" not in name for name in kills()) >= 10


@pytest.mark.parametrize("what", ["state_dict", "metrics.csv", "images/a.png"])
def test_a_run_that_differs_is_told_from_one_that_does_not(what: str, tmp_path: Path) -> None:
    for name in ("one", "other"):
        content = {"state_dict": {"w": torch.zeros(3)}, "global_step": 4}
        save(content, tmp_path / name / "checkpoints" / "last.ckpt")
        (tmp_path / name / "metrics.csv").write_text("step,loss\n0,1.0\n")
    assert differs(tmp_path / "one", tmp_path / "other") is None
    if what == "state_dict":
        content["state_dict"]["w"][1] = 1e-30
        save(content, tmp_path / "other" / "checkpoints" / "last.ckpt")
    else:
        (tmp_path / "other" / what).parent.mkdir(exist_ok=True)
        (tmp_path / "other" / what).write_text("step,loss\n0,1.5\n")
    assert "differ" in str(differs(tmp_path / "one", tmp_path / "other"))


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # of JAX, if another test has imported it
@pytest.mark.slow
@pytest.mark.parametrize("name", AIMS)
def test_a_killed_run_goes_on_to_the_same_end(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EBMLAB_CACHE", str(tmp_path))
    outcome = kills()[name]()
    print(outcome.last)
    assert outcome.fault is None


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")
@pytest.mark.slow
def test_a_long_run_needs_no_more_memory_at_its_end() -> None:
    outcome = endurance(steps=4000)
    print(outcome.last)
    assert outcome.fault is None and outcome.last.startswith("4,000 steps in ")


def test_growing_memory_is_a_fault() -> None:
    flat = [(step, 100.0, 20) for step in range(100)]
    assert grows(flat) is None
    assert grows([(step, 100.0 + 0.1 * step, 20) for step in range(100)]) == "memory grows"
    assert grows([(step, 100.0, 20 + step // 50) for step in range(100)]) == "open files grow"
    assert grows(flat[:9]) == "the run was too short to tell"


def test_what_failed_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    part = Part("inputs", keep="none")
    part.add(Outcome("good", 0, "", None))
    part.add(Outcome("bad", 2, "error: no", "traceback"))
    assert part.row().startswith("| inputs | 2 | {'0': 1, '2': 1} | {'traceback': 1} |")
    cases = [Case("good", []), Case("bad", []), Case("new", [])]
    assert [outcome.name for outcome in Part("inputs", keep="all").outcomes] == ["good", "bad"]
    assert [case.name for case in Part("inputs", keep="without fault").missing(iter(cases))] == ["bad", "new"]
    assert [case.name for case in Part("inputs", keep="none").missing(iter(cases))] == ["good", "bad", "new"]


def test_at_least_900_inputs_of_different_names(tmp_path: Path) -> None:
    names = [case.name for case in (*families(), *bad_inputs())]
    assert len(names) == len(set(names)) >= 900
    (tmp_path / "out.csv").write_text("file,sample,energy\na,0,1.0\n")
    assert "in place of" in (energies_are_right(tmp_path) or "")
