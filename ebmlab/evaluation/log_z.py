"""An estimate of log Z: its error, and whether to trust it."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from ebmlab.energies import Energy, Solved
from ebmlab.errors import UserError
from ebmlab.evaluation.ladder import Ladder
from ebmlab.numerics.noise import categorical

MAX_GAP = 1.0  # nats between the two directions
MIN_CHAINS = 10.0  # effective ones, of each direction
NONE = torch.empty(0, dtype=torch.float64)


@dataclass(frozen=True)
class LogZ:
    """Log Z of an energy, its error, whether to trust it, and what it was computed from.

    The effective number of annealed chains does not reveal a mode that no forward chain has found. Chains that begin in
    it, on the way back, do. An estimate counts as trusted only if both directions agree and both have enough effective
    chains.

    After resampling, several chains may descend from the same first state. These chains are a family. They are not
    independent, so the standard error and the effective number of chains are computed from families. Lee & Whiteley
    (2018) estimate the variance from the indices of the first ancestors in this way. Their estimate has a factor
    (N / (N - 1))^n for n generations of multinomial resampling. Here n = 1, because systematic resampling of equal
    weights merges no families. The standard error is then more often too large than too small.

    Attributes:
        log_z: the estimate from all chains. It is too small on average, or too large for reverse chains (Jensen).
        std_error: its standard error, too small if a few families dominate. The gap is added in squares, because the
            weights' spread leaves out mass that no forward chain has found. papers/likelihoods.py measures how often
            either covers the truth.
        gap: how far the chains from the other side are off, in nats. Of annealed chains it is log Z backward minus
            forward. Of replicas it is log Z by those that began at the given states, minus by those from the base law.
            NaN if there is no other side.
        doubts: why it is not to be trusted; empty if it is.
        method: how it was computed.
        log_weights: of annealed chains, `(replicates, chains)`, float64, of all ranks. The mean of their exponentials
            estimates Z, or 1 / Z for reverse chains.
        samples: this rank's last states `(chains here, *event)`. Those of forward chains follow the energy's law
            approximately.
        reverse: whether the chains went from the energy to the base.
        families: `(replicates, chains)`, integers: the number of the first state that a chain descends from. None if
            no chain was resampled, so that every chain is a family.
        ladder: the inverse temperatures that the chains passed through.
        path: the effective number of chains along the ladder, `(points, 2)`. A row holds the inverse temperature that
            the weights are for, and the effective number there since chains were last resampled. A sudden fall shows
            where the law changes faster than the ladder allows, as at a phase transition.
        backward: the estimate of the chains that went back.
        gap_error: standard error of the gap, of replicas alone.
        swap_rates: mean acceptance of swaps between neighbours, from the energy to the base law, `(pairs,)`.

    Example:
        >>> print(LogZ(12.5, 0.03, gap=0.01, method="exchange"))
        log Z = 12.50 +- 0.03 (exchange)
        >>> forward = LogZ.of_chains(torch.zeros(1, 20, dtype=torch.float64), torch.zeros(20, 3))
        >>> forward.log_z, forward.std_error, round(forward.ess, 6), forward.num_families
        (0.0, 0.0, 20.0, 20)
        >>> backward = LogZ.of_chains(torch.full((1, 20), -25.5).double(), torch.zeros(20, 3), reverse=True)
        >>> both = forward.against(backward)
        >>> both.gap, both.trusted, both.std_error
        (25.5, False, 25.5)
    """

    log_z: float
    std_error: float
    _: KW_ONLY
    gap: float = math.nan
    doubts: tuple[str, ...] = ()
    method: str = "AIS"
    log_weights: Tensor = field(default=NONE, repr=False, compare=False)
    samples: Tensor = field(default=NONE, repr=False, compare=False)
    reverse: bool = False
    families: Tensor | None = field(default=None, repr=False, compare=False)
    ladder: Ladder | None = field(default=None, repr=False, compare=False)
    path: Tensor | None = field(default=None, repr=False, compare=False)
    backward: LogZ | None = field(default=None, repr=False, compare=False)
    gap_error: float = math.nan
    swap_rates: Tensor = field(default=NONE, repr=False, compare=False)

    @classmethod
    def of_chains(
        cls, log_weights: Tensor, samples: Tensor, *, reverse: bool = False, families: Tensor | None = None, **more: Any
    ) -> LogZ:
        """The estimate of chains that were annealed in one direction; for arguments see the attributes."""
        shares = _shares(log_weights, families)
        n = log_weights.numel()
        spread = (shares - 1 / n).square().sum() + (n - len(shares)) / n**2  # families without chains: weight 0
        there, back = ("backward", "forward") if reverse else ("forward", "backward")
        doubts = [f"there is no {back} estimate"]
        ess = _ess(shares)
        if n <= MIN_CHAINS:
            doubts.append(f"{n} {there} chains are too few to judge by (more than {MIN_CHAINS:g} must be)")
        elif not ess >= MIN_CHAINS:
            doubts.append(f"only {ess:.3g} of {n} {there} chains are effective ({MIN_CHAINS:g} must be)")
        log_z = float(_mean(log_weights.flatten(), 0, reverse))
        error = math.sqrt(float(spread) * n / (n - 1)) if n > 1 else math.nan
        chains: dict[str, Any] = {"log_weights": log_weights, "samples": samples, "families": families, **more}
        return cls(log_z, error, doubts=tuple(doubts), reverse=reverse, **chains)

    def against(self, backward: LogZ) -> LogZ:
        """This estimate, judged by one of `reverse_ais`, from states at least as likely as the data."""
        gap = backward.log_z - self.log_z
        doubts = [*self.doubts[1:], *backward.doubts[1:]]  # without the first: there is another side
        if not abs(gap) <= MAX_GAP:
            doubts.insert(0, f"log Z backward is {gap:+.3g} nats from log Z forward (at most {MAX_GAP:g} may be)")
        error = math.hypot(self.std_error, gap)
        return replace(self, std_error=error, gap=gap, doubts=tuple(doubts), backward=backward)

    @property
    def trusted(self) -> bool:
        """Whether there is nothing to doubt."""
        return not self.doubts

    @property
    def replicates(self) -> list[float]:
        """The estimate from each replicate alone."""
        return [float(value) for value in _mean(self.log_weights, 1, self.reverse)]

    @property
    def ess(self) -> float:
        """Effective number of independent chains, (sum of w)^2 / sum of w^2, where w is the weight of a family."""
        return _ess(_shares(self.log_weights, self.families))

    @property
    def max_weight(self) -> float:
        """The largest share that one family has of the total weight."""
        return float(_shares(self.log_weights, self.families).max())

    @property
    def num_families(self) -> int:
        """The number of first states that have descendants."""
        return len(_shares(self.log_weights, self.families))

    def as_base(self, energy: Energy) -> Solved:
        """The energy with this estimate of its log Z and the chains' states, drawn by their weights.

        Annealing as many chains from it to another energy gives an unbiased estimate of that energy's Z. Its
        `std_error` leaves out the one of this result.

        Args:
            energy: the energy that the chains were annealed to.

        Raises:
            UserError: the chains went backward, or other ranks have some of them.
        """
        shares = self.log_weights.flatten().log_softmax(0)
        if self.reverse or len(shares) != len(self.samples):
            raise UserError("as_base needs all forward chains of an estimate in one process")
        drawn = categorical(shares, num_draws=len(shares))
        return Solved(energy, self.log_z, samples=self.samples[drawn.to(self.samples.device)])

    def __str__(self) -> str:
        error = f"+- {self.std_error:.2g}" if self.trusted else f"not to be trusted: {'; '.join(self.doubts)}"
        return f"log Z = {self.log_z:.2f} {error} ({self.method})"


def _shares(log_weights: Tensor, families: Tensor | None) -> Tensor:
    """The families' shares of the total weight, `(families,)`."""
    shares = log_weights.flatten().softmax(0)
    if families is None:
        return shares
    _, index = torch.unique(families, return_inverse=True)
    return shares.new_zeros(int(index.max()) + 1).index_add(0, index.flatten(), shares)


def _ess(shares: Tensor) -> float:
    return float(1 / shares.square().sum())


def _mean(log_weights: Tensor, dim: int, reverse: bool) -> Tensor:
    mean = log_weights.logsumexp(dim) - math.log(log_weights.shape[dim])
    return -mean if reverse else mean
