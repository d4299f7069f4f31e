"""The runner of `make gpu-check`: parts that hang, crash or are not reached cost nothing but themselves."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest
import torch

from benchmarks.gpu.__main__ import parts
from benchmarks.gpu.iteration import Clock, measured
from benchmarks.gpu.parts import Part, run
from benchmarks.gpu.peers import potts_sweep, report
from ebmlab.samplers import DMALA

FINE = [sys.executable, "-S", "-c", "print('fine')"]
RAISES = [sys.executable, "-S", "-c", "print('so far', flush=True); raise SystemExit('broken')"]
HANGS = [sys.executable, "-S", "-c", "import time; print('begun', flush=True); time.sleep(60)"]


def test_each_part_has_its_limit_and_its_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    begin = time.monotonic()
    listed = [Part("hangs", HANGS, 0.3), Part("raises", RAISES, 9), Part("fine", FINE, 9)]
    assert not run(listed, tmp_path, seconds=30)
    assert time.monotonic() - begin < 50  # of the 60 s that it would take
    results = json.loads((tmp_path / "results.json").read_text())
    ended = {name: result["ended"] for name, result in results.items()}
    assert ended == {"hangs": "over its time", "raises": "failed with exit code 1", "fine": "fine"}
    assert results["hangs"]["last"] == ["begun"] and results["raises"]["last"] == ["so far", "broken"]
    assert "- hangs: over its time\n- raises: failed with exit code 1\n- fine: fine\n" in capsys.readouterr().out


def test_ctrl_c_ends_the_part_that_runs(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    own = tmp_path / "pid"
    code = f"import os, time; open({str(own)!r}, 'w').write(str(os.getpid())); os.kill(os.getppid(), 2); time.sleep(60)"
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    with pytest.raises(KeyboardInterrupt):
        run([Part("stopped", [sys.executable, "-S", "-c", code], 60)], tmp_path, seconds=60)
    with pytest.raises(ProcessLookupError):
        os.kill(int(own.read_text()), 0)


def test_what_was_not_reached_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert not run([Part("hangs", HANGS, 60), Part("fine", FINE, 9)], tmp_path, seconds=0.3)
    assert list(json.loads((tmp_path / "results.json").read_text())) == ["hangs"]
    assert "- hangs: over its time\n- fine: not reached\n" in capsys.readouterr().out
    assert run([Part("fine", FINE, 9)], tmp_path, seconds=9)


def test_the_parts_end_within_their_time() -> None:
    listed = parts("cuda", 0.2, Path("runs"))
    assert [part.name for part in listed][:4] == ["tests", "laws", "fused", "peers"]
    assert sum(part.seconds for part in listed) <= 900


def test_a_peer_has_a_row_or_a_reason(capsys: pytest.CaptureFixture[str]) -> None:
    race = potts_sweep(torch.device("cpu"), tiny=True)
    names = list(race.entries)
    missing = report(race, torch.device("cpu"), rounds=1)
    rows = [line.split(" | ")[0].removeprefix("| ") for line in capsys.readouterr().out.splitlines()[3:]]
    assert sorted(rows + [reason.partition(" (")[0] for reason in missing]) == sorted(names)
    assert "ebmlab" in rows and names[-1] == "adabmDCA"


def test_the_parts_of_an_iteration_are_timed_and_counted() -> None:
    clock = Clock(torch.device("cpu"))
    measured(clock, DMALA(0.2), 20, replayed=True)
    assert clock.rate > 0 and clock.asked["aten::convolution"] > 0
    assert all(len(times) >= 9 and min(times) > 0 for times in clock.seconds.values())
