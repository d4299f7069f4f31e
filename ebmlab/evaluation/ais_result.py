"""The estimate of log Z from annealed chains, and its error."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ebmlab.energies import Energy, Solved
from ebmlab.errors import UserError
from ebmlab.evaluation.ladder import Ladder
from ebmlab.numerics.noise import categorical


@dataclass(frozen=True)
class AISResult:
    """The estimate of log Z from the chains' weights, and diagnostics of it.

    After resampling, several chains may descend from the same first state. These chains are a family. They are not
    independent, so the standard error and the effective number of chains are computed from families (Lee & Whiteley
    2018, which estimates the variance from the indices of the first ancestors). Their estimate has a factor
    (N / (N - 1))^n for n generations of multinomial resampling. Here n = 1, because systematic resampling of equal
    weights merges no families. The standard error is then more often too large than too small.

    Attributes:
        log_weights: `(replicates, chains)`, float64, of all ranks. The mean of their exponentials estimates Z, or 1 / Z
            for reverse chains.
        samples: this rank's last states `(chains here, *event)`. Those of forward chains follow the energy's law
            approximately.
        reverse: whether the chains went from the energy to the base.
        families: `(replicates, chains)`, integers: the number of the first state that a chain descends from. None if
            no chain was resampled, so that every chain is a family.
        ladder: the inverse temperatures that the chains passed through.
        path: the effective number of chains along the ladder, `(points, 2)`: the inverse temperature that the weights
            are for, and the effective number of all chains there, since they were last resampled. A sudden fall shows
            where the law changes faster than the ladder allows, as at a phase transition.

    Example:
        >>> result = AISResult(torch.tensor([[2.0, 2.0], [2.0, 2.0]], dtype=torch.float64), samples=torch.zeros(4, 3))
        >>> result.log_z, result.std_error, round(result.ess, 6), result.max_weight, result.num_families
        (2.0, 0.0, 4.0, 0.25, 4)
    """

    log_weights: Tensor
    samples: Tensor
    reverse: bool = False
    families: Tensor | None = None
    ladder: Ladder | None = None
    path: Tensor | None = None

    @property
    def log_z(self) -> float:
        """The estimate from all chains. It is too small on average, or too large for reverse chains (Jensen)."""
        return float(self._estimate(self.log_weights.flatten(), 0))

    @property
    def replicates(self) -> list[float]:
        """The estimate from each replicate alone."""
        return [float(value) for value in self._estimate(self.log_weights, 1)]

    @property
    def std_error(self) -> float:
        """Standard error of `log_z`, from the families' weights. It is too small if a few families dominate."""
        n, shares = self.log_weights.numel(), self._shares()
        if n == 1:
            return math.nan
        spread = (shares - 1 / n).square().sum() + (n - len(shares)) / n**2  # families without chains: weight 0
        return math.sqrt(float(spread) * n / (n - 1))

    @property
    def ess(self) -> float:
        """Effective number of independent chains, (sum of w)^2 / sum of w^2, where w is the weight of a family."""
        return float(1 / self._shares().square().sum())

    @property
    def max_weight(self) -> float:
        """The largest share that one family has of the total weight."""
        return float(self._shares().max())

    @property
    def num_families(self) -> int:
        """The number of first states that have descendants."""
        return len(self._shares())

    def as_base(self, energy: Energy) -> Solved:
        """The energy with this estimate of its log Z and the chains' states, drawn by their weights.

        Annealing as many chains from it to another energy gives an unbiased estimate of that energy's Z, whose
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
        return Solved(energy, self.log_z, self.samples[drawn.to(self.samples.device)])

    def _shares(self) -> Tensor:
        """The families' shares of the total weight, `(families,)`."""
        shares = self.log_weights.flatten().softmax(0)
        if self.families is None:
            return shares
        _, index = torch.unique(self.families, return_inverse=True)
        return shares.new_zeros(int(index.max()) + 1).index_add(0, index.flatten(), shares)

    def _estimate(self, log_weights: Tensor, dim: int) -> Tensor:
        mean = log_weights.logsumexp(dim) - math.log(log_weights.shape[dim])
        return -mean if self.reverse else mean
