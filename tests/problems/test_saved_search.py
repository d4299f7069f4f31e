"""A search that was stopped goes on exactly, and a file that is none, or another search's, is one line."""

from __future__ import annotations

import os
import pickle
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers_tier import cases

from ebmlab.energies import Ising
from ebmlab.errors import UserError
from ebmlab.io.files import load, save
from ebmlab.problems import (
    Clique,
    Geometric,
    Linear,
    Minimum,
    Resampled,
    erdos_renyi,
    minimise,
    plus_minus_j,
    saved_search,
)
from ebmlab.problems.chains import Words
from ebmlab.samplers import ACS, GWG, ChromaticGibbs, DiscreteHAMS, Gibbs, PathAuxiliary, Sampler, Tempered
from ebmlab.samplers.multi_spin import MultiSpin, multi_spin

FILE = "a/search.pt"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


class Killed(BaseException):
    """Comes in the middle of an annealing, as a signal may."""


def searched(energy: Any, sampler: Sampler, chains: int, stop_at: int = 0, **options: Any) -> Minimum:
    def report(found: Minimum) -> bool:
        found.notes.append(float(found.steps))
        return found.steps == stop_at

    torch.manual_seed(0)
    settings = {"schedule": Geometric(0.1, 3.0), "num_chains": chains, "num_steps": 70, "report": report} | options
    return minimise(energy, sampler, **settings)


def test_a_full_disk_ends_no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """The states do not fit, first now and then and at last at the end; another failure is an error."""
    monkeypatch.setattr(saved_search, "EVERY", 0.0)
    energy, before = plus_minus_j(8), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.warns(UserWarning, match="a/search.pt: file too large, so that the search is not saved"):
            found = searched(energy, ChromaticGibbs(), 20, saved=FILE)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert torch.equal(found.x, searched(energy, ChromaticGibbs(), 20).x) and found.stopped == "steps"
    assert not Path(FILE).exists()
    Path("a").write_text("")
    with pytest.raises(NotADirectoryError):
        searched(energy, ChromaticGibbs(), 20, saved=FILE)


def test_a_search_whose_time_is_up_has_no_time_left(tmp_path: Path) -> None:
    """However long the last look takes, as on a busy machine, after the clock was read for it."""
    looks: list[int] = []

    def slow(found: Minimum) -> bool:
        time.sleep(0.03)
        looks.append(found.steps)
        return False

    options = {"num_chains": 2, "num_steps": 10, "seconds": 0.05, "report": slow, "saved": FILE}
    first = minimise(Ising.lattice(2, coupling=1.0), ChromaticGibbs(), Geometric(0.1, 3.0), **options)
    taken = len(looks)
    again = minimise(Ising.lattice(2, coupling=1.0), ChromaticGibbs(), Geometric(0.1, 3.0), **options)
    assert first.seconds >= 0.05 and again.seconds >= first.seconds and len(looks) == taken


CASES: dict[str, tuple[Callable[[], Any], Sampler, int]] = {
    "in words": (lambda: plus_minus_j(32, seed=1), ChromaticGibbs(), 270),
    "in floats": (lambda: plus_minus_j(6, seed=1), ChromaticGibbs(), 9),
    "by replica exchange": (lambda: plus_minus_j(6, seed=1), Tempered(ChromaticGibbs(), [1.0, 0.6, 0.3]), 9),
    "step by step": (lambda: Clique(erdos_renyi(12, 0.6, seed=4)).energy, PathAuxiliary(), 7),
    "in cycles": (lambda: plus_minus_j(6, seed=1), ACS(5.0, 0.5, cycle_length=7), 9),
    "with momenta": (lambda: plus_minus_j(6, seed=1), DiscreteHAMS(1.0), 9),
    "in turn": (lambda: plus_minus_j(6, seed=1), Gibbs(), 9),
    "a population in words": (lambda: plus_minus_j(32, seed=1), ChromaticGibbs(), 270),
    "a population": (lambda: plus_minus_j(6, seed=1), DiscreteHAMS(1.0), 9),
}


@cases("case", {case: case for case in CASES}, fast={"in words", "by replica exchange", "in cycles", "a population"})
def test_a_stopped_search_ends_in_the_same_bits(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped after 20 steps by its report, after 30 more by an exception amid a sweep, and then not at all."""
    if case == "in floats":
        monkeypatch.setattr(MultiSpin, "pays", lambda *_: False)
    make, sampler, chains = CASES[case]
    energy, population = make(), case.startswith("a population")
    schedule = Resampled(Linear(0.1, 3.0)) if population else Geometric(0.1, 3.0)
    whole = searched(energy, sampler, chains, schedule=schedule)
    assert isinstance(whole.chains.chains if population else whole.chains, Words) == case.endswith("in words")
    assert searched(energy, sampler, chains, stop_at=20, schedule=schedule, saved=FILE).steps == 20
    anneal, calls = type(whole.chains).anneal, []

    def killed(self: Any, betas: list[float]) -> None:
        calls.append(len(betas))
        anneal(self, betas)
        if len(calls) == 3:
            raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(type(whole.chains), "anneal", killed)
        searched(energy, sampler, chains, schedule=schedule, saved=FILE)
    torch.rand(17)
    found = searched(energy, sampler, chains, schedule=schedule, saved=FILE)
    assert torch.equal(found.x, whole.x) and torch.equal(found.energy, whole.energy) and found.steps == 70
    assert [look[1:] for look in found.curve] == [look[1:] for look in whole.curve]
    assert found.notes == whole.notes and [look[0] for look in found.curve] == sorted(look[0] for look in found.curve)
    again = searched(energy, sampler, chains, schedule=schedule, saved=FILE)
    assert again.steps == 70 and again.stopped == "steps" and torch.equal(again.x, whole.x), "it is finished"
    assert found.log_z == whole.log_z == again.log_z and (found.log_z is not None) == population


def test_a_search_by_time_counts_what_it_has_had() -> None:
    energy = plus_minus_j(6, seed=1)
    first = searched(energy, ChromaticGibbs(), 5, seconds=0.2, saved=FILE)
    second = searched(energy, ChromaticGibbs(), 5, seconds=0.5, saved=FILE)
    assert second.steps > first.steps and second.curve[: len(first.curve)] == first.curve and second.seconds < 5
    third = searched(energy, ChromaticGibbs(), 5, seconds=0.3, saved=FILE)
    assert (third.steps, third.stopped) == (second.steps, "seconds")


OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "problem": ("the problem of this search is another", {"energy": plus_minus_j(6, seed=2)}),
    "size": ("the problem of this search is another", {"energy": plus_minus_j(7, seed=1)}),
    "sampler": ("the sampler of this search is another", {"sampler": GWG()}),
    "chains": ("the number of chains of this search was 5, and is 6", {"num_chains": 6}),
    "steps": ("the number of steps of this search was 70, and is 80", {"num_steps": 80}),
    "schedule": (r"the schedule of this search was Geometric.*, and is Linear", {"schedule": Linear(0.1, 3.0)}),
}


@pytest.mark.parametrize("case", OTHERS)
def test_another_problem_or_setting_is_one_line(case: str) -> None:
    searched(plus_minus_j(6, seed=1), ChromaticGibbs(), 5, stop_at=20, saved=FILE)
    before = Path(FILE).read_bytes()
    message, other = OTHERS[case]
    given = {"energy": plus_minus_j(6, seed=1), "sampler": ChromaticGibbs(), "schedule": Geometric(0.1, 3.0)}
    with pytest.raises(UserError, match=message):
        minimise(**({"num_chains": 5, "num_steps": 70, "saved": FILE} | given | other))
    assert Path(FILE).read_bytes() == before


class Mark:
    """Runs code when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("executed",)


def changed(**changes: Any) -> Callable[[Any], Any]:
    return lambda kept: kept | changes


def with_chains(name: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Any], Any]:
    return lambda kept: kept | {"chains": kept["chains"] | {name: change(kept["chains"][name])}}


def with_course(**changes: Any) -> Callable[[Any], Any]:
    return lambda kept: kept | {"course": kept["course"] | changes}


HOSTILE: dict[str, Callable[[Any], Any]] = {
    "a list": lambda kept: [1],
    "no settings": lambda kept: {k: v for k, v in kept.items() if k != "settings"},
    "settings of tensors": changed(settings={"problem": torch.ones(2)}),
    "no chains": changed(chains={}),
    "chains of numbers": changed(chains={"now": 1, "best": 2}),
    "fewer chains": with_chains("now", lambda x: x[:3]),
    "other types": with_chains("best", lambda x: x.double()),
    "no spins": with_chains("best", lambda x: x * 3),
    "zeros": with_chains("now", lambda x: x * 0),
    "negative steps": changed(steps=-1),
    "steps of a tensor": changed(steps=torch.ones(2)),
    "time without end": changed(seconds=float("inf")),
    "no time": changed(seconds=float("nan")),
    "a course of words": with_course(progress="far"),
    "a course of more": with_course(more=1),
    "no progress": with_course(progress=float("nan")),
    "a curve of NaN": changed(curve=[(0.0, float("nan"), 0.0)]),
    "a curve of pairs": changed(curve=[(0.0, 1.0)]),
    "notes without looks": changed(notes=[0.0] * 9),
    "no random numbers": changed(random={}),
    "short random numbers": changed(random={"cpu": torch.zeros(3, dtype=torch.uint8)}),
    "wrong random numbers": changed(random={"cpu": torch.full((5056,), 255, dtype=torch.uint8)}),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_file_is_one_line(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MultiSpin, "pays", lambda *_: False)
    energy = plus_minus_j(6, seed=1)
    searched(energy, ChromaticGibbs(), 5, stop_at=20, saved=FILE)
    save(HOSTILE[case](load(Path(FILE))), Path(FILE))
    before = torch.get_rng_state()
    with pytest.raises(UserError, match="search"):
        minimise(energy, ChromaticGibbs(), Geometric(0.1, 3.0), num_chains=5, num_steps=70, saved=FILE)
    assert len(before)


@pytest.mark.parametrize("content", [b"", b"no search", pickle.dumps(Mark()), None])
def test_a_file_that_is_none_acts_on_nothing(content: bytes | None) -> None:
    Path("a").mkdir()
    torch.save(Mark(), FILE) if content is None else Path(FILE).write_bytes(content)
    before = Path(FILE).read_bytes()
    with pytest.raises(UserError, match="is damaged, or not the file of a search"):
        searched(plus_minus_j(6, seed=1), ChromaticGibbs(), 5, saved=FILE)
    assert not Path("executed").exists() and Path(FILE).read_bytes() == before


def test_a_file_of_before_has_the_states_alone() -> None:
    """Such a search goes on with what a new one carries."""
    energy, sampler = plus_minus_j(6, seed=1), DiscreteHAMS(1.0)
    searched(energy, sampler, 5, stop_at=20, saved=FILE)
    kept = load(Path(FILE))
    save(kept | {"chains": {name: kept["chains"][name] for name in ("now", "best")}}, Path(FILE))
    found = searched(energy, sampler, 5, saved=FILE)
    assert found.steps == 70 and bool((found.energy <= energy(kept["chains"]["best"].float())).all())


@pytest.mark.parametrize("case", ["families", "numbers"])
def test_a_population_without_sense_is_one_line(case: str) -> None:
    schedule, wrong = Resampled(Linear(0.1, 3.0)), {"families": lambda x: x + 5, "numbers": lambda x: x * torch.nan}
    searched(plus_minus_j(6, seed=1), ChromaticGibbs(), 5, stop_at=20, schedule=schedule, saved=FILE)
    save(with_chains(case, wrong[case])(load(Path(FILE))), Path(FILE))
    with pytest.raises(UserError, match="none of this energy's"):
        searched(plus_minus_j(6, seed=1), ChromaticGibbs(), 5, schedule=schedule, saved=FILE)


def test_words_in_which_the_fixed_spin_moves_are_one_line() -> None:
    energy = plus_minus_j(32, seed=1)
    searched(energy, ChromaticGibbs(), 270, stop_at=20, saved=FILE)
    kept = load(Path(FILE))
    kept["chains"]["best"][-1] = 1
    save(kept, Path(FILE))
    with pytest.raises(UserError, match="none of this energy's"):
        searched(energy, ChromaticGibbs(), 270, saved=FILE)


@pytest.mark.parametrize("words", [False, True])
def test_a_search_goes_on_where_chains_are_kept_in_another_form(words: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine without a compiler, or with one."""
    energy = plus_minus_j(6, seed=1)
    monkeypatch.setattr(MultiSpin, "pays", lambda *_: words)
    searched(energy, ChromaticGibbs(), 70, stop_at=20, saved=FILE)
    best = load(Path(FILE))["chains"]["best"]
    assert best.dtype == (torch.int64 if words else torch.int8)
    monkeypatch.setattr(MultiSpin, "pays", lambda *_: not words)
    coded = multi_spin(energy)
    assert coded is not None
    spins = coded.unpacked(best, 70) if words else best
    found = searched(energy, ChromaticGibbs(), 70, saved=FILE)
    assert found.steps == 70 and bool((found.energy <= energy(spins.float())).all())
    if not words:
        save(with_chains("best", lambda x: x[:9])(load(Path(FILE))), Path(FILE))
        with pytest.raises(UserError, match="search"):
            searched(energy, ChromaticGibbs(), 70, saved=FILE)


def test_it_is_written_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a SIGKILL leaves is the file of some look; and the energies of best states are counted anew."""
    monkeypatch.setattr("ebmlab.problems.saved_search.EVERY", 0.0)
    monkeypatch.setattr("ebmlab.problems.saved_search.SHARE", 1e9)
    energy, kept = Ising.lattice(6, 1.0), []

    def report(found: Minimum) -> bool:
        kept.append(load(Path(FILE))["steps"] if Path(FILE).exists() else 0)
        return False

    minimise(energy, ChromaticGibbs(), Geometric(0.1, 3.0), num_chains=5, num_steps=50, report=report, saved=FILE)
    assert kept == [0, 10, 20, 30, 40] and load(Path(FILE))["steps"] == 50
