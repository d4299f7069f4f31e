"""Exact transition matrices of samplers, from their own code."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor

from ebmlab.energies import Energy
from ebmlab.errors import WHY, UserError, explained
from ebmlab.samplers import Leg, Sampler
from ebmlab.testing.law import ExactLaw
from ebmlab.testing.lazy_uniform import NotEnumerableError
from ebmlab.testing.outcomes import Outcomes

Kernel = Sampler | Callable[[Energy, Tensor], Tensor]
MAX_OUTCOMES = 20_000  # of one step from each state


def transition_matrix(sampler: Kernel, energy: Energy, *, step: int = 0) -> Tensor:
    """P, where `P[i, j]` is the probability that one step moves a chain from state i to state j.

    The step is run once for each outcome of its random decisions: its own code is tested, and nothing is simulated.
    Chains start by the sampler's `init`, and what that draws counts as part of the step.

    Args:
        sampler: a sampler, or any function that moves states x `(B, *event)` of an energy: `kernel(energy, x)`. It may
            draw by `torch.rand`, `bernoulli`, `multinomial`, `randint` and by `ebmlab`'s own functions on top of them.
        energy: on a finite domain with at most 4,096 states; it is copied and evaluated in float64.
        step: the number of the step, for settings that follow a schedule.

    Returns:
        `(N, N)`, float64, in the order of `energy.domain.enumerate()`.

    Raises:
        UserError: there are too many states or outcomes, or the step draws numbers that cannot be enumerated, such as
            normal ones.

    Example:
        >>> from ebmlab.domains import Spin
        >>> from ebmlab.samplers import Gibbs
        >>> from ebmlab.testing import ExactLaw, Rugged, transition_matrix
        >>> energy = Rugged(Spin(3))
        >>> P, pi = transition_matrix(Gibbs(), energy), ExactLaw(energy).probabilities
        >>> P.shape, bool((pi @ P - pi).abs().max() < 1e-12)
        (torch.Size([8, 8]), True)
    """
    law = ExactLaw(energy, "transition_matrix")
    with explained(
        f"transition_matrix: {title(sampler)} {WHY}, which cannot be enumerated: assert_invariant and "
        "assert_exact_starts test it by simulation",
        NotEnumerableError,
    ):
        return step_matrix(sampler, law, step)


def step_matrix(sampler: Kernel, law: ExactLaw, step: int = 0) -> Tensor:
    """`transition_matrix` for a law that has been enumerated; raises `NotEnumerableError`."""
    states = law.states
    if isinstance(sampler, Sampler):
        if not sampler.independent:
            raise UserError(f"the chains of {title(sampler)} depend on each other: there is no law of one chain alone")
        sampler.check(law.energy)
        sampler = copy.deepcopy(sampler).double()
    many = filled(states)
    try:
        return _matrix(sampler, law, many, step)[: len(states)]
    except NotEnumerableError:  # the axis of the chains is not recognised: one chain at a time has none
        rows = [_matrix(sampler, law, state, step) for state in torch.split(states, 1)]
        return torch.cat(rows)


def filled(states: Tensor) -> Tensor:
    """The states, and some of them again, so that their number is not the length of another axis: a prime above 16."""
    n = max(len(states), 17)
    while any(n % k == 0 for k in range(2, int(n**0.5) + 1)) or n in states.shape[1:]:
        n += 1
    return states[torch.arange(n) % len(states)]


def _matrix(sampler: Kernel, law: ExactLaw, x: Tensor, step: int) -> Tensor:
    """Rows of P for the states x."""
    matrix = torch.zeros(len(x), len(law.states), dtype=torch.float64)
    row = torch.arange(len(x))
    for y, weight in Outcomes(len(x), MAX_OUTCOMES).of(lambda: moved(sampler, law.energy, x.clone(), step)):
        matrix.index_put_((row, law.number(y)), weight, accumulate=True)
    return matrix


def moved(sampler: Kernel, energy: Energy, x: Tensor, step: int = 0, num_steps: int = 1) -> Tensor:
    """Moves x `(B, *event)` by the steps number `step`, `step + 1` and so on; a plain function knows no number."""
    if not isinstance(sampler, Sampler):
        for _ in range(num_steps):
            x = sampler(energy, x)
        return x
    with torch.no_grad():
        for state, _ in sampler.chain(energy, x, num_steps, Leg(first=step)):
            x = state.x
    return x


def title(sampler: Kernel) -> str:
    """How a message names a kernel."""
    return type(sampler).__name__ if isinstance(sampler, Sampler) else getattr(sampler, "__name__", "the kernel")
