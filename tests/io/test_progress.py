"""What a long loop says where there is no terminal."""

from __future__ import annotations

import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch

import ebmlab
from ebmlab.app.failures import in_one_line
from ebmlab.app.run_folder import how_to_go_on
from ebmlab.app.signals import Stopped
from ebmlab.datamodules import ising_samples
from ebmlab.energies import Ising, NoisyMLP, RealMLP, reference
from ebmlab.evaluation import ais, exchange_log_z, saved_chains
from ebmlab.io import progress
from ebmlab.io.progress import Meter
from ebmlab.learners import ContrastiveDivergence, DenoisingScoreMatching, DiffusionRecovery
from ebmlab.samplers import Gibbs, TrajectoryTempered
from ebmlab.samplers.draws import Draws


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_lines_say_how_far_and_how_long(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with Meter("AIS", "temperature", 100_000) as meter:
        for seconds, count in ((4.0, 1000), (49.1, 12_000), (50.0, 12_100), (60.0, 15_000)):
            clock[0] = seconds
            meter.passed(count)
    assert capsys.readouterr().err.splitlines() == [
        "AIS, temperature 12,000 of 100,000, 6 min left",
        "AIS, temperature 15,000 of 100,000, 6 min left",
    ]


def test_what_was_done_before_does_not_count_as_speed(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with Meter("AIS", "temperature", 100, first=50) as meter:
        clock[0] = 10.0
        meter.passed(60)
    assert capsys.readouterr().err == "AIS, temperature 60 of 100, 40 s left\n"


def test_other_ranks_are_silent(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with Meter("AIS", "temperature", 100, shown=False) as meter:
        clock[0] = 10.0
        meter.passed(60)
    assert capsys.readouterr().err == ""


def test_ais_speaks(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(progress, "PATIENCE", -1.0)
    ais(Ising.lattice(2, 0.3), Gibbs(), num_chains=20, num_temperatures=12, progress=True)
    assert capsys.readouterr().err == "AIS, temperature 1 of 12, 0 s left\n"


def test_replica_exchange_completions_and_samples_of_a_lattice_speak(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "PATIENCE", -1.0)
    monkeypatch.setattr("ebmlab.trained.model.TOGETHER", 1)
    energy = Ising.lattice(2, 0.3)
    x, base = energy.domain.random(4), reference(energy.domain)
    exchange_log_z(energy, TrajectoryTempered(Gibbs(), []), base=base, x=x, num_steps=20, progress=True)
    ising_samples.gibbs(4, 0.1, 3, 2, torch.Generator())
    model = ebmlab.load("zoo/rbm-digits")
    model.complete(torch.zeros(2, 1, 8, 8), torch.ones(1, 8, 8, dtype=torch.bool).triu(), num_steps=1)
    begins = [line.rpartition(",")[0] for line in capsys.readouterr().err.splitlines()]
    assert begins == [
        "replica exchange, step 1 of 20",
        "Ising samples 4x4, sweep 1 of 2",
        "completing, sample 1 of 2",
    ]


@pytest.mark.parametrize(
    ("learner", "steps"),
    [
        (lambda: ContrastiveDivergence(Ising.lattice(3, 0.2), Gibbs(), num_steps=4), 4),
        (lambda: DiffusionRecovery(NoisyMLP(2), noise_levels=[0.3, 1.0, 4.0], num_steps=4), 12),
        (lambda: DenoisingScoreMatching(NoisyMLP(2, lowest=0.3), noise_levels=[0.3, 1.0], num_steps=4), 8),
        (lambda: DenoisingScoreMatching(RealMLP(2), noise_levels=[0.3, 1.0], num_steps=4), 4),
    ],
)
def test_a_batch_of_chains_tells_its_steps(
    learner: Callable[[], Draws], steps: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last line is that of the last step, also where a walk takes so many steps at each of several noise levels."""
    monkeypatch.setattr(progress, "PATIENCE", -1.0)
    monkeypatch.setattr(progress, "pause", lambda spent: -1.0)
    drawn = list(learner().draws([3, 0, 2]))
    lines = capsys.readouterr().err.splitlines()
    counts = [*range(1, steps + 1), *range(2 * steps + 1, 3 * steps + 1)]
    assert [line.rpartition(",")[0] for line in lines] == [f"sampling, step {k} of {3 * steps}" for k in counts]
    assert [len(x) for x in drawn] == [3, 0, 2]


def test_batches_are_those_of_chains_drawn_one_after_the_other() -> None:
    learner = ContrastiveDivergence(energy := Ising.lattice(3, 0.2), Gibbs(), num_steps=4)
    torch.manual_seed(0)
    expected = [learner.draw(energy.random(n), 5) for n in (3, 2)]
    torch.manual_seed(0)
    torch.testing.assert_close(list(learner.draws([3, 2], 5, shown=False)), expected, rtol=0, atol=0)


def test_an_interrupted_ais_says_what_it_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(saved_chains, "EVERY", -1.0)
    calls: list[int] = []

    def check() -> None:
        calls.append(1)
        if len(calls) == 4:
            raise Stopped(signal.SIGINT)

    with pytest.raises(SystemExit) as end, in_one_line(partial(how_to_go_on, ["test"])):
        ais(Ising.lattice(2, 0.3), Gibbs(), num_chains=20, num_temperatures=12, saved=tmp_path / "ais.pt", check=check)
    (file,) = tmp_path.iterdir()
    said = f"AIS has kept its chains after 3 temperatures in {file}"
    assert capsys.readouterr().err == f"stopped by Ctrl-C: {said}; give the same command again\n"
    assert end.value.code == 130


def test_an_annealing_that_was_not_saved_yet_is_not_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def check() -> None:
        raise Stopped(signal.SIGINT)

    with pytest.raises(SystemExit), in_one_line(partial(how_to_go_on, ["test"])):
        ais(Ising.lattice(2, 0.3), Gibbs(), num_chains=20, num_temperatures=12, saved=tmp_path / "ais.pt", check=check)
    assert capsys.readouterr().err == "stopped by Ctrl-C: nothing was kept; give the same command again\n"


def test_a_sweep_that_is_stopped_has_kept_its_trials(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit), in_one_line(partial(how_to_go_on, ["sweep"])):
        raise KeyboardInterrupt
    kept = "trials that have ended are kept; give the same command again"
    assert capsys.readouterr().err == f"stopped by Ctrl-C: {kept}\n"
