"""Log Z from both sides, and whether the two agree."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ebmlab.energies import Energy
from ebmlab.evaluation.ais_result import AISResult
from ebmlab.samplers import Sampler

MAX_GAP = 1.0  # nats between the two directions
MIN_CHAINS = 10.0  # effective ones, of each direction


@dataclass(frozen=True)
class Bracket:
    """A forward and a backward estimate of log Z.

    The effective number of chains does not reveal a mode that no forward chain has found. Chains that begin in it, on
    the way back, do. A likelihood counts as trusted only if both directions agree and both have enough effective
    chains; chains of one family count as one, so that many families must have survived resampling.

    Attributes:
        forward: of `ais`.
        backward: of `reverse_ais`, from states at least as likely as the data; None where there is none.
    """

    forward: AISResult
    backward: AISResult | None

    @property
    def gap(self) -> float:
        """Backward log Z minus the forward one, in nats; NaN without a backward estimate."""
        return math.nan if self.backward is None else self.backward.log_z - self.forward.log_z

    @property
    def std_error(self) -> float:
        """The forward estimate's standard error and the gap, added in squares.

        The weights' spread alone leaves out mass that no forward chain has found; the gap is what backward chains say
        of it (papers/likelihoods.py measures how often either covers the truth).
        """
        return self.forward.std_error if self.backward is None else math.hypot(self.forward.std_error, self.gap)

    @property
    def trusted(self) -> bool:
        """Whether there is nothing to doubt."""
        return not self.doubts

    @property
    def doubts(self) -> list[str]:
        """Why the estimate is not to be trusted; empty if it is."""
        found = []
        if self.backward is None:
            found.append("there is no backward estimate")
        elif not abs(self.gap) <= MAX_GAP:
            found.append(f"log Z backward is {self.gap:+.3g} nats from log Z forward (at most {MAX_GAP:g} may be)")
        for name, result in (("forward", self.forward), ("backward", self.backward)):
            if result is not None and not result.ess >= MIN_CHAINS:
                total = result.log_weights.numel()
                found.append(f"only {result.ess:.3g} of {total} {name} chains are effective ({MIN_CHAINS:g} must be)")
        return found


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
