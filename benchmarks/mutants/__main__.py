"""`python -m benchmarks.mutants [260]`: do the fast tests notice small mistakes?

A mutant is one small change of the syntax tree: a comparison, an operator, a sign, a number, `and` for `or`, `min` for
`max`, a dropped `not`, call or statement. Defaults in signatures, annotations, messages and assertions stay as they
are. The sample holds the mutants with the smallest hashes, so that a change elsewhere leaves it as it is.

A mutant meets the fast tests of the layers that call the function it is in (outside functions, any of its file): first
those of its own file, then the quickest, up to `BUDGETS` seconds. A failure kills it, and so do the time limits.
Each runs in a fork of a process that has imported torch, in a copy of the tree. `.mutants/` keeps what was killed and
what each test calls; survivors are run again.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from benchmarks.mutants.changes import Mutant, mutants

ROOT = Path(__file__).parents[2]
KEPT, EQUIVALENT = ROOT / ".mutants", Path(__file__).with_name("equivalent.yaml")
LAYERS = (
    "ebmlab/samplers",
    "ebmlab/energies",
    "ebmlab/learners",
    "ebmlab/evaluation",
    "ebmlab/callbacks",
    "ebmlab/datamodules",
    "ebmlab/testing",
    "ebmlab/studies/targets",
)
IMPORTED_ONCE = "pytorch_lightning.cli torchvision torchmetrics.image.fid sklearn.utils.estimator_checks transformers"
BUDGETS, LIMIT, WALL = (4.0, 40.0), 200, 900  # seconds: of tests for a mutant, of its CPU time, of its whole time


class Watch:
    """A pytest plugin: which tests failed; if `traced`, each test's CPU seconds and the functions that it calls."""

    def __init__(self, tree: Path, traced: bool) -> None:
        self.tree, self.failed, self.tests = f"{tree}/", list[str](), dict[str, Any]()
        self.shared = self.seen = set[Any]()  # `shared`: what collecting and setting up call
        if traced:
            sys.settrace(lambda frame, event, argument: self.seen.add(frame.f_code))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: Any) -> Iterator[None]:
        self.seen, begin = set(), time.process_time()
        try:
            yield
            self.tests[item.nodeid] = time.process_time() - begin, self.named(self.seen)
        finally:
            self.seen = self.shared

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    pytest_collectreport = pytest_runtest_logreport  # a file whose import fails

    def named(self, codes: set[Any]) -> list[str]:
        """`path function` of those that are ours; what a function defines within itself counts as itself."""
        ours = [c for c in tuple(codes) if c.co_filename.startswith(self.tree)]
        names = {f"{c.co_filename.removeprefix(self.tree)} {c.co_qualname.split('.<locals>')[0]}" for c in ours}
        return sorted(n for n in names if n.startswith(LAYERS))


class Job(NamedTuple):
    """Tests to run in a child, with a mutant or, traced, without; `done` gets the exit code and the report."""

    tests: list[str]
    done: Callable[[int, dict[str, Any]], None]
    mutant: Mutant | None = None

    def start(self, tree: Path) -> Any:
        """Forks the child, the mutant in its tree."""
        if self.mutant:
            shutil.copy2(tree / self.mutant.path, tree / "original")
            (tree / self.mutant.path).write_text(self.mutant.source(ROOT))
        child = get_context("fork").Process(target=self.work, args=(tree,))
        child.start()
        return child

    def work(self, tree: Path) -> None:
        """In the child: runs the tests and writes the report."""
        os.setsid()
        os.chdir(tree)
        sys.path.insert(0, str(tree))
        os.environ["PYTHONPATH"] = str(tree)
        for stream in (1, 2):
            os.dup2(os.open(tree / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)
        if self.mutant:
            resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT))
        watch = Watch(tree, traced=not self.mutant)
        quiet = ["-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning", "--tb=no"]
        options = [*quiet, "-m", "not slow", f"--basetemp={tree}/tmp", *(["-x"] if self.mutant else [])]
        code = pytest.main([*options, *self.tests], plugins=[watch])
        report = {"failed": watch.failed, "tests": watch.tests, "shared": watch.named(watch.shared)}
        (tree / "report").write_text(json.dumps(report))
        os._exit(code)

    def end(self, tree: Path, code: int) -> None:
        """Takes the mutant out of the tree and hands the report over."""
        if self.mutant:
            shutil.copy2(tree / "original", tree / self.mutant.path)
        report = tree / "report"
        self.done(code, json.loads(report.read_text()) if report.exists() else {})
        report.unlink(missing_ok=True)


def run(jobs: list[Job], trees: list[Path]) -> None:
    """Runs the jobs, one child at a time in each tree."""
    todo, running = jobs[::-1], dict[Path, Any]()
    while todo or running:
        for tree in trees:
            if tree not in running and todo:
                running[tree] = (job := todo.pop()), job.start(tree), time.monotonic()
        for tree, (job, child, begin) in list(running.items()):
            if child.is_alive() and time.monotonic() - begin > WALL:
                os.killpg(child.pid, signal.SIGKILL)
                child.join()
            if not child.is_alive():
                del running[tree]
                job.end(tree, child.exitcode)
        time.sleep(0.02)


def reach(trees: list[Path]) -> tuple[dict[str, float], dict[str, set[str]]]:
    """Seconds of every fast test, and the tests that call each function; kept by the test file's content."""
    (KEPT / "calls").mkdir(parents=True, exist_ok=True)
    folders = *dict.fromkeys(layer.split("/")[1] for layer in LAYERS), ""
    paths = [p for name in folders for p in sorted((ROOT / "tests" / name).glob("test_*.py"))]
    kept = {p: KEPT / "calls" / f"{p.stem}-{hashlib.sha256(p.read_bytes()).hexdigest()[:12]}.json" for p in paths}
    tell = {p: lambda code, report, k=k: k.write_text(json.dumps(report)) for p, k in kept.items()}
    run([Job([str(p.relative_to(ROOT))], tell[p]) for p, k in kept.items() if not k.exists()], trees)
    seconds, calls = dict[str, float](), defaultdict[str, set[str]](set)
    for report in (json.loads(k.read_text()) for k in kept.values()):
        for test, (duration, functions) in report.get("tests", {}).items():
            seconds[test] = duration
            for name in [*functions, *report["shared"]]:
                calls[name].add(test)
    return seconds, calls


def selection(mutant: Mutant, seconds: dict[str, float], calls: dict[str, set[str]], budget: float) -> list[str]:
    """The tests that a mutant meets, in order."""
    whole = [tests for name, tests in calls.items() if name.startswith(f"{mutant.path} ")]
    tests = calls.get(f"{mutant.path} {mutant.function}") or set[str]().union(*whole)
    chosen, total = [], 0.0
    for test in sorted(tests, key=lambda t: (Path(mutant.path).stem not in t.split("::")[0], seconds[t], t)):
        total += seconds[test]
        if total < budget:
            chosen.append(test)
    return chosen


def table(everything: list[Mutant], drawn: list[Mutant], equivalent: set[str], killed: set[str]) -> Iterator[str]:
    """The rows of the report, by layer."""
    yield "| layer | possible | drawn | equivalent | killed | rate |\n|---|---|---|---|---|---|"
    for layer in (*LAYERS, ""):
        keys = {m.key for m in drawn if m.path.startswith(layer)}
        same, dead = len(keys & equivalent), len(keys & killed - equivalent)
        rate = 100 * dead / max(1, len(keys) - same)
        possible = sum(m.path.startswith(layer) for m in everything)
        yield f"| {layer or 'all'} | {possible} | {len(keys)} | {same} | {dead} | {rate:.1f} % |"


def main() -> None:
    """Runs the mutants that have no result yet; prints the survivors and the table."""
    for module in IMPORTED_ONCE.split():
        import_module(module)
    everything = [m for layer in LAYERS for p in sorted((ROOT / layer).rglob("*.py")) for m in mutants(p, ROOT)]
    everything.sort(key=lambda m: hashlib.sha256(m.key.encode()).digest())
    drawn = everything[: int(sys.argv[1]) if sys.argv[1:] else 260]
    equivalent = {entry["mutant"] for entry in yaml.safe_load(EQUIVALENT.read_text())}
    results = KEPT / "killed.json"
    killed: dict[str, str] = json.loads(results.read_text()) if results.exists() else {}
    with tempfile.TemporaryDirectory(prefix="ebmlab-mutants-") as folder:
        trees = [Path(folder, str(k)) for k in range(2)]
        for tree in trees:
            shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".*", "__pycache__", "runs", "wandb"))
        seconds, calls = reach(trees)

        def job(mutant: Mutant, tests: list[str]) -> Job:
            def done(code: int, report: dict[str, Any]) -> None:
                failed = report.get("failed")
                if failed or code not in (0, 3, 4, 5):  # 3 to 5 say that pytest had nothing to run
                    killed[mutant.key] = failed[0] if failed else f"exit code {code}"
                    results.write_text(json.dumps(killed, indent=1))

            return Job(tests, done, mutant)

        for budget in BUDGETS:
            left = {m: selection(m, seconds, calls, budget) for m in drawn if m.key not in equivalent | killed.keys()}
            run([job(m, tests) for m, tests in left.items() if tests], trees)
    print(*(f"survived {len(tests)} tests: {m.key}" for m, tests in left.items() if m.key not in killed), sep="\n")
    print(*table(everything, drawn, equivalent, killed.keys()), sep="\n")


if __name__ == "__main__":
    main()
