"""Annealed importance sampling whose temperatures are compiled programs (`ais(compile=True)`)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator

import torch
from torch import Tensor

from ebmlab.energies import Bridge
from ebmlab.errors import UserError
from ebmlab.evaluation.ladder import Ladder
from ebmlab.evaluation.population import Population
from ebmlab.samplers import Sampler
from ebmlab.samplers.compiled import UNROLLED, PureSteps, Tensors, compiling, require_compiler
from ebmlab.samplers.pure_steps import start_path

CALLER = "ais(compile=True)"  # in errors


def compiled_walk(
    path: Bridge, kernel: PureSteps, chains: Population, ladder: Ladder, begin: int, noted: Collection[int]
) -> Generator[int]:
    """Moves the chains along the ladder, `UNROLLED` temperatures at a time, each time by one program.

    Inverse temperatures are rounded to the precision of x, at least float32. The weights are those of the rounded ones.

    Args:
        path: from the base to the energy.
        kernel: makes one step at each temperature, see `annealing_kernel`.
        chains: to be moved.
        ladder: the temperatures.
        begin: how many of them the chains have passed.
        noted: after which increments the sums of the weights are noted.

    Yields:
        How many temperatures the chains have passed.

    Raises:
        UserError: the energy cannot be compiled.
    """
    anneal = kernel.anneal
    assert anneal is not None
    rows = _settings(kernel, ladder).to(chains.x.device, torch.promote_types(chains.x.dtype, torch.float32))
    state = start_path(path, chains.x)
    with compiling(_temperatures, path.energy, chains.x, CALLER) as program:
        for block in torch.split(rows[begin:], UNROLLED):
            several = program if len(block) == UNROLLED else _temperatures
            increments, state = several(anneal, path, state, block)
            for k, increment in enumerate(increments, begin):
                chains.log_w += increment.to(chains.log_w)
                if k in noted:
                    chains.note()
            begin += len(block)
            chains.x, path.beta = state[0], ladder.betas[begin]
            yield begin


def annealing_kernel(path: Bridge, sampler: Sampler, resample: float = 0.0, moves: int = 1) -> PureSteps:
    """The sampler's steps on a path, as functions of tensors.

    Raises:
        UserError: it has none, the settings of `ais` ask for more than one step at each temperature, or there is no
            compiler.

    Example:
        >>> from ebmlab.energies import RBM, reference
        >>> from ebmlab.samplers import DMALA
        >>> rbm = RBM(4, 3)
        >>> annealing_kernel(Bridge(reference(rbm.domain), rbm), DMALA(0.2)).anneal.__name__
        'anneal_flips'
    """
    if resample or moves > 1:
        raise UserError(
            f"AIS: resample is {resample} and moves {moves}, but compiled temperatures neither resample nor make more "
            "than one move: leave compile out, or these"
        )
    kernel = sampler.pure_steps(path)
    if kernel is None or kernel.anneal is None:
        raise UserError(
            f"{CALLER}: {type(sampler).__name__} on {type(path.energy).__name__} cannot be compiled with "
            "these settings. DMALA, ACS, AnyScale first and GWG can for bits and spins; leave compile out"
        )
    require_compiler(path.energy.device, CALLER)
    return kernel


def _settings(kernel: PureSteps, ladder: Ladder) -> Tensor:
    """What each temperature takes: the inverse temperature before, its own, and the settings of its step."""
    betas = torch.tensor(ladder.betas, dtype=torch.float64)
    steps = torch.arange(len(betas) - 1) % len(kernel.settings)
    own = kernel.settings.cpu().double()[steps]
    if ladder.scales is not None:  # factors of the step size alpha; the first setting is proportional to 1 / alpha
        own[:, 0] /= torch.tensor(ladder.scales[1:], dtype=torch.float64)
    return torch.cat([betas[:-1, None], betas[1:, None], own], 1)


def _temperatures(
    anneal: Callable[..., Tensors], path: Bridge, state: Tensors, settings: Tensor
) -> tuple[Tensor, Tensors]:
    """The increments of the log-weights at each temperature, `(n, B)`, and the last state."""
    increments = []
    for row in settings.unbind():
        increment, *state = anneal(path, tuple(state), row)  # type: ignore[assignment]
        increments.append(increment)
    return torch.stack(increments), tuple(state)
