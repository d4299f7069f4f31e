"""Log Z from replica exchange: Bennett's acceptance ratio between neighbours, all the way to a base law."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ebmlab.energies import Base, Energy
from ebmlab.errors import UserError
from ebmlab.evaluation.annealing import path_for
from ebmlab.evaluation.bracket import MAX_GAP
from ebmlab.samplers import TrajectoryTempered

BISECTIONS = 80
SWAPS = 0.02  # below this rate two neighbours hardly exchange anything


@dataclass(frozen=True)
class ExchangeResult:
    """Log Z of the energy at the end of a path of replicas.

    Attributes:
        log_z: by all chains.
        std_error: from the spread over the chains, which are independent of each other.
        gap: log Z by the chains that began at the given states, minus that by those that began at the base law.
        gap_error: its standard error.
        swap_rates: mean acceptance of swaps between neighbours, from the energy to the base law, `(pairs,)`.

    Example:
        >>> result = ExchangeResult(9.7, 0.1, gap=3.0, gap_error=0.2, swap_rates=torch.tensor([0.3, 0.2]))
        >>> result.trusted, result.doubts
        (False, ['chains from both ends of the path disagree by +3 nats in log Z (at most 1 may be): take more steps'])
    """

    log_z: float
    std_error: float
    gap: float
    gap_error: float
    swap_rates: Tensor

    @property
    def trusted(self) -> bool:
        """Whether there is nothing to doubt."""
        return not self.doubts

    @property
    def doubts(self) -> list[str]:
        """Why the estimate is not to be trusted; empty if it is."""
        found, worst = [], float(self.swap_rates.min())
        if not abs(self.gap) <= MAX_GAP:
            found.append(
                f"chains from both ends of the path disagree by {self.gap:+.3g} nats in log Z (at most {MAX_GAP:g} "
                "may be): take more steps"
            )
        if not worst >= SWAPS:
            found.append(
                f"two neighbours swap at a rate of {worst:.2g} (at least {SWAPS:g}): take more stages or rungs"
            )
        return found


@torch.no_grad()
def exchange_log_z(
    energy: Energy, sampler: TrajectoryTempered, base: Base, x: Tensor, num_steps: int = 1000, rungs: int = 4
) -> ExchangeResult:
    """Log Z of an energy from the replicas of chains at it, at earlier stages of its training, and on to a base law.

    Neighbours k and l of the path give D = log Z_k - log Z_l as the root of the sum over replicas at k of
    sigmoid(D - a(x)) minus the sum over replicas at l of sigmoid(a(x) - D), with a = E_l - E_k (Bennett 1976,
    Efficient estimation of free energy differences from Monte Carlo data). Annealing has to find every mode on a single
    way along its path; replicas go back and forth along theirs until they have.

    Half of the chains begin at x, and as many at draws from the base law. The first half of the steps is left out.

    Args:
        energy: E.
        sampler: its kernel moves the replicas, its stages are those of the path. Without stages the path consists of
            the rungs alone: parallel tempering from the energy to the base law.
        base: law with known log Z.
        x: states at least as likely as data, `(n, *event)`; n of at least 2.
        num_steps: of each chain.
        rungs: temperatures between the earliest stage and the base law, the latter included.

    Raises:
        UserError: the sampler does not converge or does not support the energy, or a number is too small.

    Example:
        >>> from ebmlab.energies import Ising, reference
        >>> from ebmlab.evaluation import exact_log_z
        >>> from ebmlab.samplers import Gibbs
        >>> late, early = Ising.lattice(3, 0.4), Ising.lattice(3, 0.2)
        >>> sampler = TrajectoryTempered(Gibbs(), [early])
        >>> result = exchange_log_z(late, sampler, reference(late.domain), late.random(50), num_steps=40)
        >>> abs(result.log_z - float(exact_log_z(late))) < 0.3
        True
    """
    if num_steps < 2 or rungs < 1 or len(x) < 2:
        raise UserError(
            f"exchange_log_z: num_steps is {num_steps}, rungs {rungs}, and x has {len(x)} states; there must be at "
            "least 2 steps, 1 rung and 2 states"
        )
    if not sampler.converges:
        raise UserError(f"exchange_log_z needs a kernel that is exact, but {type(sampler.kernel).__name__} is not")
    energy.domain.validate(x)
    stages: list[Energy] = list(sampler.stages)  # type: ignore[arg-type]
    earliest = stages[-1] if stages else energy
    ladder = [path_for(sampler.kernel, base.to(energy.device), earliest) for _ in range(rungs)]
    for k, rung in enumerate(ladder):
        rung.beta = 1 - (k + 1) / rungs
    exchange = TrajectoryTempered(sampler.kernel, [*stages, *ladder], sampler.swap_every)
    exchange.check(energy)
    path, state = exchange.path(energy), exchange.init(energy, torch.cat([x, base.draw(len(x)).to(x)]))
    rises = []
    for step in range(num_steps):
        state, _ = exchange.step(energy, state)
        if step >= num_steps // 2:
            rises.append(_rises(path, [replica.x for replica in state.replicas]))
    at_lower, at_upper = torch.stack(rises, 2)
    total, error = _sum_of_ratios(at_lower, at_upper)
    halves = zip(at_lower.chunk(2, 2), at_upper.chunk(2, 2), strict=True)  # by where they began
    (first, one), (second, other) = (_sum_of_ratios(*half) for half in halves)
    log_z = ladder[-1].log_z + total
    return ExchangeResult(log_z, error, first - second, math.hypot(one, other), state.swap_rates)


def _rises(path: list[Energy], replicas: list[Tensor]) -> Tensor:
    """E_l - E_k of neighbours k and l, at the replicas of k and at those of l, `(2, pairs, B)`."""
    own = [each(x).double() for each, x in zip(path, replicas, strict=True)]
    up = [each(x).double() for each, x in zip(path[1:], replicas[:-1], strict=True)]
    down = [each(x).double() for each, x in zip(path[:-1], replicas[1:], strict=True)]
    pairs = range(len(path) - 1)
    return torch.stack(
        [torch.stack([up[k] - own[k] for k in pairs]), torch.stack([own[k + 1] - down[k] for k in pairs])]
    )


def _sum_of_ratios(at_lower: Tensor, at_upper: Tensor) -> tuple[float, float]:
    """Log Z of the first law of a path minus that of the last one, and its standard error.

    Args:
        at_lower: E_l - E_k at the replicas of k, `(pairs, steps, B)`.
        at_upper: the same at those of l.
    """
    if not (at_lower.isfinite().all() and at_upper.isfinite().all()):
        return math.nan, math.nan
    both = torch.cat([at_lower, at_upper], 1).flatten(1)
    low, high = both.amin(1), both.amax(1)

    def excess(d: Tensor) -> Tensor:
        """What is zero at the root, chain by chain, `(pairs, B)`."""
        d = d[:, None, None]
        return torch.sigmoid(d - at_lower).sum(1) - torch.sigmoid(at_upper - d).sum(1)

    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        above = excess(middle).sum(1) > 0
        low, high = torch.where(above, low, middle), torch.where(above, middle, high)
    root = (low + high) / 2
    slope = torch.sigmoid(root[:, None] - both).mul_(torch.sigmoid(both - root[:, None])).sum(1)
    shares = (excess(root) / slope[:, None]).sum(0)  # by which each chain moves the sum, to first order
    chains = len(shares)
    return float(root.sum()), math.sqrt(chains / (chains - 1) * float(shares.square().sum()))
