"""Search for step size and balance by groups of chains that try settings side by side."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ebmlab.energies import Energy
from ebmlab.errors import UserError
from ebmlab.samplers.sampler import Sampler
from ebmlab.samplers.tuners.jump_distance import Observer, jump_distance
from ebmlab.samplers.tuners.tuner import Tuner
from ebmlab.settings import require_count

FACTOR = 4.0  # a probe's first change of the step size
SHIFT = 0.2  # a probe's first change of the balance
FINEST = 1 / 8  # share of these changes below which a pass is over
MARGIN = 1.5  # standard errors by which a setting must be ahead
SMALLEST, GREATEST = 1e-6, 1e9  # of the step size where no chain moves at all
LOWEST = 0.02  # no probe has a smaller balance

Setting = tuple[float, float]


class PatternSearch(Tuner):
    """Finds the step size and the balance with which the chains jump furthest (the aim of Sun et al. 2023, Alg. 3).

    In every round groups of the chains, dealt anew, try settings side by side for `window` steps. These are the present
    setting, a step size 4^r times larger and smaller, and a balance 0.2 r larger and smaller. Here r is 1 at first. The
    jump distance is the mean L1 distance of a step. A setting wins if its own exceeds the present one's by more than
    1.5 standard errors of the difference. Without a winner r halves, and a pass ends when r falls below 1/8. The next
    pass begins with r = 1. The search is over after a pass that hardly changed the setting, but not before half of the
    steps are taken. Chains that are still relaxing jump differently from how they will later. The remaining steps use
    the setting found. If the steps run out first, a warning says so. Alg. 3 changes a setting by at most a factor of
    1.2 a round, and so it finds a setting only near its start.

    Where no chain moves in a round, the step size becomes 4 times smaller if most proposals were rejected. It becomes 4
    times larger if they were accepted, because they then proposed no change.

    Args:
        window: steps of each round; fewer if the steps would not suffice for 16 rounds.

    Example:
        >>> from ebmlab.energies import Ising
        >>> from ebmlab.samplers import DMALA
        >>> from ebmlab.samplers.tuners import PatternSearch
        >>> ising = Ising.lattice(3, 0.2)
        >>> tuned, x = PatternSearch(window=10).tune(DMALA(0.2), ising, ising.domain.random(50), num_steps=400)
        >>> bool(tuned.step_size > 0.8)
        True
    """

    def __init__(self, window: int = 20) -> None:
        require_count("PatternSearch", window=window)
        self.window = window

    def check(self, sampler: Sampler, num_steps: int | None = None) -> None:
        buffers = dict(sampler.named_buffers(recurse=False))
        if any(name not in buffers or buffers[name].dim() for name in ("step_size", "balance")):
            raise UserError(
                f"PatternSearch tunes step_size and balance together, which {type(sampler).__name__} does not have; "
                "try JumpDistance or TargetAcceptance"
            )

    def _tune(self, sampler: Sampler, energy: Energy, x: Tensor, num_steps: int) -> tuple[Sampler, Tensor]:
        x, over = self.search(sampler, energy, x, num_steps)
        if not over:
            warn_of_an_early_end(sampler)
        return sampler, x

    def search(
        self,
        sampler: Any,
        energy: Energy,
        x: Tensor,
        num_steps: int,
        *,
        others: Sequence[Setting] = (),
        observe: Observer | None = None,
    ) -> tuple[Tensor, bool]:
        """Tunes `sampler` in place while each chain takes `num_steps` steps.

        Args:
            sampler: has `step_size` and `balance`, where the search starts.
            energy: the target.
            x: the chains, `(B, *event)`.
            num_steps: steps of each chain.
            others: settings (step size, balance) that the first round tries, too.
            observe: sees the states before and after every step of every group.

        Returns:
            The last x, and whether the search was over before the steps were.
        """
        longest, half = max(1, min(self.window, num_steps // 16)), num_steps // 2
        here, r, over = (float(sampler.step_size), float(sampler.balance)), 1.0, False
        begin, probes = here, list(dict.fromkeys([here, *others, *_around(here, r)]))
        while not over:
            sittings = -(-len(probes) // len(x))  # more than one if the chains are fewer than the probes
            window = min(longest, num_steps // sittings)
            if window == 0:
                break
            num_steps -= sittings * window
            x, jumps, errors, accepted = _side_by_side(sampler, energy, x, probes, window, observe)
            best = max(range(len(probes)), key=jumps.__getitem__)
            if max(jumps) == 0:
                sigma = here[0] * (FACTOR if accepted > 0.5 else 1 / FACTOR)
                here = min(max(sigma, SMALLEST), GREATEST), here[1]
            elif jumps[best] - jumps[0] > MARGIN * math.hypot(errors[best], errors[0]):
                here = probes[best]
            else:
                r /= 2
            if r < FINEST:
                over = _near(begin, here) and num_steps <= half
                begin, r = here, 1.0
            probes = [here, *_around(here, r)]
        x, *_ = _try(sampler, energy, x, here, num_steps, observe)
        return x, over


def warn_of_an_early_end(sampler: Any) -> None:
    """Says that the settings of a sampler may be far from the best."""
    warnings.warn(
        f"the search for step size and balance ran out of steps, at {float(sampler.step_size):.3g} and "
        f"{float(sampler.balance):.3g}: give the tuner more steps",
        stacklevel=2,
    )


def _near(one: Setting, other: Setting) -> bool:
    """Whether two settings differ by at most half of a probe's first change."""
    return abs(math.log(one[0] / other[0], FACTOR)) <= 0.5 and abs(one[1] - other[1]) <= SHIFT / 2


def _around(here: Setting, r: float) -> list[Setting]:
    """The settings around one: each is changed by r of a probe's first change."""
    sigma, alpha = here
    alphas = {min(alpha + SHIFT * r, 1.0), max(alpha - SHIFT * r, min(alpha, LOWEST))} - {alpha}
    return [(sigma * FACTOR**r, alpha), (sigma / FACTOR**r, alpha), *((sigma, a) for a in sorted(alphas))]


def _side_by_side(
    sampler: Any, energy: Energy, x: Tensor, probes: Sequence[Setting], window: int, observe: Observer | None
) -> tuple[Tensor, list[float], list[float], float]:
    """Deals the chains over the settings. Returns their last x, jump distances, standard errors, and acceptance."""
    jumps, errors, accepted = [], [], 0.0
    for first in range(0, len(probes), len(x)):
        some = probes[first : first + len(x)]
        groups = torch.randperm(len(x), device=x.device).tensor_split(len(some))
        for setting, group in zip(some, groups, strict=True):
            after, jump, error, acceptance = _try(sampler, energy, x[group], setting, window, observe)
            x = x.index_copy(0, group, after)
            jumps.append(jump)
            errors.append(error)
            accepted += acceptance / len(probes)
    return x, jumps, errors, accepted


def _try(
    sampler: Any, energy: Energy, x: Tensor, setting: Setting, num_steps: int, observe: Observer | None
) -> tuple[Tensor, float, float, float]:
    """Runs chains with a setting. Returns their last x, their mean jump, its standard error, and their acceptance."""
    sampler.step_size.fill_(setting[0])
    sampler.balance.fill_(setting[1])
    if num_steps == 0:
        return x, 0.0, 0.0, 0.0
    total, accepted = torch.zeros(2, len(x), dtype=torch.float64, device=x.device)
    state = sampler.init(energy, x)
    for _ in range(num_steps):
        before = state
        state, info = sampler.step(energy, before)
        total += jump_distance(energy.domain, state.x, before.x)
        accepted += info.acceptance.nan_to_num(0.0)  # NaN: rejected
        if observe is not None:
            observe(before, state)
    total, accepted = total / num_steps, accepted / num_steps
    error = float(total.std()) / len(x) ** 0.5 if len(x) > 1 else 0.0
    return state.x, float(total.mean()), error, float(accepted.mean())
