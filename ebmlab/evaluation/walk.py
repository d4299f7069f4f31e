"""Moves chains from temperature to temperature, and weighs them."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Collection, Generator
from pathlib import Path

import torch
from torch import Tensor

from ebmlab.energies import BipartiteBridge, Bridge, Gaussian
from ebmlab.engine import require_compiler, temperatures
from ebmlab.errors import UserError
from ebmlab.evaluation.ladder import Ladder
from ebmlab.evaluation.population import Population, rows
from ebmlab.evaluation.saved_chains import SavedChains
from ebmlab.io.progress import Meter
from ebmlab.numerics.products import fast_products
from ebmlab.samplers import Leg, Sampler
from ebmlab.samplers.kernel import Kernel

POINTS = 200  # of the ladder, at which the effective number of chains is noted
CALLER = "ais(compile=True)"  # in errors


@torch.no_grad()
def anneal(
    path: Bridge,
    sampler: Sampler,
    chains: Population,
    ladder: Ladder,
    progress: bool = False,
    saved: Path | None = None,
    check: Callable[[], None] | None = None,
    resample: float = 0.0,
    num_moves: int = 1,
    compile: bool = False,
) -> None:
    """Moves the chains along the ladder; log-weights are relative to the law of the chains' first states."""
    if ladder.scales is not None and "step_size" not in dict(sampler.named_buffers(recurse=False)):
        raise UserError(f"the ladder has step sizes, but {type(sampler).__name__} has none: take another ladder")
    store = SavedChains(saved, path, sampler, (type(path).__name__, ladder, resample, num_moves), chains)
    begin, last = store.load(), len(ladder.betas) - 1
    noted = set(noted_after(last))
    if compile:
        kernel = annealing_kernel(path, sampler, resample, num_moves)
        walk = _compiled_walk(path, sampler, kernel, chains, ladder, begin, noted)
    else:
        walk = _walk(path, sampler, chains, ladder, begin, noted, resample, num_moves)
    title = "AIS" if ladder.betas[0] < ladder.betas[-1] else "AIS backward"
    meter = Meter(title, "temperature", last, first=begin, shown=progress)
    with store, meter, contextlib.closing(walk), fast_products(path, len(chains.x)):
        while begin < last:
            if check is not None:
                check()
            begin = next(walk)
            meter.passed(begin)
            store.save(begin)
    store.delete()


def _walk(
    path: Bridge,
    sampler: Sampler,
    chains: Population,
    ladder: Ladder,
    begin: int,
    noted: Collection[int],
    resample: float,
    num_moves: int,
) -> Generator[int]:
    """Moves the chains along the ladder; yields how many temperatures they have passed."""
    own, last = None, len(ladder.betas) - 1
    if ladder.scales is not None:
        sampler = copy.deepcopy(sampler)
        own = sampler.step_size.clone()  # type: ignore[operator]
    here = path.at(ladder.betas[begin])
    known = None  # what the path has computed at x; None if the sampler does not keep it
    for k in range(begin, last):
        chains.log_w += here.increment(chains.x, ladder.betas[k + 1], known).to(chains.log_w)
        if k in noted:
            chains.note()
        known = rows(known, chains.resample(resample))
        here = path.at(ladder.betas[k + 1])
        if ladder.scales is not None:
            sampler.step_size.copy_(own * ladder.scales[k + 1])  # type: ignore
        for state, _ in sampler.chain(here, chains.x, num_moves, Leg(k * num_moves, last * num_moves, known=known)):
            chains.x, known = state.x, state.known
        yield k + 1


def _compiled_walk(
    path: Bridge,
    sampler: Sampler,
    kernel: Kernel,
    chains: Population,
    ladder: Ladder,
    begin: int,
    noted: Collection[int],
) -> Generator[int]:
    """As `_walk`, by one program for several temperatures, whose weights are noted within it."""
    betas = torch.tensor(ladder.betas[begin:], dtype=torch.float64)
    settings = _settings(path, sampler, kernel, ladder)[begin:]
    for increments, x in temperatures(kernel, path, chains.x, betas, settings, CALLER):
        for k, increment in enumerate(increments, begin):
            chains.log_w += increment.to(chains.log_w)
            if k in noted:
                chains.note()
        begin += len(increments)
        chains.x = x
        yield begin


def _settings(path: Bridge, sampler: Sampler, kernel: Kernel, ladder: Ladder) -> Tensor:
    """Those of the step at each temperature but the first, `(T, numbers)`."""
    steps = len(ladder.betas) - 1
    if ladder.scales is None:
        return kernel.settings.cpu()[torch.arange(steps) % len(kernel.settings)]
    sampler, rows = copy.deepcopy(sampler), []
    own = sampler.step_size.clone()  # type: ignore[operator]
    for k, scale in enumerate(ladder.scales[1:]):
        sampler.step_size.copy_(own * scale)  # type: ignore
        scaled = sampler.kernel_on(path)
        assert scaled is not None
        rows.append(scaled.settings[k % len(scaled.settings)])
    return torch.stack(rows).cpu()


def annealing_kernel(path: Bridge, sampler: Sampler, resample: float = 0.0, num_moves: int = 1) -> Kernel:
    """The sampler's kernel on a path.

    Raises:
        UserError: it has none, the settings of `ais` ask for more than one step at each temperature, or there is no
            compiler.
    """
    if resample or num_moves > 1:
        raise UserError(
            f"AIS: resample is {resample} and num_moves {num_moves}, but compiled temperatures neither resample nor "
            "make more than one move: leave compile out, or these"
        )
    if isinstance(path, BipartiteBridge) and isinstance(path.base, Gaussian):
        raise UserError(
            f"{CALLER}: {type(sampler).__name__} draws all of v at once on the way from a Gaussian base, which cannot "
            "be compiled: take a base whose coordinates are independent, such as StandardNormal, or leave compile out"
        )
    kernel = sampler.require_compilable(path, CALLER)
    require_compiler(path.energy.device, CALLER)
    return kernel


def noted_after(last: int) -> list[int]:
    """After which of a ladder's increments the sums of the weights are noted."""
    points = min(POINTS, last)
    return [last * (i + 1) // points - 1 for i in range(points)]
