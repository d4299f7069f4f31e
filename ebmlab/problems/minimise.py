"""Simulated annealing of many chains by any sampler (Kirkpatrick et al., 1983)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, is_dataclass, replace
from pathlib import Path
from typing import Literal

from torch import Tensor

from ebmlab.domains import Binary, Spin
from ebmlab.energies import Energy
from ebmlab.errors import UserError
from ebmlab.evaluation import LogZ
from ebmlab.io.fingerprint import fingerprint
from ebmlab.numerics.streams import generator_states
from ebmlab.problems.annealing import Geometric, Schedule, beta_range
from ebmlab.problems.chains import Chains, check_annealed, random_chains
from ebmlab.problems.course import Course
from ebmlab.problems.reheated import Heat, Reheated
from ebmlab.problems.resampled import Resampled, Resampling
from ebmlab.problems.saved_search import Moment, SavedSearch, restore_random
from ebmlab.samplers import Sampler
from ebmlab.settings import require_count, require_positive


@dataclass
class Minimum:
    """The best state that every chain has found.

    Where chains are copied, as along `Resampled`, it is the best that was seen at each place of the population.

    Attributes:
        chains: what moves, and keeps the states.
        steps: steps that every chain has taken.
        seconds: since the start.
        stopped: why it ended; None while it runs.
        curve: `(seconds, lowest energy, median over the chains' best energies)` of each look.
        notes: numbers that `report` adds, one a look or none; they are saved with the search.
        heat: what a `Reheated` schedule has measured; None with others.

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
    notes: list[float] = field(default_factory=list)
    heat: Heat | None = None

    @property
    def x(self) -> Tensor:
        """The states, `(B, *event)`, in int8."""
        return self.chains.best()

    @property
    def energy(self) -> Tensor:
        """Their energies, `(B,)`."""
        return self.chains.energy

    @property
    def log_z(self) -> LogZ | None:
        """Log Z at the inverse temperature `beta`, with the present states; None unless the schedule is `Resampled`."""
        return self.chains.log_z if isinstance(self.chains, Resampling) else None

    @property
    def beta(self) -> float | None:
        """Where `log_z` is: the schedule's last beta once an annealing is over."""
        return self.chains.shown.beta if isinstance(self.chains, Resampling) else None


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
    saved: str | Path | None = None,
) -> Minimum:
    """Anneals chains from random states, and keeps the lowest state of each.

    With `seconds`, annealings follow each other, each twice as long as the one before. The last one takes the time that
    is left, and so does the first where its steps take longer. Energies are looked at every ten steps.

    Args:
        energy: on bits or spins.
        sampler: moves the chains at each temperature. `ChromaticMetropolis` is fast on sparse Ising models. Where
            couplings are small multiples of one number, it moves 64 chains in a word (`ebmlab.samplers.multi_spin`).
            `Tempered` makes it replica exchange: a chain at each rung, whose beta is the rung's times the schedule's.
            A schedule that stays is `Linear(beta, beta)`.
        schedule: of beta; by default `Geometric` along `beta_range`. `Reheated` goes back when chains get nowhere.
            `Resampled` makes one population of the chains, and estimates log Z.
        num_chains: B.
        num_steps: of the first annealing, and of the only one without `seconds`.
        seconds: when to stop.
        target: stop as soon as a chain has this energy or less.
        report: called at each look with what has been found, which goes on changing; True stops.
        saved: a file that keeps the search. If it exists, the search in it goes on. Chains, random numbers and the
            place in the schedule are those of its last look, and `seconds` counts those before. By steps the end is
            that of a search that was not stopped, bit for bit on a CPU. A finished search returns at once.

    Raises:
        UserError: the sampler does not support the energy, a setting is not valid, or the file holds another search.

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
    schedule = _checked(energy, sampler, schedule)
    chains = random_chains(energy, sampler, num_chains)
    if isinstance(schedule, Resampled):
        chains = Resampling(chains, energy, sampler)
    best, course, file = Minimum(chains), Course(num_steps), None
    best.heat = Heat() if isinstance(schedule, Reheated) else None
    if saved is not None:
        settings = _settings(energy, sampler, schedule, num_chains, num_steps)
        file = SavedSearch(Path(saved), settings, like=chains.states(), energy=energy)
        if (moment := file.load()) is not None:
            chains.put_back(moment.chains)
            restore_random(moment.random, energy.device)
            course, best.steps, best.seconds = moment.course, moment.steps, moment.seconds
            best.curve, best.notes, best.heat = moment.curve, moment.notes, moment.heat
    begun, end = time.perf_counter() - best.seconds, math.inf if seconds is None else seconds
    try:
        while not course.over or (seconds is not None and time.perf_counter() - begun < end):
            now = time.perf_counter() - begun
            if course.over:
                course = _next_annealing(best, course, now, end)
            reached, course = course.ahead(now, end)
            chains.anneal([schedule.beta(min(1.0, progress)) for progress in reached])
            best.steps, best.seconds = best.steps + len(reached), time.perf_counter() - begun
            lowest, median = float(best.energy.min()), float(best.energy.median())
            best.curve.append((best.seconds, lowest, median))
            if isinstance(schedule, Reheated) and best.heat:
                heat = best.heat.looked(schedule, chains.now, progress=reached[-1], lowest=lowest, steps=len(reached))
                best.heat = heat
                if heat.stalled(schedule.patience) and course.left(best.seconds, end) >= 2 * schedule.patience:
                    course, best.heat = course.reheated(heat.peak, best.seconds, end), heat.returned()
            enough = (report is not None and report(best)) or (target is not None and lowest <= target)
            if file is not None:
                looks, random = len(best.curve), generator_states(energy.device)
                file.moment = Moment(
                    course, best.steps, best.seconds, looks, best.curve, best.notes, best.heat, chains.states(), random
                )
                file.save_now_and_then()
            if enough:
                best.stopped = "target"
                return best
        if seconds is not None:
            best.seconds = time.perf_counter() - begun  # no less than `seconds`, which a resumed search has then had
        if file is not None and file.moment is not None:
            file.moment = replace(file.moment, seconds=best.seconds)
    finally:
        if file is not None:
            file.save()
    best.stopped = "steps" if seconds is None else "seconds"
    return best


def _checked(energy: Energy, sampler: Sampler, schedule: Schedule | None) -> Schedule:
    """The schedule, or the usual one; raises `UserError` if energy, sampler and schedule do not fit each other."""
    if not isinstance(energy.domain, Binary | Spin):
        raise UserError(f"minimise: the energy lives on {energy.domain}, but must on bits or spins")
    check_annealed(energy, sampler)
    if isinstance(inner := getattr(schedule, "schedule", None), Reheated | Resampled):
        outer, name = type(schedule).__name__, type(inner).__name__
        raise UserError(f"minimise: the schedule is {outer} of {name}, but chains are either reheated or resampled")
    return schedule or Geometric(*beta_range(energy))


def _next_annealing(best: Minimum, course: Course, now: float, end: float) -> Course:
    """The annealing after one that is over: from random states, or from the peak if chains have gone back there."""
    if best.heat and best.heat.returns:
        course, best.heat = course.reheated(best.heat.peak, now, end), best.heat.returned()
        return course
    best.chains.restart()
    best.heat = Heat() if best.heat else None
    return course.next(now, end)


def _settings(
    energy: Energy, sampler: Sampler, schedule: Schedule, num_chains: int, num_steps: int
) -> dict[str, str | int]:
    return {
        "problem": fingerprint(energy),
        "sampler": fingerprint(sampler),
        "schedule": repr(schedule) if is_dataclass(schedule) else type(schedule).__name__,
        "number of chains": num_chains,
        "number of steps": num_steps,
    }
