"""What replica exchange says about itself: rejections between neighbours, the communication barrier, round trips."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from ebmlab.energies import Energy
from ebmlab.errors import UserError
from ebmlab.samplers import Tempered, TrajectoryTempered
from ebmlab.settings import require_count


@dataclass(frozen=True)
class ExchangeReport:
    """How well replicas travel (Syed, Bouchard-Côté, Deligiannidis & Doucet 2022, Non-reversible parallel tempering).

    A round trip leads a replica from the coldest place to the hottest one and back. The communication barrier is the
    sum of the rejection rates of neighbours, in the limit of many places. It does not depend on the ladder. With fresh
    draws at each place, a long ladder has 1 / (2 + 2 barrier) round trips a round of swaps. More places than
    `suggested` gain less than they cost.

    Attributes:
        places: inverse temperatures of `Tempered`, coldest first; 0, 1, ... for the places of `TrajectoryTempered`.
        rejections: rate of rejected swaps between neighbours, `(K - 1,)`, float64.
        round_trips: of all replicas of all chains.
        rounds: of swaps, in which these were counted.
        num_chains: chains, of K replicas each.
        rungs: the place of each replica of the first chain after each step, `(steps, K)`, for a picture.

    Example:
        >>> places, rejections = torch.tensor([1.0, 0.5]), torch.tensor([0.25]).double()
        >>> report = ExchangeReport(places, rejections, round_trips=50, rounds=100, num_chains=4)
        >>> print(report)
        2 places, barrier 0.25: 0.125 round trips a round (a long ladder 0.4); swaps are rejected at 0.25; ...
    """

    places: Tensor
    rejections: Tensor
    _: KW_ONLY
    round_trips: int
    rounds: int
    num_chains: int
    rungs: Tensor = field(default_factory=lambda: torch.empty(0, 0, dtype=torch.long), repr=False, compare=False)

    @property
    def barrier(self) -> float:
        """The communication barrier from the coldest place to the hottest one."""
        return float(self.rejections.sum())

    @property
    def cumulative_barrier(self) -> Tensor:
        """The barrier from the coldest place to each, `(K,)`."""
        return torch.cat([self.rejections.new_zeros(1), self.rejections.cumsum(0)])

    @property
    def round_trip_rate(self) -> float:
        """Round trips a round of swaps, of the K replicas of a chain together."""
        return self.round_trips / (self.num_chains * self.rounds) if self.rounds else math.nan

    @property
    def best_rate(self) -> float:
        """The rate of round trips of a long ladder with fresh draws at each place: 1 / (2 + 2 barrier)."""
        return 1 / (2 + 2 * self.barrier)

    @property
    def suggested(self) -> int:
        """The number of places with which neighbours reject every second swap: 1 + 2 barrier, rounded up."""
        return max(2, 1 + math.ceil(2 * self.barrier - 1e-9))

    def __str__(self) -> str:
        rates = self.rejections.tolist()
        span = f"{min(rates):.2g}" if len(rates) == 1 else f"{min(rates):.2g} to {max(rates):.2g}"
        return (
            f"{len(self.places)} places, barrier {self.barrier:.3g}: {self.round_trip_rate:.3g} round trips a round "
            f"(a long ladder {self.best_rate:.3g}); swaps are rejected at {span}; {self.suggested} places suggested"
        )


class RoundTrips:
    """Counts round trips of labelled replicas.

    Args:
        labels: the label of the replica at each place, `(B, K)`, a permutation of 0, ..., K - 1 in each row.

    Example:
        >>> trips = RoundTrips(torch.tensor([[0, 1]]))
        >>> for labels in ([[1, 0]], [[0, 1]], [[1, 0]], [[0, 1]]):
        ...     trips.see(torch.tensor(labels))
        >>> trips.count  # replica 0 has been down and back twice, replica 1 once from the cold end
        3
    """

    def __init__(self, labels: Tensor) -> None:
        self.seen = torch.zeros_like(labels)  # 1 for a label that was at the cold end last, 2 if then at the hot one
        self._count = torch.zeros((), dtype=torch.long, device=labels.device)
        self.see(labels)

    def see(self, labels: Tensor) -> None:
        """Takes the labels after a step."""
        cold, hot = labels[:, :1], labels[:, -1:]
        self._count += (self.seen.gather(1, cold) == 2).sum()
        self.seen.scatter_(1, cold, 1)
        self.seen.scatter_(1, hot, torch.where(self.seen.gather(1, hot) == 1, 2, self.seen.gather(1, hot)))

    @property
    def count(self) -> int:
        """Round trips so far."""
        return int(self._count)


@torch.no_grad()
def exchange_report(
    energy: Energy,
    sampler: Tempered | TrajectoryTempered,
    *,
    x: Tensor,
    num_steps: int = 1000,
    burn_in: int | None = None,
) -> ExchangeReport:
    """Runs replica exchange, and reports rejections, barrier and round trips.

    Args:
        energy: E.
        sampler: with two places or more.
        x: where the chains start, `(B, *event)`, or all their replicas, `(B, K, *event)`.
        num_steps: steps that count.
        burn_in: steps before them; as many by default.

    Raises:
        UserError: there is one place only, or a number is too small.

    Example:
        >>> from ebmlab.energies import Ising
        >>> from ebmlab.samplers import Gibbs, Tempered
        >>> ising, sampler = Ising.lattice(3, 0.4), Tempered(Gibbs(), num_temperatures=3)
        >>> report = exchange_report(ising, sampler, x=ising.domain.random(20), num_steps=50)
        >>> report.rejections.shape, report.rungs.shape
        (torch.Size([2]), torch.Size([50, 3]))
    """
    require_count("exchange_report", num_steps=num_steps)
    places = sampler.betas if isinstance(sampler, Tempered) else torch.arange(1.0 + len(sampler.stages))
    if len(places) < 2:
        raise UserError("exchange_report: replicas travel between two places or more, but this sampler has one")
    sampler.check(energy)
    burn_in = num_steps if burn_in is None else burn_in
    state: Any = sampler.init(energy, x, burn_in + num_steps)
    for _ in range(burn_in):
        state, _ = sampler.step(energy, state)
    while state.rounds % 2:  # the pairs take turns, and the mean of each begins with its first
        state, _ = sampler.step(energy, state)
    state = replace(state, swap_rates=torch.zeros_like(state.swap_rates), rounds=0)
    trips, rungs = RoundTrips(state.labels), []
    for _ in range(num_steps):
        state, _ = sampler.step(energy, state)
        trips.see(state.labels)
        rungs.append(state.labels[0].argsort())
    return ExchangeReport(
        places.cpu(),
        1 - state.swap_rates.double().cpu(),
        round_trips=trips.count,
        rounds=state.rounds,
        num_chains=len(state.x),
        rungs=torch.stack(rungs).cpu(),
    )
