"""`ebmlab solve`: values against brute force and by recounting, what stops it, and one line for bad input."""

from __future__ import annotations

import itertools
import json
import math
import re
import resource
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from ebmlab.app.cli import main
from ebmlab.app.solve import _Search
from ebmlab.exchange import write
from ebmlab.problems import Minimum, erdos_renyi, frustrated_loops

QUICK = ("--chains=20", "--steps=50", "--seconds=0.3")


@pytest.fixture
def edges(run: Callable[..., None]) -> set[tuple[int, int]]:
    """The edges of a graph of 12 nodes, counted from 1, which lies in a.rud and a.col of the working directory."""
    graph = erdos_renyi(12, 0.4, seed=1)
    ends = zip(graph.rows.tolist(), graph.columns.tolist(), strict=True)
    found = {(i + 1, j + 1) for i, j in ends if i < j}
    Path("a.rud").write_text(f"12 {len(found)}\n" + "".join(f"{i} {j}\n" for i, j in sorted(found)))
    Path("a.col").write_text(f"p edge 12 {len(found)}\n" + "".join(f"e {i} {j}\n" for i, j in sorted(found)))
    return found


def solution(folder: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(Path("runs", folder, "solution.json").read_text())
    return content


def test_a_cut_is_the_largest_and_is_that_of_its_bits(edges: set[tuple[int, int]], capsys: Any) -> None:
    main(["solve", "a.rud", *QUICK, "--name=b"])
    out, there = capsys.readouterr().out, solution("a/b")
    sides = dict(zip(there["variables"], there["bits"], strict=True))
    cut = sum(sides[i] != sides[j] for i, j in edges)
    best = max(sum(bits[i - 1] != bits[j - 1] for i, j in edges) for bits in itertools.product((0, 1), repeat=12))
    assert cut == there["value"] == best and out.startswith(f"cut {best}, by ")
    chains = np.load("runs/a/b/chains.npy")
    assert chains.shape == (20, 12) and chains[0].tolist() == there["bits"]
    values = [sum(row[i - 1] != row[j - 1] for i, j in edges) for row in chains.tolist()]
    assert values == sorted(values, reverse=True)
    assert np.asarray(Image.open("runs/a/b/value.png").convert("L")).std() > 5
    assert there["stopped"] == "seconds" and there["seconds"] > 0.29  # rounded another way
    assert out.splitlines()[0].endswith(" s: the time is up")


@pytest.mark.parametrize(("problem", "joined"), [("independent_set", False), ("clique", True)])
def test_a_set_is_the_largest(problem: str, joined: bool, edges: set[tuple[int, int]]) -> None:
    main(["solve", "a.col", f"--problem={problem}", *QUICK, "--name=b"])
    there = solution("a/b")
    chosen = [name for name, bit in zip(there["variables"], there["bits"], strict=True) if bit]
    assert all((pair in edges) == joined for pair in itertools.combinations(chosen, 2))
    sets = (c for k in range(13) for c in itertools.combinations(range(1, 13), k))
    best = max(len(c) for c in sets if all((pair in edges) == joined for pair in itertools.combinations(c, 2)))
    assert len(chosen) == there["value"] == best


def test_a_large_file_is_announced(edges: set[tuple[int, int]], capsys: Any) -> None:
    Path("big.rud").write_text(Path("a.rud").read_text() + "\n" * 2**20)
    main(["solve", "big.rud", *QUICK, "--name=b"])
    assert capsys.readouterr().err.splitlines() == ["reading big.rud", "preparing the search: 12 variables"]
    main(["solve", "a.rud", *QUICK, "--name=b"])
    assert capsys.readouterr().err == ""


def test_it_stops_at_the_target(run: Callable[..., None]) -> None:
    planted = frustrated_loops(6, 20, seed=0)
    write(planted.energy, "loops.coo")
    main(["solve", "loops.coo", f"--target={planted.ground}", "--seconds=60", "--name=b", "--schedule=reheated"])
    there = solution("loops/b")
    assert (there["value"], there["stopped"], there["problem"]) == (planted.ground, "target", "Qubo")
    assert there["seconds"] < 30


def test_replica_exchange_of_the_command_goes_on(edges: set[tuple[int, int]], capsys: Any) -> None:
    """20 chains on 12 nodes are four ladders of five rungs."""
    words = ("--chains=20", "--steps=50", "--schedule=exchange", "--name=e", "--resume")
    main(["solve", "a.rud", *words, "--seconds=0.1"])
    longer = solution("a/e")["seconds"] + 0.1  # on a busy machine the first run has taken more than it should
    main(["solve", "a.rud", *words, f"--seconds={longer}"])
    assert "goes on after" in capsys.readouterr().err
    content, chains = solution("a/e"), np.load("runs/a/e/chains.npy")
    assert content["chains"] == len(chains) == 20
    assert content["value"] == max(sum((k >> (i - 1) ^ k >> (j - 1)) & 1 for i, j in edges) for k in range(2**11))


def test_a_population_says_log_z_of_the_file(edges: set[tuple[int, int]], capsys: Any) -> None:
    """Of the energy that the file gives, its offset included, by brute force."""
    Path("a.coo").write_text("# vartype=BINARY\n0 0 1\n0 1 -2\n1 2 3\n2 2 -1\n")
    main(["solve", "a.coo", "--chains=1000", "--steps=40", "--seconds=0.5", "--name=p", "--schedule=population"])
    line, there = capsys.readouterr().out.splitlines()[1], solution("a/p")
    values = [x * (1 - 2 * y) + 3 * y * z - z for x, y, z in itertools.product((0, 1), repeat=3)]
    exact = math.log(sum(math.exp(-there["beta"] * value) for value in values))
    assert abs(there["log_z"] - exact) < 4 * there["log_z_std_error"] + 1e-9
    assert re.fullmatch(r"log Z = [-\d.]+ at beta = [\d.]+, \+- [\d.e-]+, if no valley was missed", line)
    main(["solve", "a.coo", "--chains=5", "--steps=4", "--seconds=0.3", "--name=q", "--schedule=population"])
    assert "not to be trusted: 5 forward chains are too few" in capsys.readouterr().out


def test_ctrl_c_keeps_the_best(edges: set[tuple[int, int]], capsys: Any) -> None:
    def interrupt() -> None:
        while not seen:
            time.sleep(0.01)
        signal.raise_signal(signal.SIGINT)

    before = {signum: signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM)}
    seen: list[int] = []
    look = _Search.__call__
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as ended:
        patch.setattr(_Search, "__call__", lambda self, found: bool(look(self, found) or seen.append(1)))
        patch.setattr(threading.Timer, "start", lambda self: None)  # which would kill the tests ten seconds later
        thread = threading.Thread(target=interrupt)
        thread.start()
        main(["solve", "a.rud", "--seconds=60", "--name=b"])
    thread.join()
    for signum, handler in before.items():  # the process was to end, and ignores them
        signal.signal(signum, handler)
    err = capsys.readouterr().err
    assert ended.value.code == 130 and "stopped by Ctrl-C: the best that was found is in runs/a/b" in err
    there = solution("a/b")
    sides = dict(zip(there["variables"], there["bits"], strict=True))
    assert there["stopped"] == "signal" and there["value"] == sum(sides[i] != sides[j] for i, j in edges)


@pytest.mark.slow
def test_a_killed_search_goes_on_to_the_same_solution(edges: set[tuple[int, int]], capsys: Any) -> None:
    """After nine looks, with and without a stop after three; seconds do not matter, as there are plenty."""
    planted = frustrated_loops(40, 400, seed=3)
    write(planted.energy, "loops.coo")
    words = ("solve", "loops.coo", "--seconds=1e9", "--chains=70", "--steps=40")
    look, seen = _Search.__call__, []

    def until(count: int) -> Callable[..., bool]:
        def stop(self: _Search, found: Minimum) -> bool:
            look(self, found)
            seen.append(found.steps)
            return len(found.curve) == count

        return stop

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_Search, "__call__", until(9))
        main([*words, "--name=whole"])
        patch.setattr(_Search, "__call__", until(3))
        main([*words, "--name=b", "--resume"])
        for file in ("solution.json", "chains.npy", "value.png"):
            Path("runs/loops/b", file).unlink()
        patch.setattr(_Search, "__call__", until(9))
        assert "holds a search that was killed: go on by --resume" in fails(capsys, *words[1:], "--name=b")
        main([*words, "--name=b", "--resume"])
    assert "goes on after" in capsys.readouterr().err
    parts = {name: {k: v for k, v in solution(f"loops/{name}").items() if k != "seconds"} for name in ("whole", "b")}
    assert parts["whole"] == parts["b"] and seen.count(seen[-1]) == 2
    for name in ("whole", "b"):
        assert len(np.load(f"runs/loops/{name}/chains.npy")) == 70
    assert Path("runs/loops/whole/chains.npy").read_bytes() == Path("runs/loops/b/chains.npy").read_bytes()


def test_the_solution_is_written_where_the_search_does_not_fit(edges: set[tuple[int, int]], capsys: Any) -> None:
    """A limit on the size of files stands in for a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.warns(UserWarning, match=r"runs/a/b/search.pt: file too large, so that the search is not saved"):
            main(["solve", "a.rud", "--sampler=Gibbs", "--chains=5000", "--steps=5", "--seconds=0.1", "--name=b"])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    there = solution("a/b")
    sides = dict(zip(there["variables"], there["bits"], strict=True))
    assert there["value"] == sum(sides[i] != sides[j] for i, j in edges)
    assert not Path("runs/a/b/search.pt").exists() and np.load("runs/a/b/chains.npy").shape == (5000, 12)


def test_what_a_resumed_search_refuses(edges: set[tuple[int, int]], capsys: Any) -> None:
    main(["solve", "a.rud", *QUICK, "--name=b", "--resume"])
    assert "--resume starts the search of a name" in fails(capsys, "a.rud", "--resume")
    message = "runs/a/b has had its 0.3 s: give more --seconds"
    assert message in fails(capsys, "a.rud", *QUICK, "--name=b", "--resume")
    other = fails(capsys, "a.rud", *QUICK[:1], "--steps=60", "--seconds=1", "--name=b", "--resume")
    assert "search.pt: the number of steps of this search was 50, and is 60" in other
    Path("mine.txt").write_text("mine")
    Path("runs/a/b/chains.npy").unlink()
    Path("runs/a/b/chains.npy").symlink_to(Path("mine.txt").absolute())
    assert "chains.npy is a link" in fails(capsys, "a.rud", *QUICK[:2], "--seconds=1", "--name=b", "--resume")
    assert Path("mine.txt").read_text() == "mine"
    Path("runs/a/b/chains.npy").unlink()
    Path("runs/a/b/search.pt").unlink()
    assert "has no search.pt to go on from" in fails(capsys, "a.rud", *QUICK, "--name=b", "--resume")


def test_a_second_search_says_what_is_there(edges: set[tuple[int, int]], capsys: Any) -> None:
    main(["solve", "a.rud", *QUICK, "--name=b"])
    before = Path("runs/a/b/solution.json").read_bytes()
    value = re.escape(f"{json.loads(before)['value']:.9g}")
    assert re.search(
        f"runs/a/b is there already .cut {value} after .* choose another --name", fails(capsys, "a.rud", "--name=b")
    )
    assert Path("runs/a/b/solution.json").read_bytes() == before


def test_files_that_differ_by_their_suffix_are_told_apart(edges: set[tuple[int, int]], capsys: Any) -> None:
    words = ("a.col", "--problem=clique", *QUICK, "--name=b")
    main(["solve", "a.rud", *QUICK, "--name=b"])
    assert "runs/a/b holds a search of a.rud (cut " in (line := fails(capsys, *words))
    assert line.endswith(" s), not of a.col: choose another --name")
    assert "the problem of this search is another" in fails(capsys, *words, "--resume")


BAD = [
    (("none.rud",), "none.rud: no such file"),
    (("a.col",), "a.col is a graph: say which problem, max_cut, independent_set, clique, normalised_cut (--problem)"),
    (("bad.col", "--problem=clique"), "bad.col: edge 1 is 'e 0 1': nodes must be from 1 to 3"),
    (("a.rud", "--sampler=Nonsense"), "there is no such sampler"),
    (("a.rud", "--sampler=decide"), "there is no such sampler"),
    (("a.rud", "--sampler=Sampler"), "there is no such sampler"),
    (("a.rud", "--sampler=MetropolisSampler"), "there is no such sampler"),
    (("a.rud", "--sampler=DMALA"), "--sampler DMALA needs settings"),
    (("a.col", "--problem=clique", "--sampler=SwendsenWang"), "it needs an Ising or Potts model"),
    (("a.rud", "--sampler=Wolff"), "Wolff samples Ising, but not at other temperatures"),
    (("a.rud", "--seconds=0"), "--seconds is 0.0, but must be positive"),
    (("a.rud", "--chains=0"), "--chains is 0, but must be positive"),
    (("a.rud", "--beta", "2", "1"), "Geometric: beta goes from 2.0 to 1.0"),
    (("a.rud", "--target=nan"), "--target is nan"),
    (("a.rud", "--name=a/b"), "--name is 'a/b'"),
    (("empty.rud",), "there is nothing to minimise"),
    (("a.rud", "--schedule=exchange", "--chains=1"), "--schedule exchange needs two chains or more"),
    (("a.rud", "--schedule=exchange", "--beta", "2", "2"), "a first --beta below the last one"),
]


@pytest.mark.parametrize(("words", "message"), BAD)
def test_bad_input_is_one_line_and_writes_nothing(
    words: tuple[str, ...], message: str, edges: set[tuple[int, int]], capsys: Any
) -> None:
    Path("bad.col").write_text("p edge 3 1\ne 0 1\n")
    Path("empty.rud").write_text("3 0\n")
    assert message in fails(capsys, *words)
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("--name=b", "runs/a/b is there already (cut "),
        ("--seconds=0", "--seconds is 0.0, but must be positive"),
        ("--sampler=Nonsense", "there is no such sampler"),
        ("--beta 2 1", "Geometric: beta goes from 2.0 to 1.0"),
    ],
)
def test_a_large_file_is_not_read_before_the_options_are_checked(
    word: str, message: str, edges: set[tuple[int, int]], capsys: Any
) -> None:
    main(["solve", "a.rud", *QUICK, "--name=b"])
    Path("a.rud").write_text("this would be told first, had the file been read\n")
    assert message in fails(capsys, "a.rud", *word.split())
    assert "say which kind" in fails(capsys, "a.rud", "--name=c") and not Path("runs/a/c").exists()


def fails(capsys: Any, *words: str) -> str:
    """The one line of a command that fails with exit code 2."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as failed:
        main(["solve", *words])
    lines: list[str] = capsys.readouterr().err.strip().splitlines()
    assert failed.value.code == 2 and len(lines) == 1, lines
    return lines[0]
