"""A pilot run that places the temperatures of annealed chains and tunes their step sizes."""

from __future__ import annotations

import copy
import math
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from ebmlab.energies import Bridge, PerChain
from ebmlab.evaluation.ladder import Ladder
from ebmlab.evaluation.population import Population, conditional_ess, rows
from ebmlab.numerics.products import fast_products
from ebmlab.numerics.streams import own_numbers
from ebmlab.samplers import Sampler

SEED = 8_405_917_230_164_773_029  # of the pilot's random numbers; the chains of the estimate must not use them
LENGTH = 0.1  # length of one step of the pilot; its square is about the variance of the log-weight increment
ACCEPTANCE = 0.574  # the best acceptance rate for locally balanced proposals (Sun et al. 2022)
GAIN = 1.0  # how strongly the step size reacts to the acceptance rate
WIDEST = math.log(10)  # largest change of the step size in either direction, as a logarithm


@torch.no_grad()
def pilot_ladder(path: Bridge, sampler: Sampler, num_chains: int, num_temperatures: int, num_moves: int = 1) -> Ladder:
    """A ladder on which every increment has the same conditional effective sample size.

    The pilot moves separate chains along the path. It finds each next temperature by bisection. The conditional
    effective sample size of the increment then meets a target (Zhou, Johansen & Aston 2016, Sec. 3.3). The bisection
    needs no evaluation of the energy. A step with the effective share c has the length sqrt(-log c), and the ladder
    divides the length of the whole path into equal parts. The pilot uses at most `num_temperatures` temperatures:
    whenever half of the remaining ones are used, it doubles the length of its steps. If the sampler has a step size,
    the pilot tunes it at each temperature towards the acceptance rate 0.574.

    The chains of the estimate do not influence the ladder, so estimates of Z that use it are unbiased. A `Solved` base
    is an exception: both start from its samples, and the ladder depends on them. A fixed schedule, or the ladder of
    another estimate (`LogZ.ladder`), does not. The pilot draws from a fixed seed: it finds the same ladder each time
    and on each rank, and leaves the random stream unchanged.

    Args:
        path: from the base to the energy.
        sampler: moves the chains; the pilot works on a copy of it.
        num_chains: number of the pilot's chains.
        num_temperatures: K, the number of steps of the ladder.
        num_moves: steps of each chain at each temperature.
    """
    with own_numbers(SEED, path.energy.device), fast_products(path, num_chains):
        betas, lengths, scales = _run(path, sampler, num_chains, num_temperatures, num_moves)
    even = np.linspace(0, lengths[-1], num_temperatures + 1)
    if not 0 < lengths[-1] < math.inf:  # the two laws are equal, or a weight is NaN, which the chains will report
        even, lengths, betas = np.linspace(0, 1, num_temperatures + 1), [0.0, 1.0], [0.0, 1.0]
        scales = None if scales is None else [scales[0], scales[-1]]
    placed = [0.0, *np.interp(even, lengths, betas)[1:-1].tolist(), 1.0]
    if scales is None:
        return Ladder(placed)
    return Ladder(placed, np.exp(np.interp(placed, betas, np.log(scales))).tolist())


def _run(
    path: Bridge, sampler: Sampler, num_chains: int, budget: int, num_moves: int
) -> tuple[list[float], list[float], list[float] | None]:
    """The pilot's temperatures, the length of the path up to each, and the factors of the step size (or None)."""
    chains = Population(path.base.sample(num_chains).to(path.energy.dtype))
    here = path.at(0.0)  # a state that the energy forbids has weight 0 at every beta above 0
    chains.log_w.masked_fill_(here.increment(chains.x, 1.0) == -torch.inf, -torch.inf)
    sampler, tunable = copy.deepcopy(sampler), "step_size" in dict(sampler.named_buffers(recurse=False))
    own, log_scale = (sampler.step_size.clone() if tunable else None), 0.0  # type: ignore[operator]
    betas, lengths, scales = [0.0], [0.0], [1.0]
    known: PerChain | None = None
    length, left, halved = LENGTH, budget, budget // 2
    while betas[-1] < 1:
        if left <= halved:
            length, halved = 2 * length, left // 2
        left -= 1
        at = here.values(chains.x) if known is None else known
        new = next_beta(here, chains.x, chains.log_w, math.exp(-(length**2)), at) if left else 1.0
        increment = here.increment(chains.x, new, at).to(chains.log_w)
        effective = conditional_ess(chains.log_w, increment)
        chains.log_w += increment
        known = rows(known, chains.resample(0.5))
        here = path.at(new)
        state = sampler.init(here, chains.x, budget, known)
        for _ in range(num_moves):
            state, info = sampler.step(here, state)
            if tunable:
                excess = float(info.acceptance.nan_to_num(0.0).mean()) - ACCEPTANCE
                log_scale += GAIN * excess / (ACCEPTANCE * (1 - ACCEPTANCE))
                log_scale = max(-WIDEST, min(WIDEST, log_scale))
                sampler.step_size.copy_(own * math.exp(log_scale))  # type: ignore
                state = replace(sampler.init(here, state.x, budget, state.known), step=state.step)  # other settings
        chains.x, known = state.x, state.known
        betas.append(new)
        lengths.append(lengths[-1] + math.sqrt(-math.log(effective)) if effective > 0 else math.nan)
        scales.append(math.exp(log_scale))
    return betas, lengths, [scales[1], *scales[1:]] if tunable else None


def next_beta(path: Bridge, x: Tensor, log_w: Tensor, target: float, known: PerChain | None = None) -> float:
    """The next inverse temperature: the one at which the conditional effective share of the chains meets a target.

    It is 1 if the share is still above the target there.

    Args:
        path: the bridge, set to the present temperature.
        x: states `(chains, *event)`.
        log_w: their log-weights at the present temperature, `(chains,)`.
        target: the wanted share, from 0 to 1.
        known: what the path has computed at x.
    """
    old = path.beta

    def effective(beta: float) -> float:
        return conditional_ess(log_w, path.increment(x, beta, known).to(log_w))

    if not effective(1.0) < target:  # also if it is NaN, which no temperature can mend
        return 1.0
    low, high = old, 1.0
    while high - low > 1e-3 * (high - old) and (middle := (low + high) / 2) not in (low, high):
        low, high = (middle, high) if effective(middle) >= target else (low, middle)
    return high
