"""Log Z from replica exchange: Bennett's acceptance ratio between neighbours, all the way to a base law."""

from __future__ import annotations

import copy
import itertools
import math
from typing import Literal

import torch
from torch import Tensor

from ebmlab.energies import Base, Bridge, Energy
from ebmlab.energies.evaluation import Merge
from ebmlab.energies.laws import require_one_for_all
from ebmlab.errors import UserError, how_many
from ebmlab.evaluation.annealing import path_for
from ebmlab.evaluation.ladder import Ladder, fixed_ladder
from ebmlab.evaluation.log_z import MAX_GAP, LogZ
from ebmlab.evaluation.pilot import pilot_ladder
from ebmlab.io.progress import Meter
from ebmlab.numerics.products import fast_products
from ebmlab.samplers import Sampler, State, TrajectoryTempered
from ebmlab.samplers.trajectory_tempered import rise
from ebmlab.settings import require_choice

BISECTIONS = 80
PILOT = 50  # temperatures of the pilot for each rung
ROUNDS = 10  # of swaps after each step, if all places are rungs of one path and their energies are known
SWAPS = 0.02  # below this rate two neighbours hardly exchange anything


@torch.no_grad()
def exchange_log_z(
    energy: Energy,
    sampler: TrajectoryTempered,
    *,
    base: Base,
    x: Tensor,
    num_steps: int = 1000,
    num_rungs: int = 4,
    schedule: Literal["linear", "adaptive"] = "linear",
    progress: bool = False,
) -> LogZ:
    """Log Z of an energy from the replicas of chains at it, at earlier stages of its training, and on to a base law.

    Neighbours k and l of the path give D = log Z_k - log Z_l (Bennett 1976, Efficient estimation of free energy
    differences from Monte Carlo data). With a = E_l - E_k, the sum over replicas at k of sigmoid(D - a(x)) equals the
    sum over replicas at l of sigmoid(a(x) - D). In annealing, a chain passes along the path once, and the chains
    together must find every mode. Replicas go back and forth until they have found them.

    Half of the chains begin at x, and as many at draws from the base law. The first half of the steps is left out.

    Args:
        energy: E.
        sampler: its kernel moves the replicas, its stages are those of the path. Without stages the path consists of
            the rungs alone: parallel tempering from the energy to the base law.
        base: law with known log Z.
        x: states at least as likely as data, `(n, *event)`; n of at least 2. Random ones tell the estimate nothing:
            both starts then agree, and chains that do not move look trusted.
        num_steps: of each chain.
        num_rungs: temperatures between the earliest stage and the base law, the latter included.
        schedule: of the rungs: `linear`, or `adaptive`, which takes temperatures at which neighbours swap about equally
            often, and step sizes, from a pilot run (`pilot_ladder`).
        progress: show a progress bar.

    Raises:
        UserError: the sampler does not converge or does not support the energy, or a number is too small.

    Example:
        >>> from ebmlab.energies import Ising, reference
        >>> from ebmlab.evaluation import exact_log_z, exact_samples
        >>> from ebmlab.samplers import Gibbs
        >>> late, early = Ising.lattice(3, 0.4), Ising.lattice(3, 0.2)
        >>> sampler = TrajectoryTempered(Gibbs(), [early])
        >>> x, base = exact_samples(late, 50), reference(late.domain)
        >>> result = exchange_log_z(late, sampler, base=base, x=x, num_steps=40)
        >>> abs(result.log_z - float(exact_log_z(late))) < 0.3
        True
    """
    require_choice("exchange_log_z", ("linear", "adaptive"), schedule=schedule)
    _check(energy, sampler, x, num_steps, num_rungs)
    x = sampler.check_chains(energy, x, num_steps)
    kernel, base = sampler.kernel, base.to(energy.device)
    *later, earliest = sampler.path(energy)
    # The bridges' end at beta = 1 stands for the earliest stage: what it knows at x then serves all rungs.
    bridge = path_for(kernel, base, earliest)
    ladder = _ladder(bridge, kernel, len(x), num_rungs, schedule)
    bridges = [bridge.at(beta) for beta in ladder.betas]
    first, *others = path = [*later, *bridges]
    exchange = _Exchange([kernel] * len(later) + _kernels(kernel, ladder), others, sampler.swap_every)
    exchange.check(first)
    drawn = base.sample(len(x)).to(x)
    drawn = Merge(energy(drawn) < torch.inf)(drawn, x)  # chains at forbidden states could not leave them
    state = exchange.init(first, torch.cat([x, drawn]))
    rounds = 1 if later or state.replicas[0].known is None else ROUNDS  # without stages swaps need no evaluation
    rises = []
    meter = Meter("replica exchange", "step", num_steps, shown=progress)
    with fast_products(first, 2 * len(x)):
        for step in meter.along(range(num_steps)):
            state, _ = exchange.step(first, state)
            for _ in range(rounds - 1):
                state = exchange.swap(path, state)
            if step >= num_steps // 2:
                rises.append(_rises(path, state.replicas))
    at_lower, at_upper = torch.stack(rises, 2)
    total, error = _sum_of_ratios(at_lower, at_upper)
    halves = zip(at_lower.chunk(2, 2), at_upper.chunk(2, 2), strict=True)  # chains from x, and from the base law
    (from_x, error_x), (from_base, error_base) = (_sum_of_ratios(*half) for half in halves)
    log_z = bridges[-1].log_z + total
    gap = from_x - from_base
    return LogZ(
        log_z,
        error,
        gap=gap,
        doubts=doubts_of(gap, state.swap_rates),
        method=f"replica exchange, {len(path)} places, {num_steps} steps",
        gap_error=math.hypot(error_x, error_base),
        swap_rates=state.swap_rates,
    )


def _check(energy: Energy, sampler: TrajectoryTempered, x: Tensor, num_steps: int, num_rungs: int) -> None:
    require_one_for_all(energy, "exchange_log_z")
    if num_steps < 2 or num_rungs < 1 or len(x) < 2:
        raise UserError(
            f"exchange_log_z: num_steps is {num_steps}, num_rungs {num_rungs}, and x has {how_many(len(x), 'state')}; "
            "there must be at least 2 steps, 1 rung and 2 states"
        )
    if not sampler.converges:
        raise UserError(f"exchange_log_z needs a kernel that is exact, but {type(sampler.kernel).__name__} is not")


def doubts_of(gap: float, swap_rates: Tensor) -> tuple[str, ...]:
    """Why an estimate is not to be trusted, from the gap between both starts and the rates of swaps."""
    found, worst = [], float(swap_rates.min())
    if not abs(gap) <= MAX_GAP:
        found.append(
            f"chains from both ends of the path disagree by {gap:+.3g} nats in log Z (at most {MAX_GAP:g} may be): "
            "take more steps"
        )
    if not worst >= SWAPS:
        found.append(f"two neighbours swap at a rate of {worst:.2g} (at least {SWAPS:g}): take more stages or rungs")
    return tuple(found)


class _Exchange(TrajectoryTempered):
    """Replicas at all places of a path, each with a kernel of its own."""

    def __init__(self, kernels: list[Sampler], stages: list[Energy], swap_every: int) -> None:
        super().__init__(kernels[0], stages, swap_every=swap_every)
        self.kernels = kernels

    def kernel_of(self, k: int) -> Sampler:
        return self.kernels[k]


def _ladder(path: Bridge, kernel: Sampler, num_chains: int, num_rungs: int, schedule: str) -> Ladder:
    """The rungs, from the energy to the base law."""
    if schedule != "adaptive":
        return fixed_ladder("linear", num_rungs).turned()
    fine = pilot_ladder(path, kernel, num_chains, PILOT * num_rungs)
    scales = None if fine.scales is None else fine.scales[::PILOT]
    return Ladder(fine.betas[::PILOT], scales).turned()


def _kernels(kernel: Sampler, ladder: Ladder) -> list[Sampler]:
    """A kernel for each rung, with its step size."""
    kernels = [copy.deepcopy(kernel) for _ in ladder.betas]
    for each, scale in zip(kernels, ladder.scales or [], strict=False):
        each.step_size.mul_(scale)  # type: ignore[operator]
    return kernels


def _rises(path: list[Energy], replicas: list[State]) -> Tensor:
    """E_l - E_k of neighbours k and l, at the replicas of k and at those of l, `(2, pairs, B)`."""
    pairs = list(enumerate(itertools.pairwise(path)))
    at_lower = [rise(one, other, replicas[k]) for k, (one, other) in pairs]
    at_upper = [rise(one, other, replicas[k + 1]) for k, (one, other) in pairs]
    return torch.stack([torch.stack(at_lower), torch.stack(at_upper)]).double()


def _sum_of_ratios(at_lower: Tensor, at_upper: Tensor) -> tuple[float, float]:
    """Log Z of the first law of a path minus that of the last one, and its standard error.

    Args:
        at_lower: E_l - E_k at the replicas of k, `(pairs, steps, B)`.
        at_upper: the same at those of l.
    """
    possible = (at_lower > -torch.inf).all() and (at_upper < torch.inf).all()  # a neighbour may forbid a state
    if not (possible and all(a.isfinite().flatten(1).any(1).all() for a in (at_lower, at_upper))):
        return math.nan, math.nan
    both = torch.cat([at_lower, at_upper], 1).flatten(1)
    beyond, infinite = math.log(both.shape[1]), ~both.isfinite()  # how far the root may lie outside the finite numbers
    low = both.masked_fill(infinite, torch.inf).amin(1) - beyond
    high = both.masked_fill(infinite, -torch.inf).amax(1) + beyond

    def excess(d: Tensor) -> Tensor:
        """The part of each chain in the sum that is zero at the root, `(pairs, B)`."""
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
