"""`assert_invariant`: a sampler leaves exp(-E) / Z unchanged, and reaches it."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import torch
from torch import Tensor

from ebmlab.energies import Energy
from ebmlab.samplers import Sampler
from ebmlab.testing.law import ExactLaw
from ebmlab.testing.lazy_uniform import NotEnumerableError
from ebmlab.testing.transitions import Kernel, moved, step_matrix, title

FALSE_ALARM = 1e-4  # of a proof by simulation, for a right kernel
SLACK = 0.03  # in total variation, for chains that are still on their way
STEPS = 2**20  # from the least likely state to the limit, by a matrix power


@dataclass(frozen=True)
class Invariance:
    """What `assert_invariant` has found.

    Attributes:
        exact: whether it comes from transition matrices; otherwise from simulation.
        error: the largest change of a probability in one step, over all steps of a cycle. By simulation it is that of
            the counts, which is not 0 for a right kernel.
        p_value: 1 if exact; otherwise the chi-square test that one step from exact draws gives exact draws.
        distance: total variation between the law and where chains from the least likely state end.

    Example:
        >>> Invariance(exact=True, error=1e-17, p_value=1.0, distance=1e-12).exact
        True
    """

    exact: bool
    error: float
    _: KW_ONLY
    p_value: float
    distance: float


def assert_invariant(
    sampler: Kernel,
    energy: Energy,
    *,
    tolerance: float = 1e-6,
    cycle: int | None = None,
    num_chains: int = 200_000,
    num_steps: int = 100,
) -> Invariance:
    """Asserts that every step leaves exp(-E) / Z unchanged, and that chains from the least likely state reach it.

    With the sampler's transition matrix P the proof is exact. Neither max |pi P - pi| nor the distance between pi and a
    row of a high power of P may exceed the tolerance. Invariance alone would pass the identity. A kernel that draws
    normal numbers has decisions that cannot be enumerated, and is simulated instead. A chi-square test holds one step
    from exact draws against pi, and fails a right kernel once in 10,000 times. The law of chains of `num_steps` steps
    must be within 0.03 and twice the noise of the counts.

    Args:
        sampler: as in `transition_matrix`.
        energy: on a finite domain with at most 4,096 states. `Rugged(domain)` is one on which mistakes show.
        tolerance: of the exact proof.
        cycle: after how many steps the settings of a schedule repeat. The default is the number of rows of its kernel's
            settings; without a kernel, the sampler's `cycle_length`, or 1.
        num_chains: chains of a simulation.
        num_steps: steps of a simulation from the least likely state.

    Returns:
        What was found, for a report.

    Raises:
        AssertionError: the sampler fails, with one line that says by how much, and at which state.
        UserError: the energy has too many states, or no law.

    Example:
        >>> from ebmlab.domains import Binary
        >>> from ebmlab.samplers import DMALA, DULA
        >>> from ebmlab.testing import Rugged, assert_invariant
        >>> assert_invariant(DMALA(0.8), Rugged(Binary(3))).exact
        True
        >>> assert_invariant(DULA(0.8), Rugged(Binary(3)))  # no Metropolis step
        Traceback (most recent call last):
        AssertionError: DULA on Rugged: one step (number 0) changes the probability of x = (0, 0, 0) from 0.2142 to ...
    """
    law = ExactLaw(energy, "assert_invariant")
    who = f"{title(sampler)} on {type(energy).__name__}"
    cycle = cycle or _cycle_of(sampler, energy)
    try:
        matrices = [step_matrix(sampler, law, k) for k in range(cycle)]
    except NotEnumerableError:
        return _simulated(sampler, law, who, num_chains, num_steps)
    error = 0.0
    for k, P in enumerate(matrices):
        error = max(error, _require_unchanged(law, law.probabilities @ P, tolerance, f"{who}: one step (number {k})"))
    whole = torch.linalg.multi_dot(matrices) if cycle > 1 else matrices[0]
    end = torch.matrix_power(whole, STEPS)[law.probabilities.argmin()]
    return Invariance(True, error, p_value=1.0, distance=_require_reached(law, end, tolerance, who, ""))


def _cycle_of(sampler: Kernel, energy: Energy) -> int:
    """After how many steps a sampler's settings repeat, as far as it says so."""
    if isinstance(sampler, Sampler):
        sampler.check(energy)
        kernel = sampler.kernel_on(energy)
        if kernel is not None:
            return len(kernel.settings)
    return int(getattr(sampler, "cycle_length", 1))


def _require_unchanged(law: ExactLaw, after: Tensor, tolerance: float, what: str) -> float:
    change = (after - law.probabilities).abs()
    worst = int(change.argmax())
    if not change[worst] <= tolerance:
        raise AssertionError(
            f"{what} changes the probability of {law.name(worst)} from {float(law.probabilities[worst]):.4g} to "
            f"{float(after[worst]):.4g}, by {float(change[worst]):.2g}, which is above {tolerance:g}"
        )
    return float(change[worst])


def _require_reached(law: ExactLaw, end: Tensor, tolerance: float, who: str, when: str) -> float:
    distance = float((end - law.probabilities).abs().sum()) / 2
    if not distance <= tolerance:
        worst, start = int((end - law.probabilities).abs().argmax()), int(law.probabilities.argmin())
        raise AssertionError(
            f"{who}: from the least likely state, {law.name(start)}, chains do not reach the law{when}: their total "
            f"variation from it is {distance:.2g}, which is above {tolerance:.2g}, and {law.name(worst)} has "
            f"probability {float(end[worst]):.4g}, not {float(law.probabilities[worst]):.4g}"
        )
    return distance


@torch.random.fork_rng([])
def _simulated(sampler: Kernel, law: ExactLaw, who: str, num_chains: int, num_steps: int) -> Invariance:
    torch.manual_seed(0)
    pi = law.probabilities
    y = moved(sampler, law.energy, law.sample(num_chains))
    after, p_value = law.counts(y) / num_chains, law.p_value(y)
    off = (after - pi).abs() / (pi * (1 - pi) / num_chains).sqrt()
    if not p_value > FALSE_ALARM:
        worst = int(off.nan_to_num(nan=0.0).argmax())
        raise AssertionError(
            f"{who}: after one step from {num_chains} exact draws {law.name(worst)} has a share of "
            f"{float(after[worst]):.4g}, not {float(pi[worst]):.4g}, off by {float(off[worst]):.1f} standard errors "
            f"(chi-square p = {p_value:.1g}, which is below {FALSE_ALARM:g})"
        )
    few = max(1, num_chains // 50)
    start = law.states[pi.argmin()].expand(few, *law.states.shape[1:]).clone()
    end = law.counts(moved(sampler, law.energy, start, num_steps=num_steps)) / few
    noise = float((pi * (1 - pi)).sqrt().sum() / (2 * torch.pi * few) ** 0.5)  # expected distance of exact draws
    distance = _require_reached(law, end, SLACK + 2 * noise, who, f" within {num_steps} steps")
    return Invariance(False, float((after - pi).abs().max()), p_value=p_value, distance=distance)
