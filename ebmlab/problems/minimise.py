"""Simulated annealing of many chains by any sampler (Kirkpatrick et al., 1983)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, field
from typing import Literal

from torch import Tensor

from ebmlab.domains import Binary, Spin
from ebmlab.energies import Energy
from ebmlab.errors import UserError
from ebmlab.problems.annealing import Geometric, Schedule, beta_range
from ebmlab.problems.chains import Chains, random_chains
from ebmlab.samplers import Sampler
from ebmlab.settings import require_count, require_positive

SEGMENT = 10  # steps after which the states are looked at
EPSILON = 1e-9  # by which a sum of strides may miss 1


@dataclass
class Minimum:
    """The best state that every chain has found.

    Attributes:
        chains: what moves, and keeps the states.
        steps: steps that every chain has taken.
        seconds: since the start.
        stopped: why it ended; None while it runs.
        curve: `(seconds, lowest energy, median over the chains' best energies)` of each look.

    Example:
        >>> from ebmlab.energies import Ising
        >>> from ebmlab.samplers import ChromaticGibbs
        >>> found = minimise(Ising.lattice(3, coupling=1.0), ChromaticGibbs(), num_chains=5, num_steps=20)
        >>> found.x.shape, found.x.dtype, found.steps, len(found.curve)
        (torch.Size([5, 9]), torch.int8, 20, 2)
    """

    chains: Chains
    _: KW_ONLY
    steps: int = 0
    seconds: float = 0.0
    stopped: Literal["steps", "seconds", "target"] | None = None
    curve: list[tuple[float, float, float]] = field(default_factory=list)

    @property
    def x(self) -> Tensor:
        """The states, `(B, *event)`, in int8."""
        return self.chains.best()

    @property
    def energy(self) -> Tensor:
        """Their energies, `(B,)`."""
        return self.chains.energy


def minimise(
    energy: Energy,
    sampler: Sampler,
    schedule: Schedule | None = None,
    *,
    num_chains: int = 100,
    num_steps: int = 1000,
    seconds: float | None = None,
    target: float | None = None,
    report: Callable[[Minimum], bool] | None = None,
) -> Minimum:
    """Anneals chains from random states, and keeps the lowest state of each.

    With `seconds`, annealings follow each other, each twice as long as the one before; the last one takes the time
    that is left, and so does the first where its steps take longer. Energies are looked at every ten steps.

    Args:
        energy: on bits or spins.
        sampler: moves the chains at each temperature; `ChromaticGibbs` is fast on sparse Ising models, and where
            couplings are small multiples of one number it moves 64 chains in a word (`ebmlab.samplers.multi_spin`).
        schedule: of beta; by default `Geometric` along `beta_range`.
        num_chains: B.
        num_steps: of the first annealing, and of the only one without `seconds`.
        seconds: when to stop.
        target: stop as soon as a chain has this energy or less.
        report: called at each look with what has been found, which goes on changing; True stops.

    Raises:
        UserError: the sampler does not support the energy, or a setting is not valid.

    Example:
        >>> from ebmlab.energies import Ising
        >>> from ebmlab.samplers import ChromaticGibbs
        >>> found = minimise(Ising.lattice(4, coupling=1.0), ChromaticGibbs(), num_chains=5, target=-32.0)
        >>> found.energy.min().item(), found.stopped
        (-32.0, 'target')
    """
    require_count("minimise", num_chains=num_chains, num_steps=num_steps)
    if seconds is not None:
        require_positive("minimise", seconds=seconds)
    if not isinstance(energy.domain, Binary | Spin):
        raise UserError(f"minimise: the energy lives on {energy.domain}, but must on bits or spins")
    sampler.check(energy)
    schedule = schedule or Geometric(*beta_range(energy))
    begun, chains = time.perf_counter(), random_chains(energy, sampler, num_chains)
    best = Minimum(chains)
    for betas in _segments(schedule, num_steps, seconds, begun):
        if not betas:  # a new annealing
            chains.restart()
            continue
        chains.anneal(betas)
        best.steps, best.seconds = best.steps + len(betas), time.perf_counter() - begun
        lowest, median = float(best.energy.min()), float(best.energy.median())
        best.curve.append((best.seconds, lowest, median))
        if (report is not None and report(best)) or (target is not None and lowest <= target):
            best.stopped = "target"
            return best
    best.stopped = "steps" if seconds is None else "seconds"
    return best


def _segments(schedule: Schedule, num_steps: int, seconds: float | None, begun: float) -> Iterator[list[float]]:
    """The betas of the next steps; an empty list where an annealing begins anew.

    An annealing that the time left is too short for goes faster, so that it ends cold: a state that is still hot is no
    minimum.
    """
    end = math.inf if seconds is None else begun + seconds
    while True:
        start, taken, progress = time.perf_counter(), 0, 0.0
        while progress < 1 + EPSILON:
            left = math.inf  # steps that the time left suffices for
            if taken:
                left = max(1.0, (end - time.perf_counter()) * taken / (time.perf_counter() - start))
            stride = max(1 / max(num_steps - 1, 0.5), (1 - progress) / left)
            at_once = SEGMENT if taken or seconds is None else 1  # the first step shows how long they take
            reached = [progress + k * stride for k in range(at_once)]
            betas = [schedule.beta(min(1.0, p)) for p in reached if p < 1 + EPSILON]
            yield betas
            taken, progress = taken + len(betas), progress + len(betas) * stride
        now = time.perf_counter()
        if seconds is None or now >= end:
            return
        left = (end - now) / (now - start)  # in annealings like the last one
        num_steps = int(taken * left) + SEGMENT if left < 6 else 2 * num_steps
        yield []
