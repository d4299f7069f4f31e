"""Log Z from both sides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ebmlab.energies import Base, Energy
from ebmlab.evaluation.annealing import ais, reverse_ais
from ebmlab.evaluation.ladder import Schedule
from ebmlab.evaluation.log_z import LogZ
from ebmlab.samplers import Sampler


def log_z(
    energy: Energy,
    sampler: Sampler,
    *,
    x: Tensor | None,
    base: Base | None = None,
    num_chains: int = 500,
    num_temperatures: int = 10_000,
    schedule: Schedule = "adaptive",
    num_replicates: int = 1,
    progress: bool = False,
    saved: Path | None = None,
    check: Callable[[], None] | None = None,
    resample: float = 0.0,
    num_moves: int = 1,
    equilibrate: Sampler | None = None,
    compile: bool = False,
) -> LogZ:
    """Log Z by chains that go forward from a base law, and by chains that go back from data.

    Before they go back, the sampler moves the data at the full model for a tenth of the temperatures.

    Args:
        energy: E.
        sampler: as in `ais`.
        x: data `(n, *event)`; `num_chains` of them go back, or all if there are fewer. With None no chains go back,
            and the estimate is not trusted.
        base: as in `ais`, like the other arguments.
        num_chains: of each direction.
        num_temperatures: of each chain.
        schedule: of the temperatures; chains that go back pass through the same.
        num_replicates: of the forward estimate.
        progress: show progress bars.
        saved: see `ais`.
        check: called before each step.
        resample: of the forward chains.
        num_moves: steps at each temperature.
        equilibrate: the sampler that moves the data; `sampler` when None.
        compile: see `ais`.

    Raises:
        UserError: as in `ais`.

    Example:
        >>> from ebmlab.energies import Ising
        >>> from ebmlab.evaluation import exact_log_z, exact_samples
        >>> from ebmlab.samplers import Gibbs
        >>> energy = Ising.lattice(2, coupling=0.3)
        >>> found = log_z(energy, Gibbs(), x=exact_samples(energy, 100), num_chains=100, num_temperatures=50)
        >>> found.trusted, abs(found.log_z - float(exact_log_z(energy))) < 4 * found.std_error
        (True, True)
    """
    how: dict[str, Any] = {
        "base": base,
        "progress": progress,
        "check": check,
        "num_moves": num_moves,
        "compile": compile,
    }
    only: dict[str, Any] = {"num_replicates": num_replicates, "saved": saved, "resample": resample}
    found = ais(
        energy, sampler, num_chains=num_chains, num_temperatures=num_temperatures, schedule=schedule, **only, **how
    )
    if x is not None:
        x = x[torch.randperm(len(x))[:num_chains]].to(energy.device, energy.dtype)
        x = equilibrated(energy, equilibrate or sampler, x, max(1, num_temperatures // 10), check)
        found = found.against(
            reverse_ais(energy, sampler, x, num_temperatures=num_temperatures, schedule=found.ladder or schedule, **how)
        )
    method = f"AIS, {num_chains} chains of {type(sampler).__name__}, {num_temperatures} temperatures"
    return replace(found, method=method)


@torch.no_grad()
def equilibrated(
    energy: Energy, sampler: Sampler, x: Tensor, num_steps: int, check: Callable[[], None] | None = None
) -> Tensor:
    """Where chains of the energy's law are after `num_steps` steps from x `(B, *event)`, for a backward estimate.

    Args:
        energy: E.
        sampler: moves the chains.
        x: first states, such as data.
        num_steps: of each chain.
        check: called before each step; an exception from it ends the call.
    """
    if check is not None:
        check()
    for state, _ in sampler.chain(energy, x, num_steps):
        x = state.x
        if check is not None:
            check()
    return x
