"""Coordinate search for the settings that make chains jump furthest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ebmlab.domains import Categorical, Domain
from ebmlab.energies import Energy
from ebmlab.errors import UserError
from ebmlab.samplers.sampler import Sampler
from ebmlab.samplers.tuners.tuner import Tuner
from ebmlab.settings import require_count, require_inside

LARGEST = {"balance": 1.0}  # no probe exceeds this value

Observer = Callable[[Any, Any], None]  # of the states before and after a step


class JumpDistance(Tuner):
    """Changes one setting p at a time to the best of p, p (1 + rate) and p (1 - rate) (Sun et al. 2023, Alg. 3 and 4).

    The best value has the largest jump distance. That is the mean L1 distance of a step (hops on a Categorical domain)
    over the chains and `window` steps. On a tie the setting grows, as in the paper, because chains that do not move may
    need a larger step. There are two differences from Alg. 3. If all three values tie and less than half of the
    proposals are accepted, the setting shrinks. Otherwise a setting that is too large to accept any proposal would grow
    without end. And each setting is probed with the values of the others that were just found. If there are too few
    steps for one round over all settings, the window is shorter. Steps left over at the end use the settings found.

    Args:
        rate: gamma, the relative change of a probe.
        decay: beta; a round that changes no setting multiplies the rate by it.
        window: N, steps of each probe; one chain needs about 100, many chains need fewer.
        parameters: the sampler's scalar buffers to tune, in this order.

    Example:
        >>> from ebmlab.energies import Ising
        >>> from ebmlab.samplers import DMALA
        >>> from ebmlab.samplers.tuners import JumpDistance
        >>> ising = Ising.lattice(3, 0.2)
        >>> tuned, x = JumpDistance(window=5).tune(DMALA(0.2), ising, ising.domain.random(50), num_steps=60)
        >>> bool(tuned.step_size > 0.2)
        True
    """

    def __init__(
        self,
        rate: float = 0.2,
        decay: float = 0.9,
        *,
        window: int = 100,
        parameters: Sequence[str] = ("step_size", "balance"),
    ) -> None:
        require_inside("JumpDistance", "(0, 1)", rate=rate)
        require_inside("JumpDistance", "(0, 1]", decay=decay)
        require_count("JumpDistance", window=window)
        if not parameters:
            raise UserError("JumpDistance: parameters is empty, but must name what to tune")
        self.rate, self.decay, self.window, self.parameters = rate, decay, window, tuple(parameters)

    def check(self, sampler: Sampler, num_steps: int | None = None) -> None:
        scalars = {name for name, value in sampler.named_buffers(recurse=False) if value.dim() == 0}
        for name in self.parameters:
            if name not in scalars:
                known = ", ".join(sorted(scalars)) or "none"
                raise UserError(f"JumpDistance cannot tune {name} of {type(sampler).__name__}; its settings: {known}")

    def _tune(self, sampler: Sampler, energy: Energy, x: Tensor, num_steps: int) -> tuple[Sampler, Tensor]:
        state = self.search(sampler, energy, sampler.init(energy, x), num_steps)
        return sampler, state.x

    def search(
        self, sampler: Sampler, energy: Energy, state: Any, num_steps: int, *, observe: Observer | None = None
    ) -> Any:
        """Tunes `sampler` in place from `state`; `observe(before, after)` sees every step. Returns the last state."""
        window = max(1, min(self.window, num_steps // (3 * len(self.parameters))))
        rate, moved = self.rate, False
        num_blocks, rest = divmod(num_steps, 3 * window)
        for block in range(num_blocks):
            name = self.parameters[block % len(self.parameters)]
            here = getattr(sampler, name)
            probes = [here, here * (1 + rate), here * (1 - rate)]
            probes = [p.clamp(max=LARGEST[name]) for p in probes] if name in LARGEST else probes
            jumps, accepted = [], 0.0
            for value in probes:
                setattr(sampler, name, value)
                state, jump, acceptance = _run(sampler, energy, state, window, observe)
                jumps.append(jump)
                accepted += acceptance / len(probes)
            best = probes[_furthest(jumps, accepted)]
            setattr(sampler, name, best)
            moved = moved or bool(best != here)
            if name == self.parameters[-1]:
                rate, moved = (rate if moved else rate * self.decay), False
        state, *_ = _run(sampler, energy, state, rest, observe)
        return state


def _furthest(jumps: Sequence[float], accepted: float) -> int:
    """Returns which of (stay, up, down) to take: 0, 1 or 2."""
    stay, up, down = jumps
    if up == stay == down and accepted < 0.5:
        return 2
    if up >= max(stay, down):
        return 1
    return 2 if down > stay else 0


def _run(
    sampler: Sampler, energy: Energy, state: Any, num_steps: int, observe: Observer | None
) -> tuple[Any, float, float]:
    """Returns the state after `num_steps`, the sum of their jumps (mean over chains), and their mean acceptance."""
    state = replace(sampler.init(energy, state.x), step=state.step)  # the settings have changed
    jump, acceptance = torch.zeros(2, dtype=torch.float64, device=state.x.device)
    for _ in range(num_steps):
        before = state
        state, info = sampler.step(energy, before)
        jump += jump_distance(energy.domain, state.x, before.x).mean(dtype=torch.float64)
        acceptance += info.acceptance.nan_to_num(0.0).mean(dtype=torch.float64) / num_steps  # NaN: rejected
        if observe is not None:
            observe(before, state)
    return state, float(jump), float(acceptance)


def jump_distance(domain: Domain, new: Tensor, old: Tensor) -> Tensor:
    """L1 distance between states, `(B,)`; on a Categorical domain the number of coordinates that differ."""
    if isinstance(domain, Categorical):
        return domain.hops(new, old)
    return (new - old).abs().flatten(1).sum(1)
