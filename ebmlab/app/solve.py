"""`python -m ebmlab solve`: anneals chains on a problem of a file, and writes the best solutions that they found."""

from __future__ import annotations

import json
import math
import sys
import time
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ebmlab import samplers
from ebmlab.app.parsers import solve_parser
from ebmlab.app.run_folder import RUNS, SOLUTION, check_name, claim, new_run
from ebmlab.app.signals import Stopped
from ebmlab.drawing.figures import figure_png
from ebmlab.drawing.search_curve import draw_search
from ebmlab.errors import UserError, explained, how_many, shown
from ebmlab.exchange import Foreign, read
from ebmlab.io.outputs import together
from ebmlab.problems import (
    Geometric,
    Linear,
    Minimum,
    Problem,
    Qubo,
    Reheated,
    Resampled,
    Schedule,
    beta_range,
    minimise,
    pose,
)
from ebmlab.problems.chains import check_annealed

CHAINS, PICTURE, SAVED = "chains.npy", "value.png", "search.pt"
LARGE = 2**20  # bytes of a file, from which on it takes seconds until a search begins
UNFINISHED = (samplers.Sampler, samplers.MetropolisSampler)
SCHEDULES: dict[str, Callable[[float, float], Schedule]] = {
    "geometric": Geometric,
    "linear": Linear,
    "reheated": lambda first, last: Reheated(Geometric(first, last)),
    "exchange": lambda first, last: Linear(last, last),
    "population": lambda first, last: Resampled(Linear(first, last)),
}
ENDS = {
    "steps": "all steps are taken",
    "seconds": "the time is up",
    "target": "the target is reached",
    "signal": "stopped by a signal",
}


class _Search:
    """Watches a search: a line a second on stderr, and the end at the target.

    Attributes:
        found: what has been found so far; None before the first look.
    """

    def __init__(self, problem: Problem, target: float | None) -> None:
        self.problem, self.target = problem, target
        self.found: Minimum | None = None
        self._lowest, self._said = float("inf"), time.perf_counter()

    def __call__(self, found: Minimum) -> bool:
        if self.found is None and found.notes:
            print(f"goes on after {found.curve[-2][0]:.3g} s", file=sys.stderr)
        self.found = found
        lowest, values = found.curve[-1][1], found.notes
        if lowest < self._lowest:
            at = found.energy == found.energy.min()
            value = float(self.problem.decode(found.x[at][:1].to(self.problem.energy.dtype)).value[0])
            self._lowest = lowest
        else:
            value = values[-1]
        if values and self.problem.better(values[-1], value):
            value = values[-1]
        values.append(value)
        if sys.stderr.isatty() and time.perf_counter() > self._said + 1:
            self._said = time.perf_counter()
            print(f"\r{found.seconds:6.0f} s  {self.problem.unit} {value:,.9g}  ", end="", file=sys.stderr, flush=True)
        return self.target is not None and self.problem.better(value, self.target)


def run_solve(args: list[str]) -> None:
    """Runs what the words after `solve` say, and prints the best value and the files.

    Raises:
        UserError: the file or an option is not valid. Nothing has been written then.
        Stopped: a signal has come; what was found until then has been written.
    """
    options = solve_parser().parse_args(args)
    source = Path(options.file)
    _check(options)
    folder = _folder(source, options)  # before a large file is read, which takes a minute
    large = source.is_file() and source.stat().st_size > LARGE
    if large:
        print(shown(f"reading {source}"), file=sys.stderr, flush=True)
    found = read(source, kind=options.kind, vartype=options.vartype)
    problem = pose(found, options.problem)
    if large:
        print(f"preparing the search: {problem.energy.domain.size:,} variables", file=sys.stderr, flush=True)
    sampler = _sampler(options.sampler, problem)
    first, last = options.beta or beta_range(problem.energy)
    if options.schedule == "population" and options.beta is None:
        first = last / 1000  # nearly 0, from where it is weighed: random states spread far
    schedule = SCHEDULES[options.schedule](first, last)
    if options.schedule == "exchange":
        sampler = _ladder(sampler, problem, options.chains, first / last)
    search, stopped = _Search(problem, options.target), None
    torch.manual_seed(options.seed)
    try:
        minimise(
            problem.energy,
            sampler,
            schedule,
            num_chains=options.chains,
            num_steps=options.steps,
            seconds=options.seconds,
            report=search,
            saved=folder / SAVED,
        )
    except Stopped as signal:
        if search.found is None:
            raise
        stopped = signal
    if search.found is None:
        raise UserError(f"{folder} has had its {options.seconds:g} s: give more --seconds, or choose another --name")
    if sys.stderr.isatty():
        print(file=sys.stderr)
    _write(folder, options, found, search)
    if stopped is not None:
        raise stopped


def _sampler(name: str | None, problem: Problem) -> samplers.Sampler:
    energy = problem.energy
    coloured = getattr(energy, "colours", None) is not None
    sampler = _named(name or ("ChromaticMetropolis" if coloured else "PathAuxiliary"))
    check_annealed(energy, sampler)
    return sampler


def _named(name: str) -> samplers.Sampler:
    kind: Any = getattr(samplers, name) if name in samplers.__all__ else None
    if not (isinstance(kind, type) and issubclass(kind, samplers.Sampler)) or kind in UNFINISHED:
        raise UserError(f"--sampler {name}: there is no such sampler; `python -m ebmlab list samplers` names all")
    with explained(f"--sampler {name} needs settings, which `solve` has no options for: take another", TypeError):
        sampler: samplers.Sampler = kind()
    return sampler


def _ladder(kernel: samplers.Sampler, problem: Problem, chains: int, hottest: float) -> samplers.Sampler:
    """Replica exchange of all chains, in ladders of at least so many rungs as the root of the number of variables.

    The energies of a law spread by this root, so that the laws of neighbours overlap.
    """
    if not (chains > 1 and hottest < 1):
        raise UserError("--schedule exchange needs two chains or more, and a first --beta below the last one")
    least = min(chains, 2 + math.isqrt(problem.energy.domain.size))
    rungs = next(n for n in range(least, chains + 1) if chains % n == 0)
    sampler = samplers.Tempered(kernel, torch.logspace(0, math.log10(hottest), rungs).tolist())
    check_annealed(problem.energy, sampler)
    return sampler


def _check(options: Namespace) -> None:
    """Raises `UserError` for what is wrong whatever the file holds."""
    for name, value in (("seconds", options.seconds), ("chains", options.chains), ("steps", options.steps)):
        if not 0 < value < float("inf"):
            raise UserError(f"--{name} is {value}, but must be positive")
    if options.target is not None and options.target != options.target:
        raise UserError("--target is nan, but must be a number")
    if options.sampler is not None:
        _named(options.sampler)
    if options.beta is not None:
        SCHEDULES[options.schedule](*options.beta)


def _folder(source: Path, options: Namespace) -> Path:
    """A new folder, or that of the search that goes on.

    Raises:
        UserError: it says what another search of the name has found, or that no name is given.
    """
    name = options.name
    folder = RUNS / source.stem / str(name)
    if options.resume:
        if name is None:
            raise UserError("--resume starts the search of a name, or goes on with it: say which by --name")
        check_name(name)
        claim(folder)
        if links := [path for path in sorted(folder.iterdir()) if path.is_symlink()]:
            raise UserError(f"{links[0]} is a link, but must be a file of the search: remove it")
        if (folder / SOLUTION).exists() and not (folder / SAVED).exists():
            raise UserError(f"{folder} has no {SAVED} to go on from: choose another --name, or delete it")
        return folder
    if name is not None and (folder / SOLUTION).is_file():
        try:
            there = json.loads((folder / SOLUTION).read_text())
            what = f"{there['unit']} {there['value']:.9g} after {there['seconds']:.3g} s"
            other = Path(there["file"]).name
        except (OSError, ValueError, KeyError, TypeError):
            what, other = f"its {SOLUTION} cannot be read", source.name
        if other != source.name:
            raise UserError(
                f"{folder} holds a search of {shown(other)} ({what}), not of {source.name}: choose another --name"
            )
        raise UserError(f"{folder} is there already ({what}): go on by --resume, or choose another --name")
    if name is not None and (folder / SAVED).is_file():
        raise UserError(f"{folder} holds a search that was killed: go on by --resume, or choose another --name")
    return new_run(source.stem, name)


def _write(folder: Path, options: Namespace, found: Foreign, search: _Search) -> None:
    problem, minimum = search.problem, search.found
    assert minimum is not None
    solutions = problem.decode(minimum.x.to(problem.energy.dtype))
    order = solutions.value.argsort(descending=problem.goal == "max", stable=True)
    best = int(order[0])
    value, bits = float(solutions.value[best]), solutions.bits[best]
    as_good = int((solutions.value == value).sum())
    names = [name if isinstance(name, int | str) else str(name) for name in found.names or range(len(bits))]
    content = {
        "problem": type(problem).__name__,
        "file": str(options.file),
        "unit": problem.unit,
        "value": value,
        "seconds": minimum.seconds,
        "steps": minimum.steps,
        "chains": options.chains,
        "chains_with_this_value": as_good,
        "stopped": minimum.stopped or "signal",
        **(log_z := _log_z(problem, minimum)),
        "variables": names,
        "bits": bits.tolist(),
    }
    files = [folder / name for name in (SOLUTION, CHAINS, PICTURE)]
    with together(*files) as (solution, chains, picture):
        solution.write_text(json.dumps(content))
        with chains.open("wb") as file:
            np.save(file, solutions.bits[order].numpy())
        title = f"{Path(options.file).name}: {problem.unit} {value:,.9g}"
        curve = [(look[0], note) for look, note in zip(minimum.curve, minimum.notes, strict=False)]
        picture.write_bytes(figure_png(draw_search(curve, solutions.value, shown(title), problem.unit)))
    print(f"{problem.unit} {value:,.9g}, by {as_good:,} of {how_many(options.chains, 'chain')}", end=", ")
    print(f"after {how_many(minimum.steps, 'step')} in {minimum.seconds:.3g} s: {ENDS[content['stopped']]}")
    if (estimate := minimum.log_z) is not None:
        few = "; ".join(estimate.doubts[1:])  # the first says that no chains have come from the other side
        error = f"not to be trusted: {few}" if few else f"+- {estimate.std_error:.2g}, if no valley was missed"
        print(f"log Z = {log_z['log_z']:.2f} at beta = {minimum.beta:.6g}, {error}")
    print(*files, sep="\n")


def _log_z(problem: Problem, minimum: Minimum) -> dict[str, float]:
    """Log Z of the energy that the file gives, if the chains were a population."""
    estimate, beta = minimum.log_z, minimum.beta
    if estimate is None or beta is None:
        return {}
    offset = problem.found.offset if isinstance(problem, Qubo) else 0.0
    found = {"log_z": estimate.log_z - beta * offset, "log_z_std_error": estimate.std_error, "beta": beta}
    return found | {"families": estimate.num_families}
